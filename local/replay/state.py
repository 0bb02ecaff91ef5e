"""What the connections share: how far the feed is, which faults are on, who asked. For any thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from local.replay.faults import Faults
from local.replay.feed import Feed
from local.replay.tempo import Turn, burst, reached

_REMEMBERED = 1_000
_ENDLESS = 1 << 62


@dataclass(frozen=True)
class Asked:
    """A request for the feed: when it came (seconds since 1970), what it said, and the answer's status."""

    at: float
    user_agent: str
    last_event_id: str | None
    status: int


@dataclass(frozen=True)
class Clock:
    """How the feed grows: event `first` is there at `born` (seconds since 1970), then `rate` a second.

    At rate 0 everything is there at once. There are `total` events at most. `turns`: another rate for a time.
    """

    born: float
    rate: float
    first: int = 0
    total: int | None = None
    turns: tuple[Turn, ...] = ()

    @property
    def tempo(self) -> tuple[Turn, ...]:
        return (Turn(self.first, self.born, self.rate), *self.turns)

    def following(self, now: float) -> int:
        """The number of the first event that is not there yet."""
        most = _ENDLESS if self.total is None else self.total
        return most if self.rate == 0 else min(most, reached(self.tempo, now))


class State:
    """Times are seconds since 1970 and passed in.

    `asleep`: nothing comes before somebody asks for the feed, or for a burst of it.
    """

    def __init__(self, clock: Clock, feed: Feed, faults: Faults, asleep: bool = False) -> None:
        self.clock = clock
        self.feed = feed
        self._asleep = asleep
        self._guard = threading.Lock()
        self._faults = faults
        self._since = clock.born
        self._cuts = 0
        self._refused = 0
        self._sent = -1
        self._frames = 0
        self._open = 0
        self._asked: deque[Asked] = deque(maxlen=_REMEMBERED)

    @property
    def faults(self) -> Faults:
        return self._faults

    @property
    def asked(self) -> list[Asked]:
        """Oldest first, the last 1,000."""
        with self._guard:
            return list(self._asked)

    def change(self, wanted: Mapping[str, Any], now: float) -> Faults:
        """Changes some faults; what they count, and their time, starts anew. Raises ValueError."""
        with self._guard:
            self._faults = self._faults.changed(wanted)
            self._cuts = self._refused = 0
            self._since = now
            return self._faults

    def following(self, now: float) -> int:
        """The number of the first event that is not there yet."""
        return self.clock.first if self._asleep else self.clock.following(now)

    def wake(self, now: float) -> None:
        """From now on events come, if they did not before."""
        with self._guard:
            if self._asleep:
                later = now - self.clock.born
                self.feed = replace(self.feed, start=self.feed.start + later)
                self.clock = replace(self.clock, born=now)
                self._asleep = False

    def burst(self, events: int, rate: float, now: float) -> int:
        """From now on so many events at this rate, then as before; gives the number of the first of them.

        Raises ValueError at full speed, and for what is no burst.
        """
        if self.clock.rate == 0 or events < 1 or rate <= 0:
            raise ValueError(f"no burst of {events} events at {rate}/s over {self.clock.rate}/s")
        self.wake(now)
        with self._guard:
            n = self.clock.following(now)
            # In the events' own time it goes faster by the same factor.
            pace = rate * self.feed.pace / self.clock.rate
            self.feed = replace(self.feed, turns=burst(self.feed.tempo, n, events, pace)[1:])
            self.clock = replace(self.clock, turns=burst(self.clock.tempo, n, events, rate)[1:])
            return n

    def refuse(self, now: float) -> bool:
        """Whether a request that comes now is refused; counts it."""
        with self._guard:
            self._refused += 1
            until = self._since + self._faults.refuse_seconds
            return self._refused <= self._faults.refuse or now < until

    def silent(self, now: float) -> bool:
        return now < self._since + self._faults.silence_seconds

    def cut(self) -> bool:
        """Whether a connection that may be cut now is; counts it."""
        with self._guard:
            self._cuts += 1
            return self._faults.cut_times == 0 or self._cuts <= self._faults.cut_times

    def note(self, asked: Asked) -> None:
        with self._guard:
            self._asked.append(asked)

    def connected(self, change: int) -> None:
        with self._guard:
            self._open += change

    def sent(self, newest: int, frames: int) -> None:
        with self._guard:
            self._sent = max(self._sent, newest)
            self._frames += frames

    def to_json(self, now: float) -> dict[str, Any]:
        """`n`: the newest event there is, -1 before the first (at rate 0: the newest that was sent).
        `frames`: how many were sent over all connections; `open`: connections now."""
        with self._guard:
            return {
                "n": self._sent if self.clock.rate == 0 else self.following(now) - 1,
                "sent": self._sent,
                "frames": self._frames,
                "open": self._open,
                "asked": [asdict(asked) for asked in list(self._asked)[-20:]],
                **asdict(self.clock),
                "faults": asdict(self._faults),
            }
