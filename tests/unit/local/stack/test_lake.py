"""The comparison of offsets that the demo, the drills and the integration tests share."""

from __future__ import annotations

import pyarrow as pa
import pytest

from local.stack.lake import OFFSETS, OffsetComparison, compare
from local.stack.lake import held as local_held
from sluice.core.offsets.ranges import OffsetRanges

STARTS, TOPIC = {0: 0, 1: 5}, {0: (0, 3), 1: (0, 7), 2: (0, 0)}
SCHEMA = pa.schema([("_kafka_partition", pa.int32()), ("_kafka_offset", pa.int64())])
Places = list[tuple[int | None, int | None]]


def rows(places: Places) -> pa.RecordBatchReader:
    found = [dict(zip(OFFSETS, place, strict=True)) for place in places]
    return pa.Table.from_pylist(found, SCHEMA).to_reader(max_chunksize=2)


def compared(lake: Places, quarantine: Places) -> OffsetComparison:
    with local_held(rows(lake), rows(quarantine)) as sql:
        return compare(sql, STARTS, TOPIC)


@pytest.mark.parametrize(
    ("in_lake", "gaps", "duplicates", "unexpected"),
    [
        ({0: [0, 1, 2], 1: [5, 6]}, 0, 0, 0),
        ({0: [0, 2], 1: [5, 6]}, 1, 0, 0),
        ({0: [0, 1, 2, 2], 1: [5, 6, 5]}, 0, 2, 0),
        ({0: [0, 1, 1], 1: [5, 6]}, 1, 1, 0),
        ({0: [0, 1, 2]}, 2, 0, 0),
        ({}, 5, 0, 0),
        # What lies before the stream's start, or was written after the end was asked for, fills no gap.
        ({0: [0, 1, 2], 1: [5, 6], 9: [0]}, 0, 0, 1),
        ({0: [0, 1, 3, 4], 1: [4, 5, 6, 7]}, 1, 0, 4),
    ],
)
def test_gaps_duplicates_and_unexpected_offsets(
    in_lake: dict[int, list[int]], gaps: int, duplicates: int, unexpected: int
) -> None:
    places = [(partition, offset) for partition, offsets in in_lake.items() for offset in offsets]
    assert compared([*places], []) == OffsetComparison(gaps, duplicates, unexpected, records=5)


def test_what_is_in_the_table_and_quarantined_is_there_twice_and_quarantined_twice_once() -> None:
    table: Places = [(0, 1), (0, 2), (None, None)]
    quarantined: Places = [(0, 0), (0, 0), (1, 5), (None, None)]
    assert compared(table, quarantined) == OffsetComparison(gaps=1, duplicates=0, unexpected=0, records=5)
    assert compared(table, [*quarantined, (0, 2)]).duplicates == 1


def test_an_offset_at_which_the_topic_delivers_no_record_is_no_gap() -> None:
    """As that of a transaction's marker."""
    asked: list[OffsetRanges] = []

    def delivered(missing: OffsetRanges) -> OffsetRanges:
        asked.append(missing)
        return OffsetRanges.of({1: [(6, 7)]})

    with local_held(rows([(0, 0), (0, 1)]), rows([(1, 5)])) as sql:
        found = compare(sql, STARTS, TOPIC, delivered)
    assert asked == [OffsetRanges.of({0: [(2, 3)], 1: [(6, 7)]})]
    assert found == OffsetComparison(gaps=1, duplicates=0, unexpected=0, records=4)


@pytest.mark.parametrize(
    ("counts", "exact"), [((0, 0, 0), True), ((1, 0, 0), False), ((0, 1, 0), False), ((0, 0, 1), False)]
)
def test_exact_is_none_of_each(counts: tuple[int, int, int], exact: bool) -> None:
    assert OffsetComparison(*counts, records=9).is_ok is exact
