"""The share of malformed records, from the summaries of a stream's batches."""

from __future__ import annotations

import pytest

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.rejection import Counters, Share, counters_of, has_rejected
from sluice.core.tables.without_record import WithoutRecord


def summary(begin: int, end: int, rows: int, rejected: int = 0, malformed: int = 0) -> dict[str, str]:
    """Return the summary of a batch; ``rejected`` and ``malformed``: by those before it."""
    return {
        "sluice.kind": "batch",
        "sluice.writer": "w1_a",
        "sluice.batch-id": str(begin),
        "sluice.offset-ranges": f'{{"0": [{begin}, {end}]}}',
        "sluice.start-offsets": '{"0": 10}',
        "sluice.end-offsets": f'{{"0": {end}}}',
        "sluice.rejected": str(rejected),
        "sluice.rejected-by": "w1_a/0",
        "sluice.malformed": str(malformed),
        "added-records": str(rows),
    }


# 10 rows; then 5 rows and 15 rejected, 4 of them on purpose; then 20 rows.
BATCHES = [
    (3.0, summary(40, 60, 20, 15, 11)),
    (2.0, summary(20, 40, 5)),
    (1.0, summary(10, 20, 10)),
]


def test_counters_are_before_and_after_each_batch() -> None:
    assert counters_of(BATCHES, 11) == (
        Counters(1.0, 0, 0),
        Counters(1.0, 10, 0),
        Counters(2.0, 15, 11),
        Counters(3.0, 35, 11),
    )
    assert counters_of(BATCHES[1:], 0)[-1] == Counters(2.0, 15, 0), "its own are not known yet"
    assert counters_of([], 7) == ()
    assert (has_rejected(BATCHES), has_rejected(BATCHES[:1]), has_rejected([])) == (True, False, False)


def test_a_share_is_of_rows_and_malformed_records() -> None:
    first, *_, last = counters_of(BATCHES, 11)
    assert last.since(first) == Share(11, 46)
    assert str(Share(11, 46)) == "11 of the last 46 records (23.9 %)"
    # A catalog that was restored.
    assert first.since(last) == Share(0, 0)
    assert Share(0, 0).percent == 0


@pytest.mark.parametrize(
    ("share", "percent", "expected"),
    [
        (Share(1, 10), 5, False),
        (Share(4, 4), 5, False),
        (Share(5, 5), 5, True),
        (Share(5, 5), 99, True),
        (Share(5, 5), 100, False),
        (Share(5, 100), 5, False),
        (Share(6, 100), 5, True),
    ],
)
def test_a_share_exceeds_a_limit_with_five_malformed_records_and_more_than_it(
    share: Share, percent: int, expected: bool
) -> None:
    assert share.exceeds(percent) is expected


def test_offsets_without_a_record_count_neither_as_rows_nor_as_malformed() -> None:
    """Twenty offsets each, of which a transaction's marker and nine aborted records are no records."""
    said = WithoutRecord(OffsetRanges.of({0: [(39, 40)]}), OffsetRanges.of({0: [(20, 29)]})).properties()
    newest = [(3.0, summary(40, 60, 20)), (2.0, summary(20, 40, 10) | said)]
    assert not has_rejected(newest)
    first, middle, last = counters_of(newest, 0)
    assert (middle.since(first), last.since(middle)) == (Share(0, 10), Share(0, 20))
    malformed = [(3.0, summary(40, 60, 20, 2, 2)), (2.0, summary(20, 40, 8) | said)]
    first, middle, last = counters_of(malformed, 2)
    assert (middle.since(first), last.since(middle)) == (Share(2, 10), Share(0, 20))
