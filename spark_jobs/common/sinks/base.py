"""What all sinks share: their protocol, their target, and the retries of a system that does not answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame

from sluice.config.sections import sink
from sluice.config.sections.query import Query
from sluice.core.error_codes import ErrorCode

log = logging.getLogger(__name__)

# A database may be down for minutes; the task provision_sinks fails meanwhile.
STALL_TIMEOUT_SECONDS = 600.0
FIRST_SECONDS = 0.2
MAX_SECONDS = 10.0
# After a stop, work that has been stalled for longer ends.
STOP_SECONDS = 2.0
Result = TypeVar("Result")


class SinkWriteFailed(RuntimeError):
    """A sink did not take a batch; it holds none of it, or the same batch can be written again."""

    code = ErrorCode.SINK_WRITE_FAILED


class SinkLoginRefused(SinkWriteFailed):
    """A sink's database refuses the login, or is not verified: it goes on once that is corrected."""

    code = ErrorCode.DATABASE_LOGIN


@dataclass(frozen=True)
class Target:
    """The ``sink`` of the ``query`` that ``stream`` declares as ``query_name``. ``stop`` ends the sink's
    retries, and so do ``stall_timeout_seconds``."""

    stream: str
    query_name: str
    query: Query
    sink: sink.Sink
    stop: threading.Event
    stall_timeout_seconds: float = STALL_TIMEOUT_SECONDS


class Sink(Protocol):
    """One place for a query's results. Not thread-safe.

    Batch numbers are the query's and grow over restarts and failovers; a writer's epoch is higher than any
    before it. Each sink's own docstring says what it guarantees.
    """

    name: str

    def open(self, epoch: int) -> int | None:
        """Become the writer with this epoch: no lower one writes from here on, as far as the sink can fence.

        Returns the last batch of which the sink holds anything (None: empty). If the sink cannot take a batch
        at once, that may be a part: the same rows under the same number complete it. Raises Fenced if the
        sink holds this epoch, which is then another writer's, or a higher one.
        """

    def write(self, batch: int, rows: DataFrame, *, is_whole: bool = False) -> bool:
        """Write a batch: the columns of ``Query.keys`` and the aggregates; False if the sink holds it.

        ``is_whole``: ``rows`` are all results of the query, so the sink holds no others afterwards: in one
        step with the batch, and without a list of them in memory. Never of a query without aggregates.

        The caller persists ``rows``: they may be computed more than once. Raises Fenced if a later writer
        opened the sink.
        """

    def close(self) -> None:
        """Release connections; may be called at any time and more than once."""


class TransientError(Exception):
    """An error that a retry may solve. The text leaves out the sink's name; ``kind`` stays the same for the
    same cause."""

    code = ErrorCode.SINK_WRITE_FAILED

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class RetryPolicy:
    """Retries work with random, growing pauses (0.1 to 10 s) for ``seconds`` after its first failure.

    ``name`` and ``fix`` are the beginning and end of its messages. ``stop`` ends a pause, not an attempt.
    """

    def __init__(self, name: str, fix: str, seconds: float, stop: threading.Event) -> None:
        self._name, self._fix, self._seconds, self._stop = name, fix, seconds, stop
        self._random = SystemRandom()
        self._first_failure: float | None = None
        self._failures = 0
        self._last_logged: str | None = None

    def call(self, work: Callable[[], Result]) -> Result:
        """The result of ``work``, which raises TransientError to be called again.

        Raises SinkWriteFailed after ``seconds`` (0: at the first failure) or ``stop``, and other errors of
        ``work``. Logs the first failure, each new kind of failure, and the recovery.
        """
        self._first_failure, self._failures, self._last_logged = None, 0, None
        while True:
            try:
                result = work()
            except TransientError as error:
                stalled = self._note(error)
                longest = min(MAX_SECONDS, FIRST_SECONDS * 2.0 ** min(self._failures, 30))
                self._failures += 1
                pause = min(longest * (0.5 + self._random.random() / 2), self._seconds - stalled)
                if self._stop.wait(pause):
                    raise self._stopped(str(error)) from error.__cause__
            else:
                if self._first_failure is not None:
                    log.info(
                        "%s: works again after %.1f s", self._name, time.monotonic() - self._first_failure
                    )
                return result

    def check_stalled(self, reason: str) -> None:
        """For ``work`` that waits by itself without progress; raises as :meth:`call`, but after ``stop`` only
        if it has been stalled for two seconds."""
        # No pause: only for CountingEvent, by which the watchdog sees the wait.
        self._stop.wait(0)
        stalled = self._note(TransientError(reason))
        if self._stop.is_set() and stalled >= STOP_SECONDS:
            raise self._stopped(reason)

    def _note(self, error: TransientError) -> float:
        """Seconds since the first failure. Raises SinkWriteFailed if those are too many."""
        now = time.monotonic()
        if self._first_failure is None:
            self._first_failure = now
        stalled = now - self._first_failure
        if stalled >= self._seconds:
            raise SinkWriteFailed(
                f"{self._name}: {error}, for {stalled:.0f} s; {self._fix}"
            ) from error.__cause__
        if error.kind != self._last_logged:
            self._last_logged = error.kind
            log.warning("%s: %s; retrying for up to %.0f s", self._name, error, self._seconds - stalled)
        return stalled

    def _stopped(self, reason: str) -> SinkWriteFailed:
        return SinkWriteFailed(f"{self._name}: {reason}, and the process was asked to stop; {self._fix}")
