"""How long to wait before the next connection. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_SECONDS = 1.0
MOST_SECONDS = 60.0
# A server may ask for patience, but not for good.
MOST_ASKED_SECONDS = 900.0


def delay(failures: int, drawn: float, asked: float = 0.0) -> float:
    """Seconds to wait after so many connections in a row (1 or more) that brought no event.

    What the server ``asked`` for (``retry:``, Retry-After; seconds) is waited in any case. On top of it comes
    a share, ``drawn`` between 0 and 1, of a time that doubles with each failure: so many clients that lost
    the same server do not come back together.
    """
    spread = min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(failures - 1, 30))
    return min(max(asked, 0.0), MOST_ASKED_SECONDS) + drawn * spread


def retry_after(header: str | None, now: datetime | None = None) -> float:
    """The seconds that a Retry-After header asks for, a number or an HTTP date; 0 for none or nonsense."""
    if header is None:
        return 0.0
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())
