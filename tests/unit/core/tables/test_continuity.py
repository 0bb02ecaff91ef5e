"""Which of the sources that were verified once are still so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.tables.continuity import covers, incarnation, newest_covered

ONE = incarnation("t", "a", {0: 5, 1: 0})


@pytest.mark.parametrize(
    "other", [incarnation("u", "a", {0: 5}), incarnation("t", "b", {0: 5}), incarnation("t", "a", {0: 6})]
)
def test_another_table_another_topic_and_a_later_begin_are_another_incarnation(other: str) -> None:
    assert other != ONE


def test_an_added_partition_is_the_same_incarnation() -> None:
    assert incarnation("t", "a", {1: 0, 0: 5, 2: 0}) == ONE


@pytest.mark.parametrize(
    ("ends", "expected"), [({0: 5, 1: 2}, True), ({0: 5, 1: 1}, False), ({0: 9}, False), ({}, False)]
)
def test_every_partition_is_covered_or_the_offsets_are_not(ends: dict[int, int], expected: bool) -> None:
    assert covers(ends, {0: 5, 1: 2}) is expected


@given(st.lists(st.integers(0, 1000)), st.integers(-1, 1001))
def test_the_newest_covered_is_found_in_few_steps(totals: list[int], reached: int) -> None:
    asked: list[int] = []

    def is_covered(total: int) -> bool:
        asked.append(total)
        return total <= reached

    expected = max((total for total in totals if total <= reached), default=None)
    assert newest_covered(totals, is_covered) == expected
    assert len(asked) <= 1 + len(set(totals)).bit_length()


def test_usually_one_is_enough() -> None:
    asked: list[int] = []

    def is_covered(total: int) -> bool:
        asked.append(total)
        return True

    assert newest_covered(range(1000), is_covered) == 999
    assert asked == [999]
