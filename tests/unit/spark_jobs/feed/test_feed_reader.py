"""The memory of event ids."""

from __future__ import annotations

from spark_jobs.common.feed.reader import RecentIds


def test_an_id_is_new_once() -> None:
    seen = RecentIds(10, ["a"])
    assert [seen.is_new(found) for found in ("a", "b", "b", "a", "c")] == [False, True, False, False, True]


def test_the_oldest_is_forgotten_first() -> None:
    seen = RecentIds(3, "abcd")
    assert len(seen) == 3
    assert not seen.is_new("b")
    assert seen.is_new("a"), "it was pushed out"
    assert seen.is_new("b"), "coming again makes nobody younger"


def test_it_stays_small() -> None:
    seen = RecentIds(100)
    assert all(seen.is_new(str(n)) for n in range(10_000))
    assert len(seen) == 100
    assert not seen.is_new("9900")
