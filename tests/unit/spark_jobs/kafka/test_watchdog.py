"""A query that hangs is seen, whatever the others do."""

from __future__ import annotations

import threading

from spark_jobs.common.kafka.heartbeat import STALL_TIMEOUT_SECONDS, CountingEvent, Watchdog
from tests.support.clock import Clock


def test_a_query_hangs_that_is_long_in_one_batch_without_a_sign(clock: Clock) -> None:
    watchdog = Watchdog()
    assert not watchdog.is_stuck("a", 1)
    clock.now += STALL_TIMEOUT_SECONDS
    assert not watchdog.is_stuck("a", 1)
    clock.now += 1
    assert watchdog.is_stuck("a", 1)
    assert not watchdog.is_stuck("b", 1), "each is seen apart"
    assert not watchdog.is_stuck("a", 2), "it got on"
    clock.now += STALL_TIMEOUT_SECONDS + 1
    assert watchdog.is_stuck("a", 2)


def test_a_query_that_rests_does_not_hang(clock: Clock) -> None:
    watchdog = Watchdog()
    for _ in range(10):
        assert not watchdog.is_stuck("a", 1, idle=True)
        clock.now += STALL_TIMEOUT_SECONDS
    assert not watchdog.is_stuck("a", 1)


def test_waiting_is_counted_and_ends_with_the_others_event() -> None:
    stop = threading.Event()
    waiting = CountingEvent(stop)
    assert not waiting.wait(0.001)
    assert waiting.waits == 1
    assert not waiting.is_set()
    stop.set()
    assert waiting.is_set()
    assert waiting.wait()
