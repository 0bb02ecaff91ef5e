"""A query that hangs is seen, whatever the others do."""

from __future__ import annotations

import threading

from spark_jobs.common.kafka.heartbeat import STALL_TIMEOUT_SECONDS, CountingEvent, Watchdog


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_query_hangs_that_is_long_in_one_batch_without_a_sign() -> None:
    clock = Clock()
    movement = Watchdog(clock)
    assert not movement.hangs("a", False, 1)
    clock.now += STALL_TIMEOUT_SECONDS
    assert not movement.hangs("a", False, 1)
    clock.now += 1
    assert movement.hangs("a", False, 1)
    assert not movement.hangs("b", False, 1), "each is seen apart"
    assert not movement.hangs("a", False, 2), "it got on"
    clock.now += STALL_TIMEOUT_SECONDS + 1
    assert movement.hangs("a", False, 2)


def test_a_query_that_rests_does_not_hang() -> None:
    clock = Clock()
    movement = Watchdog(clock)
    for _ in range(10):
        assert not movement.hangs("a", True, 1)
        clock.now += STALL_TIMEOUT_SECONDS
    assert not movement.hangs("a", False, 1)


def test_waiting_is_counted_and_ends_with_the_others_event() -> None:
    stop = threading.Event()
    waiting = CountingEvent(stop)
    assert not waiting.wait(0.001)
    assert waiting.waits == 1
    assert not waiting.is_set()
    stop.set()
    assert waiting.is_set()
    assert waiting.wait()
