"""A batch with offsets that no account has is not published."""

from __future__ import annotations

import pytest

from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.consumer.direct.batch import AccountLost, check_accounts
from spark_jobs.common.consumer.direct.rejected import RejectedPart
from spark_jobs.common.consumer.direct.task import Result
from tests.support.direct_batches import account

RANGES = OffsetRanges.of({0: [(0, 10)], 3: [(5, 7)]})


def result(*accounts: tuple[int, int, int]) -> Result:
    found = tuple((partition, account(begin, end)) for partition, begin, end in accounts)
    return Result((), RejectedPart(), (), found)


def test_each_offset_has_its_account() -> None:
    check_accounts(RANGES, [result((0, 4, 10), (3, 5, 7)), result(), result((0, 0, 4), (0, 0, 4))])


@pytest.mark.parametrize(
    ("results", "missing"),
    [([], "0="), ([result((0, 0, 10))], "3="), ([result((0, 0, 9), (3, 5, 7))], "0=[9,10)")],
    ids=["all", "a partition", "an offset"],
)
def test_one_that_is_lost_is_named(results: list[Result], missing: str) -> None:
    with pytest.raises(AccountLost) as lost:
        check_accounts(RANGES, results)
    assert missing in str(lost.value)
