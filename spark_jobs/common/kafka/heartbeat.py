"""Heartbeats, their thread, the watchdog.

That a long-running process is alive, and what it is doing, as the offsets of a consumer group.

A group's offsets carry a text (metadata) besides the number; any client that may describe the group reads
both back. So a sign of life needs no place of its own, and lag tools show the process's progress.

Heartbeats of a process whose work may take long, from a thread of their own: as long as it gets on.

Whether each of several queries gets on, so that one that hangs is not hidden by the others.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import TopicPartition

from sluice.model.health.heartbeat import HEARTBEAT_INTERVAL, MAX_DETAIL, HeartbeatState
from sluice.model.spec.platform import Kafka
from spark_jobs.common.kafka.offsets import COMMIT_SECONDS, GroupOffsets

log = logging.getLogger(__name__)


class HeartbeatSender:
    """The group ``sluice-<stream>-<part>``. Not for several threads at once.

    Nobody but the one process that holds the part may beat: the last one is what is seen.
    """

    def __init__(
        self,
        kafka: Kafka,
        stream: str,
        part: str,
        topic: str,
        clock: Callable[[], float] = time.time,
        offsets: GroupOffsets | None = None,
    ) -> None:
        """``clock``: seconds since 1970. ``offsets``: in the place of the group's own."""
        self.group = f"sluice-{stream}-{part}"
        self._offsets = offsets or GroupOffsets(kafka, self.group)
        self._topic = topic
        self._clock = clock
        self._state = ""
        self._since = 0.0
        self._failing = False

    def beat(self, ends: Mapping[int, int], state: str, detail: str = "", since: float | None = None) -> bool:
        """Tell ``ends`` (partition -> next offset; at least one partition) and what is being done.

        ``state``: a HeartbeatState; ``detail`` is cut to MOST_DETAIL characters. ``since``: when the state
        began, seconds since 1970; by default the first beat in a row that told it. Returns whether Kafka has
        taken it; takes COMMIT_SECONDS and one more at most. A failure is logged once per streak of them, and
        stops nothing. Raises ValueError for a state that is none.
        """
        if state not in list(HeartbeatState):
            raise ValueError(f"state {state!r}: one of {', '.join(sorted(HeartbeatState))}")
        now = self._clock()
        if state != self._state:
            self._state, self._since = state, now
        told = {
            "at": int(now * 1000),
            "pid": os.getpid(),
            "state": state,
            "since": int((self._since if since is None else since) * 1000),
            "detail": detail[:MAX_DETAIL],
        }
        lowest, text = min(ends), json.dumps(told)
        offsets = [
            TopicPartition(self._topic, partition, end, metadata=text if partition == lowest else "")
            for partition, end in sorted(ends.items())
        ]
        refused = self._offsets.set(offsets, COMMIT_SECONDS)
        if refused is not None and not self._failing:
            log.warning(
                "group %s: Kafka did not take the heartbeat (%s); supervision sees an old one until it works",
                self.group,
                refused.str(),
            )
        elif refused is None and self._failing:
            log.info("group %s: Kafka takes the heartbeat again", self.group)
        self._failing = refused is not None
        return refused is None


# Without a sign of progress for so long the process counts as hanging, and gives no more heartbeats.
STALL_TIMEOUT_SECONDS = 60.0


class HeartbeatThread:
    """Beats every ``seconds`` what was said last, while the work says something or its marks change.

    ``marks`` is asked with every beat for anything that changes when the work gets on. Before something is
    said there is no heartbeat.
    """

    def __init__(
        self,
        heartbeat: HeartbeatSender,
        marks: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        seconds: float = HEARTBEAT_INTERVAL,
    ) -> None:
        self._heartbeat = heartbeat
        self._clock = clock
        self._seconds = seconds
        self.marks = marks
        self._lock = threading.Lock()
        self._said: tuple[dict[int, int], str, str] | None = None
        self._seen: object = None
        self._moved = clock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def say(self, state: str, detail: str, ends: Mapping[int, int]) -> None:
        """What the process does from now on; ``ends``: partition -> offset. A heartbeat needs one at least,
        so where there is none yet it is the first partition's beginning."""
        with self._lock:
            self._said = (dict(ends) or {0: 0}, state, detail)
            self._moved = self._clock()

    def tick(self) -> bool:
        """Beat, unless the work does not get on; returns whether it was beaten."""
        marks = self.marks()
        with self._lock:
            if marks != self._seen:
                self._seen, self._moved = marks, self._clock()
            if self._said is None:
                return False
            hangs = self._clock() - self._moved > STALL_TIMEOUT_SECONDS
            ends, state, detail = self._said
        if hangs:
            log.warning("no progress for %.0f s while %s: no heartbeat", STALL_TIMEOUT_SECONDS, detail)
            return False
        self._heartbeat.beat(ends, state, detail)
        return True

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more heartbeats, from when this returns."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self.tick()
            if self._stop.wait(self._seconds):
                return


# Without a sign of progress in a batch for so long, a query counts as hanging.


class CountingEvent(threading.Event):
    """Another's event, and how often somebody waited for it: who waits with an end is not hanging."""

    def __init__(self, other: threading.Event) -> None:
        super().__init__()
        self._other = other
        self.waits = 0

    def is_set(self) -> bool:
        return self._other.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        return self._other.wait(timeout)


@dataclass
class _Seen:
    mark: object
    at: float


class Watchdog:
    """What was seen of each query. ``clock``: seconds, that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    def hangs(self, name: str, resting: bool, mark: object) -> bool:
        """One look at a query: whether it rests between two batches, and a ``mark`` that changes as it gets
        on. Says whether it has been in one batch without a change for PATIENCE_SECONDS."""
        now = self._clock()
        seen = self._seen.setdefault(name, _Seen(mark, now))
        if resting or mark != seen.mark:
            self._seen[name] = _Seen(mark, now)
            return False
        return now - seen.at > STALL_TIMEOUT_SECONDS
