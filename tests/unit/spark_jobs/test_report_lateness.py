"""What a report holds against the watermark, and that it does not matter how batches are grouped."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.common.report_lateness import Found, Judged, is_closed, judge, newest_of, watermarks

MINUTE = 60_000
TEN = 10 * MINUTE


def found(batch: int | None, newest: int, counted: int = 1, arrived: int | None = None) -> Found:
    start = newest - newest % TEN
    return Found(batch, start, start + TEN, newest, arrived, counted)


def test_a_window_is_closed_from_its_end_on() -> None:
    assert not is_closed(TEN, None)
    assert not is_closed(TEN, TEN - 1)
    assert is_closed(TEN, TEN)
    assert is_closed(TEN, TEN + 1)


def test_a_batch_is_judged_by_those_before_it() -> None:
    assert watermarks(None, [5 * TEN, 3 * TEN, None, 9 * TEN], 10) == [None, 4 * TEN, 4 * TEN, 4 * TEN]
    assert watermarks(7 * TEN, [5 * TEN, 8 * TEN], 1) == [7 * TEN - MINUTE] * 2
    assert watermarks(7 * TEN, [], 1) == []


def test_time_goes_no_further_than_the_newest_arrival() -> None:
    assert newest_of(5, 9) == 5
    assert newest_of(9, 5) == 5
    assert newest_of(9, None) == 9
    assert newest_of(None, 5) is None


def test_late_by_exactly_the_watermark() -> None:
    """The newest is 30 minutes old time, so windows that end until 20 are closed, and no others."""
    late, in_time = found(1, 2 * TEN - 1, 3), found(1, 2 * TEN, 5)
    judged = judge([found(0, 3 * TEN), late, in_time], 2, None, 10)
    assert judged == Judged(frozenset({(1, TEN)}), 3, frozenset({TEN, 2 * TEN, 3 * TEN}), 3 * TEN)
    assert judge([late, in_time], 2, 3 * TEN - 1, 10).late == frozenset()


def test_what_does_not_count_moves_time_and_touches_no_window() -> None:
    judged = judge([found(0, 9 * TEN, counted=0), found(1, TEN, 2), found(1, 2 * TEN, 0)], 2, None, 10)
    assert judged == Judged(frozenset({(1, TEN)}), 2, frozenset({TEN}), 9 * TEN)


def test_a_clock_that_is_ahead_moves_time_to_its_arrival_only() -> None:
    ahead = found(0, 90 * TEN, arrived=2 * TEN)
    judged = judge([ahead, replace(found(0, TEN), arrived=TEN), found(1, TEN)], 2, None, 10)
    assert judged.late == frozenset()
    assert judged.newest == 2 * TEN


def test_rows_of_no_batch_came_before_all_and_are_not_late() -> None:
    judged = judge([found(None, 9 * TEN), found(None, TEN), found(0, TEN, 4)], 1, None, 10)
    assert judged.late == {(0, TEN)}
    assert judged.newest == 9 * TEN


def test_nothing_found_changes_nothing() -> None:
    assert judge([], 1, 5, 10) == Judged(frozenset(), 0, frozenset(), 5)
    assert judge([], 0, None, 10) == Judged(frozenset(), 0, frozenset(), None)


pieces = st.builds(
    lambda minute, counted, behind: found(0, minute * MINUTE, counted, (minute - behind) * MINUTE),
    st.integers(60, 200),
    st.integers(0, 3),
    st.integers(-30, 30),
)


@given(batches=st.lists(st.lists(pieces, max_size=4), max_size=8), cuts=st.sets(st.integers(0, 8)))
def test_batches_may_be_counted_in_any_groups(batches: list[list[Found]], cuts: set[int]) -> None:
    whole = [replace(p, batch=number) for number, batch in enumerate(batches) for p in batch]
    at_once = judge(whole, len(batches), None, 10)
    newest: int | None = None
    late: set[tuple[int, int]] = set()
    windows: set[int] = set()
    rows = begin = 0
    for end in [*sorted(cut for cut in cuts if cut < len(batches)), len(batches)]:
        group = [replace(p, batch=n) for n, batch in enumerate(batches[begin:end]) for p in batch]
        judged = judge(group, end - begin, newest, 10)
        late |= {(begin + number, start) for number, start in judged.late}
        rows, newest, begin = rows + judged.late_rows, judged.newest, end
        windows |= judged.windows
    assert at_once == Judged(frozenset(late), rows, frozenset(windows), newest)
