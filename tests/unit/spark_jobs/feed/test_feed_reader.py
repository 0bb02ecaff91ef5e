"""The memory of event ids."""

from __future__ import annotations

from spark_jobs.common.feed.reader import RecentIds


def test_an_id_is_new_once() -> None:
    ids = RecentIds(10, ["a"])
    assert [ids.is_duplicate(event_id) for event_id in ("a", "b", "b", "a", "c")] == [
        True,
        False,
        True,
        True,
        False,
    ]


def test_the_oldest_is_forgotten_first() -> None:
    ids = RecentIds(3, "abcd")
    assert len(ids._ids) == 3
    assert ids.is_duplicate("b")
    assert not ids.is_duplicate("a"), "it was pushed out"
    assert not ids.is_duplicate("b"), "coming again makes no id younger"


def test_it_stays_small() -> None:
    ids = RecentIds(100)
    assert not any(ids.is_duplicate(str(n)) for n in range(10_000))
    assert len(ids._ids) == 100
    assert ids.is_duplicate("9900")
