"""Duplicates among the rows of a partition, as a plain model finds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.decoding.duplicates import Deduplication
from sluice.core.decoding.identity import identity
from sluice.core.offsets.deduplication import LoadedRows, loaded_from
from sluice.core.offsets.ranges import OffsetRanges

PARTITION = 3
IDS = ("0" * 16, "1" * 16, "f" * 16)
TABLE = "duplicate: this row of its source is in the table already"
# Source, sequence number, whether it is good; no source for an external record.
Row = tuple[str | None, int, bool]


@dataclass
class Model:
    loaded: set[tuple[str, int]]
    at: dict[tuple[str, int], int] = field(default_factory=dict)

    def duplicates(self, offsets: Sequence[int], rows: Sequence[Row]) -> dict[int, str]:
        found = {}
        for place, (offset, (source, sequence, is_good)) in enumerate(zip(offsets, rows, strict=True)):
            if source is None or not is_good:
                continue
            row = (source, sequence)
            if row in self.loaded:
                found[place] = TABLE
                continue
            if row in self.at:
                found[place] = f"duplicate: this row is also at offset {self.at[row]}"
            self.at[row] = offset
        return found


def loaded(rows: set[tuple[str, int]], partition: int = PARTITION) -> LoadedRows:
    by_source: dict[str, list[int]] = {}
    for source, sequence in rows:
        by_source.setdefault(source, []).append(sequence)
    return LoadedRows({s: OffsetRanges.of_values({partition: numbers}) for s, numbers in by_source.items()})


def duplicates(found: Deduplication, offsets: Sequence[int], rows: Sequence[Row]) -> dict[int, str]:
    keys = [f"{source}:7:{sequence}".encode() if source else None for source, sequence, _ in rows]
    is_good = np.array([good for _, _, good in rows], np.bool_)
    return found.duplicates(np.array(offsets, np.int64), identity(pa.array(keys, pa.binary())), is_good)


SEQUENCES = st.integers(0, 12)
ROW = st.tuples(
    st.sampled_from([*IDS, IDS[0], IDS[0], None]), SEQUENCES, st.sampled_from([True, True, True, False])
)


@st.composite
def rising(draw: st.DrawFn) -> list[Row]:
    """Rows of one producer, as most are."""
    source, first, count = draw(st.sampled_from(IDS)), draw(SEQUENCES), draw(st.integers(1, 12))
    return [(source, first + n, True) for n in range(count)]


PIECE = st.lists(st.lists(ROW, max_size=6) | rising(), max_size=3).map(
    lambda parts: [row for part in parts for row in part]
)


@settings(max_examples=6 * settings().max_examples)
@given(
    pieces=st.lists(PIECE, max_size=6),
    table=st.sets(st.tuples(st.sampled_from(IDS), SEQUENCES), max_size=8),
    steps=st.lists(st.integers(1, 3), min_size=1, max_size=7),
)
def test_duplicates_are_those_of_the_model(
    pieces: list[list[Row]], table: set[tuple[str, int]], steps: list[int]
) -> None:
    model, found = Model(table), Deduplication(PARTITION, loaded(table))
    offset = 100
    for rows in pieces:
        offsets = []
        for n in range(len(rows)):
            offset += steps[n % len(steps)]
            offsets.append(offset)
        assert duplicates(found, offsets, rows) == model.duplicates(offsets, rows)
    runs = found.runs()
    assert (
        loaded_from(runs)
        == loaded_from(sorted(runs))
        == LoadedRows(dict(sorted(loaded(set(model.at)).sources.items())))
    )
    assert sum(run.records for run in runs) == len(model.at)


def test_the_next_lower_offset_is_named() -> None:
    found = Deduplication(PARTITION, LoadedRows())
    row: Row = (IDS[0], 5, True)
    assert duplicates(found, [10, 20], [row, row]) == {1: "duplicate: this row is also at offset 10"}
    assert duplicates(found, [30, 40], [row, row]) == {
        0: "duplicate: this row is also at offset 20",
        1: "duplicate: this row is also at offset 30",
    }


def test_another_partition_s_rows_are_others() -> None:
    found = Deduplication(PARTITION, loaded({(IDS[0], 1)}, PARTITION + 1))
    assert duplicates(found, [0], [(IDS[0], 1, True)]) == {}


def test_every_row_of_a_closed_source_is_a_duplicate() -> None:
    found = Deduplication(PARTITION, LoadedRows.all_of([IDS[0]], [PARTITION]))
    rows: list[Row] = [(IDS[0], 10**18 - 1, True), (IDS[0], 0, True), (IDS[1], 0, True)]
    assert duplicates(found, [0, 1, 2], rows) == {0: TABLE, 1: TABLE}
    assert [run.source_id for run in found.runs()] == [IDS[1]]


def test_a_bad_row_is_no_duplicate_and_has_none() -> None:
    found = Deduplication(PARTITION, loaded({(IDS[0], 1)}))
    rows: list[Row] = [(IDS[0], 1, False), (IDS[0], 2, False), (IDS[0], 2, True)]
    assert duplicates(found, [0, 1, 2], rows) == {}


def test_rows_of_one_producer_are_one_run() -> None:
    found = Deduplication(PARTITION, LoadedRows())
    for first in range(0, 1000, 100):
        rows: list[Row] = [(IDS[0], first + n, True) for n in range(100)]
        assert duplicates(found, range(first, first + 100), rows) == {}
    ((layer,),) = found._layers.values()
    assert layer.starts.tolist() == [0]
    # Again, in reverse order: each has a base of its own.
    rows = [(IDS[0], 999 - n, True) for n in range(1000)]
    again = duplicates(found, range(1000, 2000), rows)
    assert again == {n: f"duplicate: this row is also at offset {999 - n}" for n in range(1000)}
    assert [run.records for run in found.runs()] == [1000]


@pytest.mark.parametrize("offsets", [[5, 5], [6, 5], [4, 6]])
def test_offsets_rise(offsets: list[int]) -> None:
    found = Deduplication(PARTITION, LoadedRows())
    duplicates(found, [4], [(None, 0, True)])
    duplicates(found, [], [])
    with pytest.raises(ValueError, match="do not rise"):
        duplicates(found, offsets, [(None, 0, True)] * 2)
