"""How long schemas are made ready for use: a flood of registered ones costs bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from sluice.core.registry.errors import NotPrepared

T = TypeVar("T")

# Schemas that are made ready at once, their characters, and the seconds that they take; then as many as fit
# into the share of all time. A usual one takes milliseconds, one that is made to be slow 10 seconds; what is
# ready takes up to 70 times its size of memory.
MAX_SCHEMAS, MAX_SIZE, MAX_SECONDS = 1_000, 16 << 20, 60.0
_SHARE = 0.25


class PreparationBudget:
    """Bounds schemas that are made ready, and the time that it takes: a producer that may register schemas
    can register any number of them, and send a record of each.

    ``clock``: seconds that only rise.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left, self._at = MAX_SECONDS, clock()

    def run(self, what: str, make: Callable[[], T], size: int | None = None) -> T:
        """What ``make`` makes. ``what``: the schema, in the error; ``size``: its characters, None for a part
        of one that is ready: of it only time counts. Raises NotPrepared if the budget is spent."""
        least = 0.0 if size is None else MAX_SECONDS * max(1 / MAX_SCHEMAS, size / MAX_SIZE)
        began = self._clock()
        self._left = min(MAX_SECONDS, self._left + (began - self._at) * _SHARE)
        self._at = began
        if self._left <= 0:
            raise NotPrepared(
                f"{what} was not made ready: others that records named shortly before are {MAX_SCHEMAS}, or "
                f"have {MAX_SIZE >> 20} MiB, or took {MAX_SECONDS:.0f} seconds. Fix: if it is one of the "
                "stream's, publish the record with action retry_quarantine of the stream's change DAG"
            )
        try:
            return make()
        finally:
            self._at = self._clock()
            self._left -= max(self._at - began, least)
