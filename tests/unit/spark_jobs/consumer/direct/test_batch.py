"""Ranges of a batch, cut for its tasks."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.offsets.ranges import IntervalSet
from spark_jobs.common.consumer.direct.batch import _cut


@pytest.mark.parametrize(
    ("pairs", "most", "expected"),
    [
        ([(0, 10)], 10, [(0, 10)]),
        ([(0, 11)], 10, [(0, 5), (5, 11)]),
        ([(7, 107)], 40, [(7, 40), (40, 73), (73, 107)]),
        ([(0, 3), (5, 6)], 2, [(0, 1), (1, 3), (5, 6)]),
        ([(0, 1 << 40)], sys.maxsize, [(0, 1 << 40)]),
        ([], 5, []),
    ],
)
def test_a_range_is_cut_into_equal_parts(
    pairs: list[tuple[int, int]], most: int, expected: list[tuple[int, int]]
) -> None:
    assert [one.pairs() for one in _cut(IntervalSet.of(pairs), most)] == [(pair,) for pair in expected]


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 99)), max_size=4), st.integers(1, 50))
def test_parts_are_the_whole_each_offset_once(pairs: list[tuple[int, int]], most: int) -> None:
    offsets = IntervalSet.of((start, start + size) for start, size in pairs)
    parts = list(_cut(offsets, most))
    assert all(0 < part.count <= most for part in parts)
    assert IntervalSet.of(pair for part in parts for pair in part) == offsets
    assert sum(part.count for part in parts) == offsets.count
    assert [part.pairs() for part in parts] == sorted(part.pairs() for part in parts), "as they are read"
