"""A bounded run beside a producer that runs already: what that one sends is this run's too."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from spark_jobs.common.feed.lock import Lock
from spark_jobs.common.feed.records import Records

LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Arrivals:
    """What came to the topic from ``begin`` on; ``is_over``: as much as was wanted, or as long."""

    begin: dict[int, int]
    ends: dict[int, int]
    is_over: bool

    @property
    def events(self) -> int:
        return sum(self.ends.values()) - sum(self.begin.get(partition, 0) for partition in self.ends)


def watch(
    records: Records, lock: Lock, most: int | None, deadline: float | None, stop: threading.Event
) -> Arrivals:
    """Wait for ``most`` records, ``deadline`` (of time.monotonic) or ``stop``, whichever is first; or until
    the other producer is gone, when this process holds the lock."""
    begin = records.ends()
    while True:
        now = Arrivals(begin, records.ends(), is_over=True)
        if most is not None and now.events >= most:
            return now
        if stop.is_set() or (deadline is not None and time.monotonic() >= deadline):
            return now
        if lock.take(0):
            return Arrivals(begin, now.ends, is_over=False)
        stop.wait(LOOK_SECONDS)
