"""What the accounts of a batch's tasks say together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from sluice.core.tables.without_record import WithoutRecord
from spark_jobs.common.consumer.direct.direct_rows import last_epochs, without_record
from spark_jobs.common.consumer.direct.rejected import RejectedPart
from spark_jobs.common.consumer.direct.task import Result
from tests.support.direct_batches import account


def result(*accounts: tuple[int, Any]) -> Result:
    return Result((), RejectedPart(), (), accounts)


def offsets(*pairs: tuple[int, int]) -> IntervalSet:
    return IntervalSet.of(pairs)


def test_offsets_without_a_record_are_those_of_all_tasks() -> None:
    results = [
        result(
            (0, account(0, 10, control=offsets((9, 10)), aborted=offsets((0, 2), (5, 6)))),
            (1, account(0, 10)),
        ),
        result((0, account(10, 20, control=offsets((10, 11)), absent=offsets((19, 20)), evidence="b"))),
        result((2, account(0, 5, absent=offsets((0, 5)), evidence="a"))),
        result((3, account(0, 5, absent=offsets((1, 2)), evidence="a"))),
        result(),
    ]
    assert without_record(results) == WithoutRecord(
        OffsetRanges.of({0: [(9, 11)]}),
        OffsetRanges.of({0: [(0, 2), (5, 6)]}),
        OffsetRanges.of({0: [(19, 20)], 2: [(0, 5)], 3: [(1, 2)]}),
        "a; b",
    )


def test_without_such_offsets_there_is_nothing_to_say() -> None:
    assert without_record([result((0, account(0, 10)))]) == without_record([]) == WithoutRecord()


def test_the_epoch_of_a_partitions_last_record_counts_in_whatever_order_tasks_end() -> None:
    accounts = [
        (0, account(10, 20, last_epoch=5)),
        (1, account(0, 5, last_epoch=2)),
        (0, account(0, 10, last_epoch=4)),
        # Its last offsets are absent: they may have had any later one.
        (2, account(0, 5, last_epoch=None)),
    ]
    before = {0: 3, 2: 1, 7: 6}
    for one in (accounts, accounts[::-1]):
        assert last_epochs(before, one) == {0: 5, 1: 2, 7: 6}


def test_records_that_the_stream_skips_are_in_the_account_of_the_batch() -> None:
    skipped = OffsetRanges.of({0: [(3, 5)]})
    results = [
        replace(result((0, account(0, 10, control=offsets((9, 10))))), skipped=skipped),
        replace(result((1, account(0, 5))), skipped=OffsetRanges.of({1: [(0, 1)]})),
    ]
    found = without_record(results)
    assert found == WithoutRecord(
        OffsetRanges.of({0: [(9, 10)]}), skipped=OffsetRanges.of({0: [(3, 5)], 1: [(0, 1)]})
    )
    assert found.offsets.count == 4
    assert WithoutRecord.of(found.properties()) == found
    assert "3 tombstones, which the stream skips" in found.message()
