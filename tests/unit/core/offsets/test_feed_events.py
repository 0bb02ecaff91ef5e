"""What came against what became of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.offsets.sources import MAX_NAMED_IDS, check_events, minute_ranges

GOOD: dict[str, Any] = {"total": 10, "published": 8, "quarantined": 2, "missing_id": 0, "duplicates": {}}


def test_exact() -> None:
    found = check_events(10, 8, 2, 0, {})
    assert found.is_ok
    assert found.message() == "passed: 10 events = 8 published + 2 quarantined"
    assert (found.missing, found.duplicated) == (0, 0)
    assert check_events(0, 0, 0, 0, {}).is_ok


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"published": 7}, "1 missing of 10 events"),
        ({"quarantined": 3}, "1 rows more than offsets of 10 events"),
        ({"missing_id": 1}, "1 rows without an event id of"),
        ({"duplicates": {"b": 2, "a": 3}}, "2 event ids more than once (a 3 times, b 2 times) of"),
        ({"published": 7, "duplicates": {"a": 2}}, "1 missing, 1 event ids more than once (a 2 times) of"),
    ],
)
def test_what_is_not(more: dict[str, Any], words: str) -> None:
    found = check_events(**(GOOD | more))
    assert not found.is_ok
    assert f"failed: {words}" in found.message()


def test_of_many_ids_a_few_are_named() -> None:
    found = check_events(99, 99, 0, 0, {f"id{n:02}": 2 for n in range(50)})
    assert found.duplicated == 50
    assert found.message().count("times") == MAX_NAMED_IDS


@pytest.mark.parametrize(
    ("moments", "most", "expected"),
    [
        ([], 3, []),
        ([7], 3, [(7, 8)]),
        ([1, 2, 3], 3, [(1, 4)]),
        ([1, 2, 9, 20, 21], 3, [(1, 3), (9, 10), (20, 22)]),
        ([1, 2, 9, 20, 21], 2, [(1, 10), (20, 22)]),
        ([1, 2, 9, 20, 21], 1, [(1, 22)]),
    ],
)
def test_minute_ranges(moments: list[int], most: int, expected: list[tuple[int, int]]) -> None:
    assert minute_ranges(moments, most) == expected


@given(st.sets(st.integers(-50, 50)), st.integers(1, 9))
def test_spans_hold_every_moment_and_part_where_nothing_is(moments: set[int], most: int) -> None:
    found = minute_ranges(sorted(moments), most)
    assert len(found) <= most
    assert all(sum(begin <= moment < end for begin, end in found) == 1 for moment in moments)
    assert all({begin, end - 1} <= moments for begin, end in found)


def test_ids_that_are_not_named_count() -> None:
    found = check_events(99, 99, 0, 0, {"a": 2}, more=1_000)
    assert found.duplicated == 1_001
    assert "1001 event ids more than once (a 2 times)" in found.message()
