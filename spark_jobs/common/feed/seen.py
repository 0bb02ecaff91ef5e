"""Which events are known: a bounded memory of their ids. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class Seen:
    """The last ``most`` ids; the oldest is forgotten first. Not for several threads at once."""

    def __init__(self, most: int, ids: Iterable[str] = ()) -> None:
        """``ids``: what is known from the start, oldest first."""
        self._most = most
        self._ids: set[str] = set()
        self._order: deque[str] = deque()
        for known in ids:
            self.is_new(known)

    def is_new(self, event_id: str) -> bool:
        """Whether it was not known; from here on it is."""
        if event_id in self._ids:
            return False
        self._ids.add(event_id)
        self._order.append(event_id)
        if len(self._order) > self._most:
            self._ids.remove(self._order.popleft())
        return True

    def __len__(self) -> int:
        return len(self._ids)
