"""From where the feed may be resumed, while events are under way."""

from __future__ import annotations

import threading

from spark_jobs.common.feed.window import Window


def window(max_in_flight: int = 10, position: str | None = "m") -> Window:
    return Window(max_in_flight, position, clock=lambda: 0.0)


def test_the_mark_moves_over_what_is_acknowledged_without_a_gap() -> None:
    w = window()
    a, b, c = (w.add(position) for position in "abc")
    w.acknowledge(b)
    assert w.low_water_mark == "m", "a is not acknowledged"
    w.acknowledge(a)
    assert (w.low_water_mark, len(w)) == ("b", 1)
    w.acknowledge(c)
    assert (w.low_water_mark, len(w)) == ("c", 0)


def test_an_event_without_a_position_leaves_the_mark() -> None:
    w = window()
    first, second = w.add("a"), w.add(None)
    w.acknowledge(first)
    w.acknowledge(second)
    assert w.low_water_mark == "a"


def test_what_needs_no_acknowledgement_waits_for_what_is_before_it() -> None:
    w = window()
    w.skip("a")
    assert w.low_water_mark == "a"
    entry = w.add("b")
    w.skip("c")
    assert w.low_water_mark == "a"
    w.acknowledge(entry)
    assert w.low_water_mark == "c"
    w.skip(None)
    assert w.low_water_mark == "c"


def test_a_record_says_the_mark_or_its_own_position_when_all_before_it_is_there() -> None:
    w = window()
    assert w.resume_position("a") == "a"
    assert w.resume_position(None) == "m"
    entry = w.add("a")
    assert w.resume_position("b") == "m"
    w.acknowledge(entry)
    assert w.resume_position("b") == "b"


def test_it_is_full_with_so_many_events_whether_they_wait_or_not() -> None:
    w = window(3)
    first = w.add("a")
    w.skip("b")
    assert w.has_room(0)
    w.skip("c")
    assert not w.has_room(0)
    w.acknowledge(first)
    assert w.has_room(0)


def test_before_there_is_a_mark_one_event_goes_alone() -> None:
    w = window(position=None)
    assert w.resume_position("a") == "a", "who has the record has the event"
    first = w.add("a")
    assert not w.has_room(0)
    w.acknowledge(first)
    assert w.has_room(0)
    w.add("b")
    assert w.has_room(0)


def test_a_feed_that_says_no_positions_is_not_held_up() -> None:
    w = window(position=None)
    w.add(None)
    assert w.has_room(0)
    assert w.resume_position(None) is None


def test_who_waits_for_room_is_woken() -> None:
    w = window(1)
    entry = w.add("a")
    waiting = threading.Thread(target=w.has_room, args=[600], daemon=True)
    waiting.start()
    w.acknowledge(entry)
    waiting.join(10)
    assert not waiting.is_alive()


def test_the_age_of_the_oldest() -> None:
    now = [5.0]
    w = Window(10, "m", clock=lambda: now[0])
    assert w.oldest_age == 0
    first = w.add("a")
    now[0] = 7.0
    w.add("b")
    now[0] = 8.0
    assert w.oldest_age == 3
    w.acknowledge(first)
    assert w.oldest_age == 1
