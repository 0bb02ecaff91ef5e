"""Whether the quarantine holds what a stream's batches rejected, from the summaries of both tables."""

from __future__ import annotations

import pytest

from sluice.core.offsets.quarantine import (
    NO_REJECTIONS,
    Rejections,
    Settlement,
    held_in,
    malformed_out,
    rejected_by,
    settlement,
)
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.without_record import WithoutRecord

FIRST, SECOND = Rejections(3, "w1_a/0"), Rejections(5, "w1_a/7")
LINE = [SECOND, FIRST, NO_REJECTIONS]


@pytest.mark.parametrize(
    ("rejected", "line", "is_staged", "expected"),
    [
        (SECOND, LINE, False, Settlement.NOTHING),
        (NO_REJECTIONS, [NO_REJECTIONS], False, Settlement.NOTHING),
        (SECOND, LINE[1:], True, Settlement.PUBLISH_STAGED),
        (SECOND, LINE[1:], False, Settlement.LOST),
        (FIRST, LINE, False, Settlement.REMOVE_LATER),
        (NO_REJECTIONS, LINE, True, Settlement.REMOVE_LATER),
        # Older snapshots have expired.
        (FIRST, [SECOND], False, Settlement.REMOVE_LATER),
        (SECOND, [FIRST], False, Settlement.LOST),
        (SECOND, [], False, Settlement.LOST),
        # As many, rejected by batches of another line: both tables were restored, one after the other.
        (Rejections(5, "w2_b/0"), LINE, False, Settlement.LOST),
        (Rejections(3, "w2_b/0"), LINE, False, Settlement.LOST),
    ],
)
def test_both_tables_show_what_is_to_be_done(
    rejected: Rejections, line: list[Rejections], is_staged: bool, expected: Settlement
) -> None:
    assert settlement(rejected, line, is_staged=is_staged) is expected


def test_a_batch_rejected_its_offsets_less_its_rows() -> None:
    before = {"sluice.rejected": "4", "sluice.rejected-by": "w1_a/0", "sluice.malformed": "3"}
    batch = before | {
        "sluice.kind": "batch",
        "sluice.writer": "w2_b",
        "sluice.batch-id": "7",
        "sluice.offset-ranges": '{"0": [3, 8], "2": [0, 5]}',
    }
    assert rejected_by(batch | {"added-records": "7"}) == Rejections(4 + 3, "w2_b/7")
    # Iceberg writes no count of a commit without rows.
    assert rejected_by(batch) == Rejections(4 + 10, "w2_b/7")
    assert rejected_by(batch).malformed == 3, "a batch does not say how many of its own"
    after = rejected_by(batch).more(5, "w2_b/8", 2)
    assert (after.malformed, after.properties()["sluice.malformed"]) == (5, "5")
    assert after == Rejections(19, "w2_b/8"), "that identifies nothing"
    assert rejected_by(batch | {"added-records": "10"}) == Rejections(4, "w1_a/0")
    assert rejected_by(before | {"sluice.kind": "epoch-start"}) == Rejections(4, "w1_a/0")
    assert rejected_by({}) == NO_REJECTIONS


def test_a_batch_from_before_rejections_were_counted_has_none() -> None:
    """Its rejected records are in the quarantine, whose snapshots do not count them either."""
    batch = {"sluice.kind": "batch", "sluice.offset-ranges": '{"0": [3, 8]}', "added-records": "1"}
    assert rejected_by(batch) == NO_REJECTIONS


def test_commits_of_others_do_not_change_what_the_quarantine_holds() -> None:
    producer: dict[str, str] = {"added-records": "2"}
    assert held_in([producer, SECOND.properties(), FIRST.properties()]) == SECOND
    assert held_in([producer]) == NO_REJECTIONS


def test_a_change_says_of_which_batches_it_takes_malformed_records_out() -> None:
    def batch(number: int, begin: int, end: int) -> dict[str, str]:
        return {
            "sluice.kind": "batch",
            "sluice.writer": "w1_a",
            "sluice.batch-id": str(number),
            "sluice.offset-ranges": f'{{"0": [{begin}, {end}]}}',
        }

    summaries = [batch(3, 30, 40), {"sluice.kind": "epoch-start"}, {}, batch(2, 20, 30), batch(1, 10, 20)]
    out = OffsetRanges.of({0: [(5, 22), (33, 34)]})
    assert malformed_out(summaries, out, 3) == {"w1_a/3": 1, "w1_a/2": 2, "w1_a/1": 10}
    assert malformed_out(summaries, out, 2) == {"w1_a/3": 1, "w1_a/2": 2}, "of the newest"
    assert malformed_out(summaries, OffsetRanges(), 3) == {}


def test_offsets_without_a_record_are_not_rejected() -> None:
    said = WithoutRecord(OffsetRanges.of({0: [(29, 30)]}), OffsetRanges.of({0: [(20, 24)]})).properties()
    summary = {
        "sluice.kind": "batch",
        "sluice.writer": "w1_a",
        "sluice.batch-id": "7",
        "sluice.offset-ranges": '{"0": [20, 30]}',
        "sluice.rejected": "3",
        "sluice.rejected-by": "w1_a/0",
        "sluice.malformed": "2",
        **said,
    }
    assert rejected_by(summary | {"added-records": "5"}) == FIRST, "five rows of five records"
    assert rejected_by(summary | {"added-records": "3"}) == Rejections(5, "w1_a/7")
