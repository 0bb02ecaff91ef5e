"""Counting integers batch by batch finds what a naive count of all finds."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.offsets.bitmaps import Bitmap
from sluice.core.offsets.counts import (
    Counted,
    Counts,
    add_offsets,
    counts_from_json,
    counts_to_json,
    present_offsets,
    repeated_offsets,
)
from sluice.core.offsets.offset_set import OffsetSet
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from tests.support.counted import counts
from tests.support.raising import raising

# Around the ends of the parts that a bitmap has, and of 64 bits.
BASES = (0, -3, 2**16 - 3, 2**32 - 3, -(2**32) - 3, 2**40, 2**63 - 8, -(2**63))
numbers = st.builds(lambda base, more: base + more, st.sampled_from(BASES), st.integers(0, 7))
batches = st.lists(st.lists(numbers, max_size=12), max_size=6)
pairs = st.lists(st.builds(lambda start, size: (start, start + size), numbers, st.integers(0, 9)), max_size=5)


def members(ranges: IntervalSet) -> set[int]:
    return {number for start, until in ranges for number in range(start, until)}


@given(batches)
def test_batches_are_counted_as_a_naive_count_would(given_batches: list[list[int]]) -> None:
    found, naive = Counted(), Counter[int]()
    for batch in given_batches:
        found.add(np.array(batch, np.int64))
        naive.update(batch)
    assert members(found.present.ranges()) == set(naive)
    assert members(found.repeated.ranges()) == {number for number, times in naive.items() if times > 1}
    assert found.values == naive.total()
    assert len(found.present) == len(naive)
    assert all(number in found.present for number in naive)


@given(batches, batches)
def test_counts_are_joined_as_if_counted_together(one: list[list[int]], other: list[list[int]]) -> None:
    first, second, both = Counted(), Counted(), Counted()
    for found, given_batches in ((first, one), (second, other), (both, [*one, *other])):
        for batch in given_batches:
            found.add(np.array(batch, np.int32 if batch and max(map(abs, batch)) < 2**31 else np.int64))
    before = second.present.ranges()
    first.add_counted(second)
    assert first == both
    first.add(np.array([5, 5], np.int64))
    assert second.present.ranges() == before, "not shared"


@given(batches, pairs)
def test_ranges_count_as_their_integers(
    given_batches: list[list[int]], given_pairs: list[tuple[int, int]]
) -> None:
    ranges = IntervalSet.of((start, until) for start, until in given_pairs if until < 2**63)
    one, other = Counted(), Counted()
    for batch in given_batches:
        one.add(np.array(batch, np.int64))
        other.add(np.array(batch, np.int64))
    one.add_ranges(ranges)
    other.add(np.array(sorted(members(ranges)), np.int64))
    assert one == other


@given(st.lists(numbers, max_size=30), st.lists(numbers, max_size=30))
def test_bitmaps_are_sets(a: list[int], b: list[int]) -> None:
    one, other = (Bitmap.of_values(np.array(values, np.int64)) for values in (a, b))
    for found, expected in (
        (one | other, {*a, *b}),
        (one & other, {*a} & {*b}),
        (one - other, {*a} - {*b}),
        (Bitmap.from_parts(one.to_parts()), {*a}),
        (Bitmap.of(one.ranges()), {*a}),
    ):
        assert members(found.ranges()) == expected
        assert bool(found) is bool(expected)
        assert found.bounds() == ((min(expected), max(expected) + 1) if expected else None)
    assert one.holds(np.array(b, np.int64)).tolist() == [number in a for number in b]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=40))
def test_values_of_several_keys_are_counted_by_key(rows: list[tuple[int, int]]) -> None:
    found = Counts[str]()
    keys = ["d", "a", "c", "b"]
    codes, values = (np.array([row[n] for row in rows], np.int64) for n in (0, 1))
    found.add_grouped(codes, keys, values)
    expected = counts({keys[code]: [value for other, value in rows if other == code] for code, _ in rows})
    assert [(key, found[key]) for key in found] == [(key, expected[key]) for key in expected]
    assert found.values == len(rows)


@given(st.dictionaries(st.integers(0, 2000), st.lists(numbers, max_size=9), max_size=4))
def test_counts_are_read_as_they_were_written(values: dict[int, list[int]]) -> None:
    found = counts(values)
    again = counts_from_json(json.loads(json.dumps(counts_to_json(found))))
    assert [(key, again[key]) for key in again] == [(key, found[key]) for key in found]


def test_offsets_are_those_that_are_there_and_those_that_are_repeated() -> None:
    found = counts({2: [5, 4, 5], 0: [7]})
    add_offsets(found, OffsetSet.of(OffsetRanges.of({0: [(7, 9)], 1: [(3, 4)]})))
    assert present_offsets(found) == OffsetRanges.of({0: [(7, 9)], 1: [(3, 4)], 2: [(4, 6)]})
    assert repeated_offsets(found) == OffsetRanges.of({0: [(7, 8)], 2: [(5, 6)]})


@pytest.mark.parametrize("values", [np.array([1, None], float), np.array([1, None]), ["1"]])
def test_a_row_without_number_is_not_counted(values: object) -> None:
    with raising(TypeError, "null, or no integer"):
        Counted().add(values)  # type: ignore[arg-type]


def test_a_key_without_values_has_none_and_asking_for_it_adds_none() -> None:
    found = Counts[int]()
    assert found[3].values == 0
    assert list(found) == []
    assert not found


def test_scattered_offsets_take_bits_and_not_python_objects() -> None:
    found, rng = Counted(), np.random.default_rng(7)
    every = rng.permutation(3_000_000)
    for part in np.split(every, 300):
        found.add(part)
    assert sum(map(len, found.present.to_parts().values())) < 3_000_000 // 8 + 50_000
    assert found.present.ranges() == IntervalSet.of([(0, 3_000_000)])
    assert not found.repeated
