"""One answer for everybody who asks within a moment, and one question at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from sluice.clients.errors import Unreachable

T = TypeVar("T")


class Kept(Generic[T]):
    """What ``ask`` answers, for ``seconds`` seconds.

    While one thread asks, others wait for its answer, but no longer than ``patience`` seconds: a system that
    hangs must not take all of the API server's threads. An error is not kept, it is raised to who asked.
    ``clock`` tells seconds that only grow.
    """

    def __init__(
        self,
        ask: Callable[[], T],
        seconds: float,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._seconds = seconds
        self._patience = patience
        self._lock = Lock()
        self._answer: tuple[float, T] | None = None

    def get(self) -> T:
        """Raises Unreachable where an earlier question has no answer yet, and whatever ``ask`` raises."""
        if not self._lock.acquire(timeout=self._patience):
            raise Unreachable(f"an earlier question is still without an answer after {self._patience:g} s")
        try:
            if self._answer is None or self._clock() - self._answer[0] >= self._seconds:
                answer = self._ask()
                # Its age counts from the answer, not from the question: a slow answer is of use to somebody.
                self._answer = (self._clock(), answer)
            return self._answer[1]
        finally:
            self._lock.release()
