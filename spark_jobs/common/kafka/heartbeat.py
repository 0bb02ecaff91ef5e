"""Heartbeats of a process, as metadata of a consumer group's offsets, and the watchdog of its work.

Any client that may describe the group reads them, and lag tools show the process's progress.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from time import monotonic, time

from confluent_kafka import TopicPartition

from sluice.config.platform_sections.kafka import Kafka
from sluice.core.processes.heartbeat import HEARTBEAT_INTERVAL, MAX_DETAIL, HeartbeatState
from spark_jobs.common.kafka.offsets import GroupOffsets

log = logging.getLogger(__name__)

STALL_TIMEOUT_SECONDS = 60.0


class HeartbeatSender(GroupOffsets):
    """Sends heartbeats to the group ``sluice-<stream>-<component>``; the last one counts.

    For one thread at a time, in the one active process of the component.
    """

    def __init__(self, kafka: Kafka, stream: str, component: str, topic: str) -> None:
        super().__init__(kafka, f"sluice-{stream}-{component}")
        self._topic = topic
        self._state = ""
        self._since = 0.0

    def send(
        self, end_offsets: Mapping[int, int], state: str, detail: str = "", since: float | None = None
    ) -> bool:
        """Send a heartbeat; return whether Kafka accepted it.

        ``end_offsets``: partition -> next offset, at least one. ``state``: a HeartbeatState. ``detail``: cut
        to MAX_DETAIL characters. ``since``: the state's start in seconds since 1970, by default the first
        heartbeat in a row with it. As :meth:`GroupOffsets.try_set`. Raises ValueError for an unknown state.
        """
        if state not in list(HeartbeatState):
            raise ValueError(f"state {state!r}: one of {', '.join(sorted(HeartbeatState))}")
        now = time()
        if state != self._state:
            self._state, self._since = state, now
        heartbeat = {
            "at": int(now * 1000),
            "pid": os.getpid(),
            "state": state,
            "since": int((self._since if since is None else since) * 1000),
            "detail": detail[:MAX_DETAIL],
        }
        lowest, text = min(end_offsets), json.dumps(heartbeat)
        return self.try_set(
            [
                TopicPartition(self._topic, partition, end, metadata=text if partition == lowest else "")
                for partition, end in sorted(end_offsets.items())
            ]
        )


class Watchdog:
    """Detects work whose ``activity`` has not changed for STALL_TIMEOUT_SECONDS, by name."""

    def __init__(self) -> None:
        self._changes: dict[str, tuple[object, float]] = {}

    def is_stuck(self, name: str, activity: object, *, idle: bool = False) -> bool:
        """Observe the work; ``idle`` work is never stuck."""
        before, changed_at = self._changes.get(name, (None, 0.0))
        if idle or name not in self._changes or activity != before:
            self._changes[name] = activity, monotonic()
            return False
        return monotonic() - changed_at > STALL_TIMEOUT_SECONDS


class HeartbeatThread:
    """Sends what was reported last every HEARTBEAT_INTERVAL seconds, unless the work is stuck.

    ``activity`` returns a value that changes with the work. The first report starts the heartbeats.
    """

    def __init__(self, sender: HeartbeatSender, activity: Callable[[], object] = lambda: None) -> None:
        self._sender = sender
        self.activity = activity
        self._watchdog = Watchdog()
        self._last_activity: object = None
        self._reports = 0
        self._lock = threading.Lock()
        self._status: tuple[dict[int, int], str, str] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def report(self, state: str, detail: str, end_offsets: Mapping[int, int]) -> None:
        """Set the status of the process. A heartbeat needs an offset: by default partition 0's first."""
        with self._lock:
            self._status = (dict(end_offsets) or {0: 0}, state, detail)
            self._reports += 1
            self._is_stuck(self._last_activity)

    def tick(self) -> bool:
        """Send a heartbeat unless the work is stuck; return whether it was sent."""
        activity = self.activity()
        with self._lock:
            is_stuck = self._is_stuck(activity)
            if self._status is None:
                return False
            end_offsets, state, detail = self._status
        if is_stuck:
            log.warning("heartbeat withheld, no progress for %.0f s: %s", STALL_TIMEOUT_SECONDS, detail)
            return False
        self._sender.send(end_offsets, state, detail)
        return True

    def _is_stuck(self, activity: object) -> bool:
        self._last_activity = activity
        return self._watchdog.is_stuck("", (self._reports, activity))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no heartbeat after this returns."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self.tick()
            if self._stop.wait(HEARTBEAT_INTERVAL):
                return


class CountingEvent(threading.Event):
    """Another event that counts its waits: work that waits with a timeout is not stuck."""

    def __init__(self, other: threading.Event) -> None:
        super().__init__()
        self._other = other
        self.waits = 0

    def is_set(self) -> bool:
        return self._other.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        return self._other.wait(timeout)
