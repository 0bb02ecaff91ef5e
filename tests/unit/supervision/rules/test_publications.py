"""What is new since the last announcement, and when nothing is though the position is another one."""

from __future__ import annotations

from sluice.core.tables.position import Position
from sluice.supervision.rules.publications import Announced, since


def at(ends: dict[int, int], starts: dict[int, int] | None = None, topic: str | None = "t1") -> Position:
    return Position(epoch=1, at=0.0, acquired_at=0.0, starts=starts or {0: 0}, ends=ends, topic_id=topic)


ANNOUNCED = Announced.of(at({0: 10, 1: 5}))


def test_new_are_the_offsets_behind_the_announced_ones() -> None:
    found = since(ANNOUNCED, at({0: 12, 1: 5}))
    assert (str(found.new), found.new.count, found.restored) == ("0=[10,12)", 2, "")
    assert not since(ANNOUNCED, at({0: 10, 1: 5})).new


def test_a_new_partition_counts_from_its_first_published_offset() -> None:
    found = since(ANNOUNCED, at({0: 10, 1: 5, 2: 9}, starts={0: 0, 2: 4}))
    assert str(found.new) == "2=[4,9)"


def test_a_recreated_topic_counts_from_zero_and_an_unknown_one_does_not() -> None:
    assert str(since(ANNOUNCED, at({0: 3}, topic="t2")).new) == "0=[0,3)"
    # Snapshots of earlier versions do not say which topic it is.
    assert str(since(ANNOUNCED, at({0: 11, 1: 5}, topic=None)).new) == "0=[10,11)"


def test_a_restored_table_has_nothing_new_and_says_so() -> None:
    found = since(ANNOUNCED, at({0: 7, 1: 9}))
    assert not found.new
    assert "partition 0 is published up to 7, and was announced up to 10" in found.restored


def test_it_is_itself_again_from_json() -> None:
    assert Announced.from_json(ANNOUNCED.to_json()) == ANNOUNCED
