"""Whether each of several queries gets on, so that one that hangs is not hidden by the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

# Without a sign of progress in a batch for so long, a query counts as hanging.
PATIENCE_SECONDS = 60.0


class Waiting(threading.Event):
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


class Movement:
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
        return now - seen.at > PATIENCE_SECONDS
