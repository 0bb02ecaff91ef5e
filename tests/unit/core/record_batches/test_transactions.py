"""Which batches are of aborted transactions, by their markers."""

from __future__ import annotations

import struct

import pytest

from sluice.core.record_batches.header import batches
from sluice.core.record_batches.transactions import AbortedTransactions
from tests.support.record_batches import ABORT, COMMIT, Made, Record, joined, marker


def data(offset: int) -> Made:
    return Made((Record(offset),), producer_id=7, is_transactional=True)


@pytest.mark.parametrize(("kind", "goes_on"), [(ABORT, False), (COMMIT, True)])
@pytest.mark.parametrize("behind", [0, 10**12])
def test_an_abort_marker_ends_a_transaction_and_a_commit_marker_does_not(
    kind: int, goes_on: bool, behind: int
) -> None:
    """As Kafka's consumer judges. The cleaner moves a batch's first time: the record's delta is then long."""
    ends = marker(1, 7, kind)
    if behind:
        key = struct.pack(">hh", 0, kind)
        ends = Made(
            (Record(1, timestamp=behind, key=key),),
            producer_id=7,
            is_transactional=True,
            is_control=True,
            first_time=0,
        )
    aborted = AbortedTransactions([(7, 0)])
    found = [aborted.has(batch) for batch in batches(joined([data(0), ends, data(2)]), 0)]
    assert found == [True, False, goes_on]


def test_a_marker_that_the_cleaner_took_out_ends_nothing() -> None:
    empty = Made((), base_offset=1, last_offset=1, producer_id=7, is_transactional=True, is_control=True)
    aborted = AbortedTransactions([(7, 0)])
    found = [aborted.has(batch) for batch in batches(joined([data(0), empty, data(2)]), 0)]
    assert found == [True, False, True]
