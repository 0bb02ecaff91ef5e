"""How often a registry is asked for what it does not have: a flood of made-up ids costs bounded time."""

from __future__ import annotations

import heapq
from collections.abc import Callable

# So many ids that it does not have are asked for, then none for a while: what names more is no producer of
# schemas, and each of a million records may name another one.
MAX_UNKNOWN = 500
# The part of all time that these requests take after the first MAX_UNKNOWN.
_SHARE = 0.25


class Budget:
    """Bounds requests that find nothing, and the time that they take, however slow the registry is.

    ``clock``: seconds that only rise; ``forgotten_after``: seconds, at least, until another may be made in
    the place of one.
    """

    def __init__(self, clock: Callable[[], float], forgotten_after: float) -> None:
        self._clock, self._forgotten_after = clock, forgotten_after
        # When each is forgotten, the first one in front.
        self._spent: list[float] = []

    @property
    def is_spent(self) -> bool:
        now = self._clock()
        while self._spent and self._spent[0] <= now:
            heapq.heappop(self._spent)
        return len(self._spent) >= MAX_UNKNOWN

    def spend(self, seconds: float) -> None:
        """One that took so long."""
        pause = max(self._forgotten_after, MAX_UNKNOWN * seconds / _SHARE)
        heapq.heappush(self._spent, self._clock() + pause)
