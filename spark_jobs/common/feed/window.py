"""Where the feed may be resumed: the events that were read and are not all acknowledged, in their order."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable


class Entry:
    """One event that was read. ``position``: where the feed was behind it, None where it did not say."""

    __slots__ = ("at", "done", "position")

    def __init__(self, position: str | None, at: float) -> None:
        self.position = position
        self.at = at
        self.done = False


class Window:
    """The events from the low-water mark on. For several threads; one of them adds.

    It holds ``most`` events, those that are known and need no acknowledgement too: so everything that the
    feed repeats from ``mark`` on is among the last ``most`` of what was read. While there is no mark it holds
    one: its record alone can say where to resume.
    """

    def __init__(
        self, most: int, mark: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``mark``: the position that is resumed from. ``clock``: seconds, for the age of what waits."""
        self._most = most
        self._mark = mark
        self._clock = clock
        self._entries: deque[Entry] = deque()
        self._says_positions = False
        self._changed = threading.Condition()

    @property
    def mark(self) -> str | None:
        """The newest position of which it and all before it are acknowledged; None before the first."""
        return self._mark

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def waits(self) -> float:
        """For how many seconds the oldest of them has waited for its acknowledgement."""
        with self._changed:
            return self._clock() - self._entries[0].at if self._entries else 0.0

    def has_room(self, seconds: float) -> bool:
        """Whether one more may be added; waits for that up to so many seconds."""
        if not self._is_full():
            return True
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_full(), seconds)

    def resume(self, position: str | None) -> str | None:
        """What the record of the next event says: where to resume if it is the newest of the topic.

        The mark; or, where everything before it is acknowledged, the event's own ``position``, because who
        reads it there has the event.
        """
        return self._mark if self._entries or position is None else position

    def add(self, position: str | None) -> Entry:
        """An event that is about to be sent."""
        entry = Entry(position, self._clock())
        with self._changed:
            self._says_positions = self._says_positions or position is not None
            self._entries.append(entry)
        return entry

    def passed(self, position: str | None) -> None:
        """An event that needs no acknowledgement of its own."""
        with self._changed:
            if self._entries:
                self.add(position).done = True
            elif position is not None:
                self._mark = position

    def settle(self, entry: Entry) -> None:
        """The event is acknowledged."""
        entry.done = True
        with self._changed:
            while self._entries and self._entries[0].done:
                first = self._entries.popleft()
                if first.position is not None:
                    self._mark = first.position
            self._changed.notify_all()

    def _is_full(self) -> bool:
        begun = self._mark is not None or not self._says_positions
        return len(self._entries) >= (self._most if begun else 1)
