"""Position of the feed: by the clock, in bursts, after a restart; and its requests. For any thread."""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from local.base import UsageError
from local.replay.events import Feed, RateChange, burst, reached
from sluice.config.reading.files import write_private

_REMEMBERED = 1_000
_ENDLESS = 1 << 62
# More than what comes between two checks of the clock, also in a burst.
AHEAD_SECONDS = 10
AHEAD_EVENTS = 5_000


@dataclass(frozen=True)
class RequestRecord:
    """A request for the feed; `at`: seconds since 1970, `status`: of the response."""

    at: float
    user_agent: str
    last_event_id: str | None
    status: int


@dataclass(frozen=True)
class Clock:
    """Growth of the feed: event `first` exists at `born` (seconds since 1970), then `rate` events per second.

    At rate 0 all events exist at once. `total`: maximum number of events. `rate_changes`: see Feed.
    """

    born: float
    rate: float
    first: int = 0
    total: int | None = None
    rate_changes: tuple[RateChange, ...] = ()

    @property
    def schedule(self) -> tuple[RateChange, ...]:
        return (RateChange(self.first, self.born, self.rate), *self.rate_changes)

    def following(self, now: float) -> int:
        """The number of the first event that does not exist yet."""
        most = _ENDLESS if self.total is None else self.total
        return most if self.rate == 0 else min(most, reached(self.schedule, now))


class State:
    """Times are seconds since 1970. `asleep`: no event before the first request or burst."""

    def __init__(self, clock: Clock, feed: Feed, asleep: bool = False) -> None:
        self.clock = clock
        self.feed = feed
        self._asleep = asleep
        self._guard = threading.Lock()
        self._sent = -1
        self._frames = 0
        self._open = 0
        self._requests: deque[RequestRecord] = deque(maxlen=_REMEMBERED)

    @property
    def requests(self) -> list[RequestRecord]:
        """Oldest first, the last 1,000."""
        with self._guard:
            return list(self._requests)

    def following(self, now: float) -> int:
        return self.clock.first if self._asleep else self.clock.following(now)

    def wake(self, now: float) -> None:
        """Start the clock of a feed that is asleep."""
        with self._guard:
            if self._asleep:
                later = now - self.clock.born
                self.feed = replace(self.feed, start=self.feed.start + later)
                self.clock = replace(self.clock, born=now)
                self._asleep = False

    def burst(self, events: int, rate: float, now: float) -> int:
        """Emit `events` events at `rate` from now on, then the first rate again; give the first one's number.

        Raises ValueError at full speed, and for an invalid burst.
        """
        if self.clock.rate == 0 or events < 1 or rate <= 0:
            raise ValueError(f"no burst of {events} events at {rate}/s over {self.clock.rate}/s")
        self.wake(now)
        with self._guard:
            n = self.clock.following(now)
            # In the events' own time it is faster by the same factor.
            own = rate * self.feed.rate / self.clock.rate
            self.feed = replace(self.feed, rate_changes=burst(self.feed.schedule, n, events, own)[1:])
            self.clock = replace(self.clock, rate_changes=burst(self.clock.schedule, n, events, rate)[1:])
            return n

    def record(self, request: RequestRecord) -> None:
        with self._guard:
            self._requests.append(request)

    def connected(self, change: int) -> None:
        with self._guard:
            self._open += change

    def sent(self, newest: int, frames: int) -> None:
        with self._guard:
            self._sent = max(self._sent, newest)
            self._frames += frames

    def to_json(self, now: float) -> dict[str, Any]:
        """`n`: the newest event, -1 before the first (at rate 0: the newest sent). `frames`: sent over all
        connections; `open`: connections now."""
        with self._guard:
            return {
                "n": self._sent if self.clock.rate == 0 else self.following(now) - 1,
                "sent": self._sent,
                "frames": self._frames,
                "open": self._open,
                "requests": [asdict(request) for request in list(self._requests)[-20:]],
                **asdict(self.clock),
            }


class SavedPosition:
    """The next event's number in a file, which is ahead of a running server: after a kill it resumes beyond
    every number that a client may have, so no client waits for it to catch up.
    """

    def __init__(self, path: Path | None, rate: float) -> None:
        """Keep nothing without a path. Raises UsageError for an invalid file."""
        self._path = path
        self._ahead = max(AHEAD_EVENTS, int(rate * AHEAD_SECONDS))
        self.first = 0
        if path is not None and path.exists():
            try:
                self.first = int(json.loads(path.read_text())["next"])
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(f"{path} is no replay position: {error}. Fix: remove it") from error

    def reached(self, following: int) -> None:
        """Record that `following` is the next event's number."""
        if following >= self.first:
            self.close(following + self._ahead)

    def close(self, following: int) -> None:
        """Record an orderly end: no number is skipped."""
        self.first = following
        if self._path is not None:
            write_private(self._path, json.dumps({"next": following}) + "\n")
