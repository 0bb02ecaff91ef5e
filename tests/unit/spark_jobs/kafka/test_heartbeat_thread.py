"""Heartbeats from a thread, as long as the work gets on."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from spark_jobs.common.kafka import heartbeat
from spark_jobs.common.kafka.heartbeat import STALL_TIMEOUT_SECONDS, HeartbeatSender, HeartbeatThread
from tests.support.clock import Clock


class Heart(HeartbeatSender):
    def __init__(self) -> None:
        self.heartbeats: list[tuple[dict[int, int], str, str]] = []
        self.beaten = threading.Event()

    def send(self, ends: Mapping[int, int], state: str, detail: str = "", since: float | None = None) -> bool:
        self.heartbeats.append((dict(ends), state, detail))
        self.beaten.set()
        return True


def test_it_sends_what_was_said_last() -> None:
    heart = Heart()
    made = HeartbeatThread(heart)
    assert not made.tick(), "nothing was said yet"
    made.report("idle", "waiting", {})
    made.tick()
    made.report("working", "counting", {0: 5, 1: 6})
    made.tick()
    made.tick()
    assert heart.heartbeats == [
        ({0: 0}, "idle", "waiting"),
        ({0: 5, 1: 6}, "working", "counting"),
        ({0: 5, 1: 6}, "working", "counting"),
    ]


def test_who_says_nothing_for_too_long_is_silent(clock: Clock) -> None:
    heart = Heart()
    made = HeartbeatThread(heart)
    made.report("idle", "here", {})
    assert made.tick()
    clock.now += STALL_TIMEOUT_SECONDS
    assert made.tick()
    clock.now += 1
    assert not made.tick()
    made.report("idle", "here again", {})
    assert made.tick()
    assert len(heart.heartbeats) == 3


def test_long_work_that_gets_on_is_alive(clock: Clock) -> None:
    heart, marks = Heart(), [1]
    made = HeartbeatThread(heart, lambda: list(marks))
    made.report("working", "counting", {})
    for step in range(5):
        clock.now += STALL_TIMEOUT_SECONDS + 1
        marks[0] = step
        assert made.tick()
    clock.now += STALL_TIMEOUT_SECONDS + 1
    assert not made.tick()


def test_it_sends_heartbeats_by_itself_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "HEARTBEAT_INTERVAL", 0.001)
    heart = Heart()
    made = HeartbeatThread(heart)
    made.report("idle", "here", {})
    made.start()
    for _ in range(3):
        assert heart.beaten.wait(60)
        heart.beaten.clear()
    made.stop()
    assert len(heart.heartbeats) >= 3
    assert "heartbeat" not in [thread.name for thread in threading.enumerate()]
