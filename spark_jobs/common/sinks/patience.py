"""How long a sink waits for a system that does not answer, and what it says meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from spark_jobs.common.sinks.base import Unwritten

log = logging.getLogger(__name__)

FIRST_SECONDS = 0.2
MOST_SECONDS = 5.0
# A stop does not wait for what has not moved for so long.
STOP_SECONDS = 2.0


class Patience:
    """One streak of failures: from the first to the next success. ``mend`` is what a person can do.

    A streak ends with an error after ``seconds`` (0: at its first failure), or soon after ``stop`` is set.
    One line is logged when it begins, one when it is over.
    """

    def __init__(
        self,
        what: str,
        mend: str,
        seconds: float,
        stop: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._mend, self._seconds = what, mend, seconds
        self._stop, self._clock = stop, clock
        self._since: float | None = None
        self._pause = FIRST_SECONDS

    def failed(self, reason: str) -> None:
        """Note a failure and wait a while, each time longer. Raises Unwritten when it has taken too long."""
        self.standing(reason)
        self._stop.wait(self._pause)
        self._pause = min(self._pause * 2, MOST_SECONDS)

    def standing(self, reason: str) -> None:
        """As :meth:`failed`, for who has waited already."""
        now = self._clock()
        # That it is waited for is seen by who counts the waiting.
        self._stop.wait(0)
        if self._since is None:
            self._since = now
            log.warning("%s: %s; trying again for up to %g s", self._what, reason, self._seconds)
        waited = now - self._since
        if waited >= self._seconds:
            raise Unwritten(f"{self._what}: {reason}, for {waited:.0f} s; {self._mend}")
        if self._stop.is_set() and waited >= STOP_SECONDS:
            raise Unwritten(f"{self._what}: {reason}, and the process was asked to stop; {self._mend}")

    def over(self) -> None:
        """It works again."""
        if self._since is not None:
            log.info("%s: works again after %.0f s", self._what, self._clock() - self._since)
        self._since, self._pause = None, FIRST_SECONDS
