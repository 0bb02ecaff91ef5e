"""When what failed is tried again: ever later, and not by all processes at once; and why it failed."""

from __future__ import annotations

import time
from copy import copy
from datetime import UTC, datetime
from random import random

from sluice.core.http_dates import http_date

FIRST_SECONDS, MOST_SECONDS = 1.0, 30.0
# A server may ask for more patience than that, but not for any.
MOST_ASKED_SECONDS = 300.0


def now() -> float:
    """Seconds of a clock that is never set, and that counts while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Backoff:
    """The pause after each failure in a row: twice as long as the one before, up to ``most`` seconds. The
    last half of each is left to chance. What failed is left alone until then, its error raised again.

    For many threads, of which each sees a pause and its failure together.
    """

    def __init__(self, most: float = MOST_SECONDS) -> None:
        self._most, self._failures = most, 0
        # Its end, and why it is, in one: other threads read both.
        self._pause: tuple[float, Exception | None] = 0.0, None

    @property
    def left(self) -> float:
        """Seconds of the pause that are left; 0 if it may be tried."""
        return max(0.0, self._pause[0] - now())

    @property
    def failure(self) -> Exception | None:
        """The last one, also after its pause; None before the first, and since a success."""
        return self._pause[1]

    def check(self) -> None:
        """Raise the last failure during its pause. Another object with each call: an error keeps where it was
        raised."""
        until, failure = self._pause
        if failure is not None and now() < until:
            found = copy(failure)
            found.__cause__ = failure
            raise found

    def failed(self, error: Exception, asked: float = 0.0, good: float = 0.0) -> None:
        """``asked``: seconds that the server asks to wait; the pause is no shorter. ``good``: seconds for
        which what was had before goes on, 0 for nothing; with its end it is tried again, unless the server
        asked for more."""
        pause = min(self._most, FIRST_SECONDS * 2.0 ** min(self._failures, 16))
        pause *= 0.5 + random() / 2  # noqa: S311
        if good > 0:
            pause = min(pause, good)
        self._failures += 1
        self._pause = now() + max(pause, min(asked, MOST_ASKED_SECONDS)), error

    def succeeded(self, rest: float = 0.0) -> None:
        """``rest``: seconds for which it is left alone all the same."""
        self._failures = 0
        self._pause = now() + rest if rest else 0.0, None


def seconds_asked(header: str | None, today: datetime | None = None) -> float:
    """What a header Retry-After says, a number or a date (RFC 9110, 10.2.3); 0 if it is missing or cannot be
    read. ``today``: what a date is compared with; None: this machine's clock."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    at = http_date(text)
    return max(0.0, (at - (today or datetime.now(UTC))).total_seconds()) if at else 0.0
