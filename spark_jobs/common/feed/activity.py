"""What the producer is doing, for its heartbeat. Several threads tell, one asks."""

from __future__ import annotations

import time
from collections.abc import Callable

# Without an event for so long, a feed that answers is silent.
SILENT_SECONDS = 10.0


class Activity:
    """Times are seconds since 1970, of ``clock``."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._is_answered = False
        # When the feed last gave a sign of life; before the first, when this began to ask.
        self._heard = self._event = clock()
        self._blocked: float | None = None
        self._trouble = ""

    def connecting(self, trouble: str = "") -> None:
        """There is no connection; ``trouble`` says why, in words."""
        self._is_answered = False
        self._trouble = trouble

    def heard(self) -> None:
        """Something came, if only a comment."""
        self._heard = self._clock()
        self._is_answered = True

    def event(self) -> None:
        """An event came."""
        self._event = self._clock()

    def blocked(self, is_blocked: bool) -> None:
        """Whether Kafka has to catch up before more is read."""
        if not is_blocked:
            self._blocked = None
        elif self._blocked is None:
            self._blocked = self._clock()

    @property
    def trouble(self) -> str:
        """Why there was no connection when there last was none; empty before the first such time."""
        return self._trouble

    def state(self) -> tuple[str, float]:
        """One of :class:`sluice.model.tending.State`, and since when."""
        blocked = self._blocked
        if blocked is not None:
            return "sending", blocked
        if not self._is_answered:
            return "connecting", self._heard
        if self._clock() - self._event > SILENT_SECONDS:
            return "silent", self._event
        return "streaming", self._event
