"""How far the feed is: by the clock, in bursts, after a restart; and who asked for it. For any thread."""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from local.base import UsageError
from local.replay.events import Feed, Turn, burst, reached
from local.runtime.home import write_private

_REMEMBERED = 1_000
_ENDLESS = 1 << 62
# More than what comes between two looks at the clock, also in a burst.
AHEAD_SECONDS = 10
AHEAD_EVENTS = 5_000


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

    def __init__(self, clock: Clock, feed: Feed, asleep: bool = False) -> None:
        self.clock = clock
        self.feed = feed
        self._asleep = asleep
        self._guard = threading.Lock()
        self._sent = -1
        self._frames = 0
        self._open = 0
        self._asked: deque[Asked] = deque(maxlen=_REMEMBERED)

    @property
    def asked(self) -> list[Asked]:
        """Oldest first, the last 1,000."""
        with self._guard:
            return list(self._asked)

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
            }


class Place:
    """The next event's number, kept in a file. While the server runs the file is ahead of it: a killed one
    goes on beyond every number that a client may have been given, so none of them waits for it to catch up.
    """

    def __init__(self, path: Path | None, rate: float) -> None:
        """Without a path nothing is kept. Raises UsageError for a file that is none."""
        self._path = path
        self._ahead = max(AHEAD_EVENTS, int(rate * AHEAD_SECONDS))
        self._kept = 0
        if path is not None and path.exists():
            try:
                self._kept = int(json.loads(path.read_text())["next"])
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(f"{path}: not a replay server's place ({error}); remove it") from error

    @property
    def first(self) -> int:
        """The number that the feed goes on with."""
        return self._kept

    def reached(self, following: int) -> None:
        """The feed has come to here: `following` is the next event's number."""
        if following >= self._kept:
            self._write(following + self._ahead)

    def close(self, following: int) -> None:
        """An orderly end: nothing needs to be skipped."""
        self._write(following)

    def _write(self, number: int) -> None:
        self._kept = number
        if self._path is not None:
            write_private(self._path, json.dumps({"next": number}) + "\n")
