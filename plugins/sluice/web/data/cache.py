"""Values that are cached for seconds, so that many viewers cost as much as one."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from sluice.core.errors import Unreachable

T = TypeVar("T")
# A system that hangs must not block all of the API server's threads.
MAX_WAIT_SECONDS = 2.0


class TtlCache(Generic[T]):
    """The value of ``load``, cached for ``seconds`` from its return. Errors are not cached.

    While one thread loads, others wait MAX_WAIT_SECONDS at most.
    """

    def __init__(self, load: Callable[[], T], seconds: float) -> None:
        self._load, self._seconds = load, seconds
        self._lock = Lock()
        self._value: tuple[float, T] | None = None

    def get(self) -> T:
        """Raises Unreachable if an earlier load has not returned, and whatever ``load`` raises."""
        if not self._lock.acquire(timeout=MAX_WAIT_SECONDS):
            raise Unreachable(f"an earlier request has no answer after {MAX_WAIT_SECONDS:g} s")
        try:
            if self._value is None or time.monotonic() - self._value[0] >= self._seconds:
                value = self._load()
                self._value = (time.monotonic(), value)
            return self._value[1]
        finally:
            self._lock.release()
