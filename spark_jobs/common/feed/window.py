"""The events that were read and not all acknowledged, in order: from where the feed can be resumed."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable


class Entry:
    """One event that was read. ``position``: the feed's behind it, None if the feed gave none."""

    __slots__ = ("at", "done", "position")

    def __init__(self, position: str | None, at: float) -> None:
        self.position = position
        self.at = at
        self.done = False


class Window:
    """The events from the low-water mark on. Thread-safe, with one thread that adds.

    It holds ``max_in_flight`` events, skipped ones included: so every duplicate that the feed sends from
    ``low_water_mark`` on is among the last ``max_in_flight`` events. Before the first mark it holds one:
    its record alone can say where to resume.
    """

    def __init__(
        self, max_in_flight: int, position: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``position``: from which the feed is resumed."""
        self._max_in_flight = max_in_flight
        self._low_water_mark = position
        self._clock = clock
        self._entries: deque[Entry] = deque()
        self._has_positions = False
        self._changed = threading.Condition()

    @property
    def low_water_mark(self) -> str | None:
        """The newest position up to which all events are acknowledged; None before the first."""
        return self._low_water_mark

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest_age(self) -> float:
        """Seconds since the oldest unacknowledged event was added."""
        with self._changed:
            return self._clock() - self._entries[0].at if self._entries else 0.0

    def has_room(self, seconds: float) -> bool:
        """Whether one more event may be added; waits for that for at most ``seconds``."""
        if not self._is_full():
            return True
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_full(), seconds)

    def resume_position(self, position: str | None) -> str | None:
        """The header of the next event's record: from where to resume if it is the topic's newest.

        The low-water mark; or, with nothing in flight, the event's own ``position``, because a reader of the
        record has the event.
        """
        return self._low_water_mark if self._entries or position is None else position

    def add(self, position: str | None) -> Entry:
        """Add an event that is about to be sent."""
        entry = Entry(position, self._clock())
        with self._changed:
            self._has_positions = self._has_positions or position is not None
            self._entries.append(entry)
        return entry

    def skip(self, position: str | None) -> None:
        """Add an event that is not sent."""
        with self._changed:
            if self._entries:
                self.add(position).done = True
            elif position is not None:
                self._low_water_mark = position

    def acknowledge(self, entry: Entry) -> None:
        entry.done = True
        with self._changed:
            while self._entries and self._entries[0].done:
                first = self._entries.popleft()
                if first.position is not None:
                    self._low_water_mark = first.position
            self._changed.notify_all()

    def _is_full(self) -> bool:
        can_resume = self._low_water_mark is not None or not self._has_positions
        return len(self._entries) >= (self._max_in_flight if can_resume else 1)
