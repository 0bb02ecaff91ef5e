"""What each offset of a range is, from the batches that stand for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.offsets.ranges import IntervalSet
from sluice.core.record_batches.account import Accounting, missing, why_absent
from sluice.core.record_batches.header import Batch, batches
from tests.support.raising import raising
from tests.support.record_batches import COMMIT, Made, Record, marker


def batch(*offsets: int, epoch: int = 3, last: int | None = None) -> Batch:
    made = Made(tuple(Record(offset) for offset in offsets), leader_epoch=epoch, last_offset=last)
    return header(made)


def header(made: Made) -> Batch:
    (found,) = batches(made.bytes(), 0, is_continued=False)
    return found


def told(wanted: Sequence[tuple[int, int]], *records: tuple[Batch, Sequence[int]]) -> Accounting:
    found = Accounting(IntervalSet.of(wanted))
    for one, offsets in records:
        found.records(one, np.array(offsets, np.int64))
    return found


@pytest.mark.parametrize(
    ("wanted", "records", "expected"),
    [
        ([(0, 4)], [(batch(0, 1, epoch=3), [0, 1]), (batch(2, 3, epoch=5), [2, 3])], (5, 5)),
        # It goes on behind the range.
        ([(0, 3)], [(batch(0, 1, epoch=3), [0, 1]), (batch(2, 3, epoch=5), [2, 3])], (5, 5)),
        # The cleaner took its last record, and the batch still stands for the offset.
        ([(0, 4)], [(batch(0, 1, epoch=4, last=3), [0, 1])], (4, 4)),
        ([(0, 2), (7, 8)], [(batch(0, 1, epoch=3), [0, 1]), (batch(7, epoch=4), [7])], (4, 4)),
        # In no sound log.
        ([(0, 4)], [(batch(0, 1, epoch=5), [0, 1]), (batch(2, 3, epoch=3), [2, 3])], (5, 3)),
    ],
    ids=["end", "beyond", "cleaned", "parts", "fell"],
)
def test_the_epoch_of_the_last_wanted_offset(
    wanted: Sequence[tuple[int, int]],
    records: Sequence[tuple[Batch, Sequence[int]]],
    expected: tuple[int, int],
) -> None:
    account = told(wanted, *records).closed()
    assert (account.leader_epoch, account.last_epoch) == expected


def test_a_last_offset_that_is_in_no_batch_has_any_epoch() -> None:
    """A later leader may have written what is absent: a broker would compare with that one."""
    done = told([(0, 6)], (batch(0, 1, epoch=4), [0, 1]))
    done.behind(6)
    account = done.closed()
    assert (account.leader_epoch, account.last_epoch, account.end) == (4, None, 6)
    assert str(account.absent) == "[2,6)"


@pytest.mark.parametrize("is_aborted", [True, False])
def test_a_marker_or_an_aborted_record_may_be_the_last_one(is_aborted: bool) -> None:
    done = told([(0, 2)], (batch(0, epoch=2), [0]))
    (done.aborted if is_aborted else done.control)(header(marker(1, 7, COMMIT)))
    assert done.closed().last_epoch == 3


def test_nothing_wanted_has_no_epoch() -> None:
    account = told([]).closed()
    assert (account.leader_epoch, account.last_epoch, account.end) == (None, None, 0)


def test_the_end_is_behind_the_last_wanted_offset() -> None:
    assert told([(0, 2), (7, 9)], (batch(8), [8])).closed().end == 9


def test_no_account_before_the_end() -> None:
    done = told([(0, 6)], (batch(0, 1), [0, 1]))
    with raising(ValueError, "offsets from 2 on"):
        done.closed()


KINDS = st.sampled_from(["records", "control", "aborted", "cleaned", "absent"])
PAIRS = st.lists(st.tuples(st.integers(0, 25), st.integers(1, 6)), min_size=1, max_size=3)


@given(PAIRS, st.lists(st.tuples(KINDS, st.integers(1, 6), st.integers(0, 3)), min_size=1, max_size=12))
def test_each_offset_is_in_one_set_and_the_epoch_is_that_of_the_last(
    pairs: list[tuple[int, int]], log: list[tuple[str, int, int]]
) -> None:
    """Against a plain list of what each offset is. Epochs of a log never fall."""
    wanted = IntervalSet.of((begin, begin + size) for begin, size in pairs)
    done = Accounting(wanted)
    offset, epoch = 0, 1
    kinds: dict[int, str] = {}
    epochs: dict[int, int] = {}
    while offset < done.end:
        for kind, size, more in log:
            places = range(offset, offset + size)
            offset, epoch = offset + size, epoch + more
            kinds |= dict.fromkeys(places, kind)
            if kind == "absent" or done.is_complete:
                continue
            epochs |= dict.fromkeys(places, epoch)
            one = batch(*places, epoch=epoch)
            if not done.wants(one):
                done.behind(one.last_offset + 1)
            elif kind == "records":
                done.records(one, np.array(places, np.int64))
            elif kind == "cleaned":
                kinds |= dict.fromkeys(places[1:], "absent")
                done.records(one, np.array(places[:1], np.int64))
            else:
                (done.control if kind == "control" else done.aborted)(one)
    done.behind(done.end)
    account = done.closed()
    names = {"cleaned": "records"}
    expected = {name: set[int]() for name in ("records", "control", "aborted", "absent")}
    for begin, end in wanted:
        for place in range(begin, end):
            expected[names.get(kinds[place], kinds[place])].add(place)
    assert {name: offsets(getattr(account, name)) for name in expected} == expected
    assert account.last_epoch == epochs.get(done.end - 1)


def offsets(those: IntervalSet) -> set[int]:
    return {place for begin, end in those for place in range(begin, end)}


def test_compaction_explains_what_is_absent_and_nothing_else_does() -> None:
    assert "cleanup.policy=delete, compact" in why_absent("delete, compact", "observed by a test")
    assert why_absent("delete", "observed") == ""
    assert why_absent("compacted", "observed") == ""
    error = missing("t", 4, IntervalSet.of([(3, 5)]), "delete")
    assert all(word in str(error) for word in ("'t'", "partition 4", "[3,5)", "cleanup.policy=delete"))
