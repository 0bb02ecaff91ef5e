"""What every sink can; retries.

What all sinks of a query have in common: who may write, which batch is there, and how one fails.

A sink belongs to one query of one stream. A batch's number is the query's, kept over restarts and take-overs;
an owner's epoch is higher than any before it. Which sink guarantees what, its own docstring says.

How long a sink waits for a system that does not answer, and what it says meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from random import SystemRandom
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame

from sluice.model.error_codes import ErrorCode


class SinkWriteFailed(RuntimeError):
    """A sink did not take a batch; it holds none of it, or the same batch can be written again.

    The first line names the sink, the reason and the mend.
    """

    code = ErrorCode.SINK_WRITE_FAILED


class Sink(Protocol):
    """One place to which a query's results go. Not for several threads at once."""

    name: str

    def open(self, epoch: int) -> int | None:
        """Become the writer with this epoch: no lower one writes from here on, as far as the sink can fence.

        Returns the last batch of which the sink holds anything, whoever wrote it (None: it holds nothing).
        Of a sink that cannot take a batch as a whole it may be a part: the same rows under the same number
        complete it. Entering twice is the same as once. Raises Fenced where a higher epoch is
        there.
        """

    def write(self, batch: int, rows: DataFrame) -> bool:
        """Write a batch: the columns of ``Query.keys`` and the measures. The caller keeps ``rows``
        (``persist``): they may be computed more than once.

        Returns False, having changed nothing, where the whole batch is there already. Raises Fenced
        where a later owner has entered.
        """

    def close(self) -> None:
        """Let go of what is open. It can be called more than once, and at any time."""


log = logging.getLogger(__name__)

FIRST_SECONDS = 0.2
MAX_SECONDS = 10.0
# A stop does not wait for what has not moved for so long.
STOP_SECONDS = 2.0
Done = TypeVar("Done")


class TransientError(Exception):
    """What may be over when it is tried again. The text says what is wrong, without the sink's name; ``kind``
    says so in a word or two, the same for as long as the same is wrong."""

    code = ErrorCode.SINK_WRITE_FAILED

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class RetryPolicy:
    """Tries work until it is done, for at most ``seconds`` from its first failure on.

    ``what`` names who waits, ``mend`` what a person can do. Waits longer after each failure, and not exactly
    as long as others: 0.1 s to 10 s. ``stop`` ends the waiting, not a try.
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
        self._random = SystemRandom()
        # Of the streak of failures: since when, how many, and what was said of it last.
        self._since: float | None = None
        self._failures = 0
        self._said: str | None = None

    def call(self, work: Callable[[], Done]) -> Done:
        """What ``work`` returns, which raises TransientError as long as it may be tried again.

        Raises SinkWriteFailed when the time is over (0 seconds: at the first failure) or ``stop`` is set, and
        what else ``work`` raises. A line is logged when it begins to fail, when something else is wrong, and
        when it is over.
        """
        self._since, self._failures, self._said = None, 0, None
        while True:
            try:
                done = work()
            except TransientError as trouble:
                self._failed(trouble)
            else:
                if self._since is not None:
                    log.info("%s: works again after %.1f s", self._what, self._clock() - self._since)
                return done

    def standing(self, reason: str) -> None:
        """For ``work`` that waits by itself, and sees nothing move. Raises as :meth:`call`, but after
        ``stop`` only what has stood for two seconds."""
        # That it is waited for is seen by who counts the waiting.
        self._stop.wait(0)
        waited = self._note(TransientError(reason))
        if self._stop.is_set() and waited >= STOP_SECONDS:
            raise self._stopped(reason)

    def _failed(self, trouble: TransientError) -> None:
        waited = self._note(trouble)
        most = min(MAX_SECONDS, FIRST_SECONDS * 2.0 ** min(self._failures, 30))
        self._failures += 1
        if self._stop.wait(min(most * (0.5 + self._random.random() / 2), self._seconds - waited)):
            raise self._stopped(str(trouble)) from trouble.__cause__

    def _note(self, trouble: TransientError) -> float:
        """For how many seconds it has failed by now. Raises SinkWriteFailed where that is too long."""
        now = self._clock()
        if self._since is None:
            self._since = now
        waited = now - self._since
        if waited >= self._seconds:
            raise SinkWriteFailed(
                f"{self._what}: {trouble}, for {waited:.0f} s; {self._mend}"
            ) from trouble.__cause__
        if trouble.kind != self._said:
            self._said = trouble.kind
            left = self._seconds - waited
            log.warning("%s: %s; trying again for up to %.0f s", self._what, trouble, left)
        return waited

    def _stopped(self, reason: str) -> SinkWriteFailed:
        return SinkWriteFailed(f"{self._what}: {reason}, and the process was asked to stop; {self._mend}")
