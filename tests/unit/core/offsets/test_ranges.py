from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from sluice.core.offsets.topic_ranges import RangesInvalid, TopicRanges
from tests.support.raising import raising

pairs = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])), max_size=8
)


def members(ranges: IntervalSet) -> set[int]:
    return {value for start, until in ranges for value in range(start, until)}


@given(pairs, pairs)
def test_the_algebra_is_that_of_sets(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    left, right = IntervalSet.of(a), IntervalSet.of(b)
    assert members(left.union(right)) == members(left) | members(right)
    assert members(left.intersect(right)) == members(left) & members(right)
    assert members(left.minus(right)) == members(left) - members(right)
    assert (not right.minus(left)) == (members(right) <= members(left))
    assert left.count == len(members(left))


@given(pairs, st.lists(st.integers(-2, 90)))
def test_it_holds_what_is_in_it(a: list[tuple[int, int]], values: list[int]) -> None:
    ranges = IntervalSet.of(a)
    assert ranges.holds(np.array(values, np.int64)).tolist() == [value in ranges for value in values]


@given(pairs)
def test_one_set_has_one_form(a: list[tuple[int, int]]) -> None:
    ranges = IntervalSet.of(a)
    assert ranges == IntervalSet.of_values(members(ranges)) == IntervalSet.of(reversed(a))
    assert all(before < after for (_, before), (after, _) in zip(ranges, ranges.pairs()[1:], strict=False))


@given(st.lists(st.integers(-3, 12)))
def test_values_are_a_set(values: list[int]) -> None:
    for given_as in (values, iter(values), np.array(values, np.int64), np.array(values, np.int32)):
        assert IntervalSet.of_values(given_as) == IntervalSet.of((value, value + 1) for value in values)


def test_offsets_of_partitions_are_ranges_without_partitions_that_have_none() -> None:
    found = OffsetRanges.of_values({2: [5, 4, 5], 1: [], 0: np.array([7], np.int64)})
    assert found == OffsetRanges.of({0: [(7, 8)], 2: [(4, 6)]})
    assert str(found) == "0=[7,8) 2=[4,6)", "in the order of the partitions"


def test_a_row_without_number_is_no_value() -> None:
    with raising(TypeError, "float64"):
        IntervalSet.of_values(np.array([1, None], float))


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with raising(ValueError, "[5,3)"):
        IntervalSet.of([(5, 3)])


def test_a_recreated_topic_is_no_range() -> None:
    with raising(ValueError, "[100,7)"):
        OffsetRanges.from_ends({0: 100}, {0: 7})


def test_a_range_set_survives_json() -> None:
    ranges = OffsetRanges.of({3: [(5, 9)], 0: [(0, 4), (8, 9)], 7: []})
    assert ranges.to_json() == '{"0":[[0,4],[8,9]],"3":[[5,9]]}'
    assert OffsetRanges.from_json(ranges.to_json()) == ranges
    assert ranges.count == 9


def test_a_batch_s_ranges_are_one_a_partition() -> None:
    assert OffsetRanges.of_batch('{"1":[3,8],"0":[4,4]}') == OffsetRanges.of({1: [(3, 8)]})
    assert not OffsetRanges.of_batch("{}")


def test_range_sets_are_compared_partition_by_partition() -> None:
    have = OffsetRanges.of({0: [(0, 10)], 1: [(0, 5)]})
    want = OffsetRanges.of({0: [(2, 4)], 1: [(3, 8)], 2: [(0, 1)]})
    assert not have.covers(want)
    assert want.minus(have) == OffsetRanges.of({1: [(5, 8)], 2: [(0, 1)]})
    assert have.intersect(want) == OffsetRanges.of({0: [(2, 4)], 1: [(3, 5)]})


@given(pairs)
def test_gaps_are_what_is_missing_between(a: list[tuple[int, int]]) -> None:
    ranges = IntervalSet.of(a)
    within = range(min(members(ranges), default=0), max(members(ranges), default=-1) + 1)
    assert members(ranges.gaps()) == set(within) - members(ranges)
    assert {value for value in range(-2, 80) if value in ranges} == members(ranges)


def test_a_list_that_is_cut_says_so_and_is_not_taken_for_the_whole() -> None:
    ranges = OffsetRanges.of({0: [(10 * n, 10 * n + 1) for n in range(500)], 3: [(7, 9)]})
    shown = ranges.shown(40)
    assert shown == "0=[0,1),[10,11),[20,21),[30,31),[40,41) … (496 ranges more in the task's log)"
    with raising(RangesInvalid, "is no partition with ranges"):
        TopicRanges.parse(shown, "t")
    assert TopicRanges.parse(ranges.shown(10**6), "t")["t"] == ranges


def test_a_few_ranges_of_many_cost_as_much_as_of_few() -> None:
    """Whatever is before and behind them is not looked at."""
    looked = list[object]()

    class Noted(tuple[tuple[int, int], ...]):
        def __getitem__(self, place: Any) -> Any:
            looked.append(place)
            return super().__getitem__(place)

    pairs = tuple((10 * number, 10 * number + 5) for number in range(100_000))
    many, few = IntervalSet(Noted(pairs)), IntervalSet(((500_002, 500_003), (500_012, 500_022)))
    assert few.minus(many) == IntervalSet(((500_015, 500_020),))
    assert few.intersect(many).count == 1 + 3 + 2
    assert len(looked) < 200
    assert many.minus(few).count == many.count - 6
    assert len(looked) < 400
