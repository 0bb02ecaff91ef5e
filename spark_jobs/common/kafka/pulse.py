"""Heartbeats of a process whose work may take long, from a thread of their own: as long as it gets on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from sluice.model.health.heartbeat import BEAT_SECONDS
from spark_jobs.common.kafka.heartbeat import Heartbeat

log = logging.getLogger(__name__)

# Without a sign of progress for so long the process counts as hanging, and gives no more heartbeats.
PATIENCE_SECONDS = 60.0


class Pulse:
    """Beats every ``seconds`` what was said last, while the work says something or its marks change.

    ``marks`` is asked with every beat for anything that changes when the work gets on. Before something is
    said there is no heartbeat.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        marks: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        seconds: float = BEAT_SECONDS,
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
            hangs = self._clock() - self._moved > PATIENCE_SECONDS
            ends, state, detail = self._said
        if hangs:
            log.warning("no progress for %.0f s while %s: no heartbeat", PATIENCE_SECONDS, detail)
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
