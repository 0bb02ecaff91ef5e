"""The time of a server's answer, by its header Date."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def http_date(text: str) -> datetime | None:
    """None for what is no time. It is of UTC (RFC 9110), also if it does not say so as it should: two headers
    of a server and its proxy come as one text, and `-0000` names no zone."""
    try:
        found = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
