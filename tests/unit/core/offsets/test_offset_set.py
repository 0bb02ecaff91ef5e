"""Offsets as bitmaps are the same sets as offsets as ranges, in memory and stored."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.offsets import offset_set
from sluice.core.offsets.bitmaps import Bitmap
from sluice.core.offsets.offset_set import MAX_RANGES_AS_TEXT, OffsetSet
from sluice.core.offsets.ranges import OffsetRanges

LOW, HIGH = st.integers(0, 40), st.integers(2**32 - 5, 2**32 + 5)
# Also of two bitmaps' upper bits.
PAIRS = (st.tuples(LOW, LOW) | st.tuples(HIGH, HIGH)).map(sorted)
RANGES = st.lists(PAIRS, max_size=8)
SETS = st.dictionaries(st.integers(0, 2), RANGES, max_size=3).map(OffsetRanges.of)
OPERATIONS = ["union", "minus", "intersect"]


@pytest.mark.parametrize("name", OPERATIONS)
@given(one=SETS, other=SETS)
def test_they_are_the_sets_that_ranges_are(name: str, one: OffsetRanges, other: OffsetRanges) -> None:
    expected = getattr(one, name)(other)
    found = getattr(OffsetSet.of(one), name)(OffsetSet.of(other))
    assert found == OffsetSet.of(expected)
    assert (found.count, bool(found), sorted(found.partitions)) == (
        expected.count,
        bool(expected),
        list(expected.partitions),
    )


@given(offsets=SETS, partition=st.integers(0, 2), pair=PAIRS)
def test_what_is_within_a_range(offsets: OffsetRanges, partition: int, pair: list[int]) -> None:
    expected = offsets.intersect(OffsetRanges.of({partition: [pair]}))
    found = OffsetSet.of(offsets)[partition]
    assert found.within(*pair).ranges() == expected[partition]
    assert found.count_within(*pair) == expected.count


@given(offsets=SETS)
def test_a_stored_text_is_that_of_ranges(offsets: OffsetRanges) -> None:
    """So an earlier version reads it, and its own is read."""
    stored = OffsetSet.of(offsets).to_json()
    assert isinstance(stored, str)
    assert OffsetRanges.from_json(stored) == offsets
    assert OffsetSet.from_json(offsets.to_json()) == OffsetSet.of(offsets)


@given(offsets=SETS, most=st.integers(1, 4))
def test_pieces_are_all_of_them(offsets: OffsetRanges, most: int) -> None:
    pieces = list(OffsetSet.of(offsets).pieces(most))
    joined = OffsetRanges()
    for piece in pieces:
        assert sum(len(ranges.pairs()) for ranges in piece.partitions.values()) <= most
        joined = joined.union(piece)
    assert joined == offsets


def with_holes(number: int) -> OffsetSet:
    return OffsetSet({0: Bitmap.of_values(np.arange(number, dtype=np.int64) * 2), 1: Bitmap.of([(0, 9)])})


def test_of_many_ranges_bitmaps_are_stored() -> None:
    offsets = with_holes(MAX_RANGES_AS_TEXT)
    stored = offsets.to_json()
    assert isinstance(stored, dict)
    assert sum(len(part) for parts in stored.values() for part in parts.values()) < MAX_RANGES_AS_TEXT
    assert OffsetSet.from_json(stored) == offsets


@pytest.mark.parametrize(
    "step",
    [
        lambda one: one.minus(OffsetSet({0: Bitmap.of([(0, 10)])})),
        lambda one: OffsetSet.from_json(one.to_json()),
        lambda one: one.shown(),
        lambda one: sum(piece.count for piece in one.pieces()),
    ],
    ids=["minus", "stored", "shown", "pieces"],
)
def test_holes_take_no_python_objects(step: Callable[[OffsetSet], object]) -> None:
    """Ranges took 120 bytes for each of these: 120 MB."""
    offsets = with_holes(1_000_000)
    tracemalloc.start()
    try:
        step(offsets)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_a_text_of_many_ranges_says_how_many_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_set, "MAX_RANGES_SAID", 2)
    monkeypatch.setattr(OffsetSet.pieces, "__defaults__", (2,))
    assert str(with_holes(5)) == "0=[0,1),[2,3) … (4 ranges more)"
    assert with_holes(5).shown(8) == "0=[0,1) … (5 ranges more, some of them in the task's log)"
    assert str(OffsetSet()) == "(empty)"
