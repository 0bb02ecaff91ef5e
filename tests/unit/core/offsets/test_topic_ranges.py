"""Offsets as text: what is printed is read again, and what is no range says why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.topic_ranges import EXAMPLE, RangesInvalid, TopicRanges
from tests.support.raising import raising

LARGEST = 2**63 - 1

pairs = st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))
offsets = st.dictionaries(st.integers(0, 12), st.lists(pairs, min_size=1, max_size=5), max_size=4).map(
    OffsetRanges.of
)
names = st.from_regex(r"\A[a-zA-Z0-9._-]{1,12}\Z")
sets = st.dictionaries(names, offsets, max_size=3).map(TopicRanges.of)
alike = st.dictionaries(st.sampled_from(["a", "b"]), offsets, max_size=2).map(TopicRanges.of)


def members(found: TopicRanges) -> set[tuple[str, int, int]]:
    return {
        (topic, partition, offset)
        for topic in found
        for partition, ranges in found[topic].partitions.items()
        for start, until in ranges
        for offset in range(start, until)
    }


@given(sets)
def test_what_is_printed_is_read_again(found: TopicRanges) -> None:
    assert TopicRanges.parse(str(found) if found else "") == found


@given(alike, alike)
def test_the_algebra_is_that_of_sets(left: TopicRanges, right: TopicRanges) -> None:
    assert members(left.union(right)) == members(left) | members(right)
    assert members(left.intersect(right)) == members(left) & members(right)
    assert members(left.minus(right)) == members(left) - members(right)
    assert left.covers(right) == (members(right) <= members(left))
    assert left.count == len(members(left))


def test_the_example_of_every_error_is_read() -> None:
    found = TopicRanges.parse(EXAMPLE)
    assert str(found) == EXAMPLE
    assert found.count == 110 + 213 + 10


@pytest.mark.parametrize(
    "text",
    [
        "a: 1=[0,5) 0=[7,9),[2,4);b:0=[1,2)",
        "a:\t0=[2,4),[7,9)\n  1=[0,5)".replace("\n", " ") + "\n\nb: 0=[1,2)\n",
        " a : 0 = [ 2 , 4 ) , [7, 9)   1=[0, 5) ; b: 0=[1,2) ;",
    ],
)
def test_blanks_order_and_separators_are_free(text: str) -> None:
    assert str(TopicRanges.parse(text)) == "a: 0=[2,4),[7,9) 1=[0,5); b: 0=[1,2)"


def test_ranges_that_touch_are_one() -> None:
    assert str(TopicRanges.parse("a: 0=[4,9),[2,4)")) == "a: 0=[2,9)"


def test_a_form_of_one_topic_needs_no_name() -> None:
    assert str(TopicRanges.parse("0=[2,4)", topic="a")) == "a: 0=[2,4)"
    assert str(TopicRanges.parse("b: 0=[2,4)", topic="a")) == "b: 0=[2,4)"


def test_the_largest_offset_is_exact() -> None:
    text = f"a: 0=[{LARGEST - 1},{LARGEST})"
    assert str(TopicRanges.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    {
        "0=[1,2)": "'0=[1,2)' names no topic",
        "a:": "topic 'a' has no ranges",
        "a: 0": "'0' is no partition with ranges",
        "a: 0=[1,2]": "'0=[1,2]' is no partition with ranges",
        "a: 0=[1,2)1=[3,4)": "'0=[1,2)1=[3,4)' is no partition with ranges",
        "a: 0=[1,2) all": "'all' is no partition with ranges",
        "a: 0=[1.5,2)": "'0=[1.5,2)' is no partition with ranges",
        "a: x=[1,2)": "'x=[1,2)' is no partition with ranges",
        "a: 0=[1,2),": "'0=[1,2),' is no partition with ranges",
        "a: -1=[1,2)": "'-1=[1,2)' is no partition with ranges",
        "a: " + "9" * 60: f"'{'9' * 40}'… is no partition with ranges",
        "a: 0=[5,3)": "topic 'a', partition 0: range [5,3) ends before it begins",
        "a: 0=[5,5)": "topic 'a', partition 0: range [5,5) ends before it begins, or is empty",
        "a: 0=[-3,5)": "topic 'a', partition 0: range [-3,5) is negative",
        f"a: 0=[5,{LARGEST + 1})": "ends beyond Kafka's largest offset",
        "a: 0=[0,10),[5,20)": "topic 'a', partition 0: ranges [0,10) and [5,20) overlap",
        "a: 0=[0,9) 0=[20,30)": "topic 'a': partition 0 is named twice",
        "a: 0=[0,9); a: 1=[0,9)": "topic 'a' is named twice",
    }.items(),
)
def test_what_is_no_range_says_why(text: str, reason: str) -> None:
    with raising(RangesInvalid, reason, EXAMPLE):
        TopicRanges.parse(text)
