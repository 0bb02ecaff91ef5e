"""Trying again, with a bound: what a database that is down for a while costs is time, and nothing else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from random import SystemRandom
from typing import TypeVar

from spark_jobs.common.sinks.base import Unwritten

log = logging.getLogger(__name__)

FIRST_SECONDS = 0.2
MOST_SECONDS = 10.0
Done = TypeVar("Done")


class Stopped(Unwritten):
    """It was told to stop while it waited for a database to come back; nothing of the batch is there."""


class Passing(Exception):
    """What may be over when it is tried again; the text says what is wrong, without the sink's name, ``kind``
    in a word or two."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


class Retrying:
    """Tries work of the sink ``name`` until it is done, for at most ``seconds`` from its first failure on.

    Waits longer after each failure, and not exactly as long as others: 0.2 s to 10 s. ``stop`` ends the
    waiting, not a try.
    """

    def __init__(self, name: str, seconds: float, stop: threading.Event) -> None:
        self._name, self._seconds, self._stop = name, seconds, stop
        self._random = SystemRandom()

    def until_done(self, work: Callable[[], Done]) -> Done:
        """What ``work`` returns, which raises Passing as long as it may be tried again.

        Raises Unwritten when the time is over, Stopped, and what else ``work`` raises.
        """
        began, failures, said = 0.0, 0, ""
        while True:
            try:
                done = work()
            except Passing as trouble:
                failures += 1
                began = began or time.monotonic()
                left = began + self._seconds - time.monotonic()
                if left <= 0:
                    raise Unwritten(
                        f"{self._name}: {trouble}; tried {failures} times in {self._seconds:.0f} s; mend it, "
                        "and start the stream again: nothing is lost"
                    ) from trouble.__cause__
                # One line as long as the same is wrong.
                if trouble.kind != said:
                    said = trouble.kind
                    log.warning("%s: %s; trying again for %.0f s", self._name, trouble, left)
                if self._stop.wait(min(self._delay(failures), left)):
                    raise Stopped(
                        f"{self._name}: {trouble}; told to stop while waiting for it"
                    ) from trouble.__cause__
            else:
                if failures:
                    log.info("%s: well again after %.1f s", self._name, time.monotonic() - began)
                return done

    def _delay(self, failures: int) -> float:
        most = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 1, 30))
        return most * (0.5 + self._random.random() / 2)
