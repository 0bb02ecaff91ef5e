"""Numbers and times as a person reads them, for the templates; static/format.js has the same for scripts."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sluice.core.messages import UNKNOWN


def count(number: float | None) -> str:
    """``1,234``; a dash for None."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def rate(number: float | None) -> str:
    """One decimal below 100: ``12.5``, ``1,234``."""
    if number is None:
        return UNKNOWN
    return f"{number:,.1f}" if 0 < number < 100 else f"{number:,.0f}"


def moment(at: float, now: float) -> str:
    """``15:50:03 UTC``, with the day if it is not today's. A script rewrites it in the reader's zone."""
    then, today = datetime.fromtimestamp(at, UTC), datetime.fromtimestamp(now, UTC)
    day = "" if then.date() == today.date() else f"{then:%-d %b}, "
    return f"{day}{then:%H:%M:%S} UTC"


# Where systems are is nothing for every reader of a page: URLs, host:port, IP addresses, hosts as database
# drivers name them, and absolute paths.
_PLACES = re.compile(
    r"""
      \b[a-z][a-z0-9+.-]*://[^\s'",;)]*[^\s'",;):.]
    | \b(?:[\w-]+(?:\.[\w-]+)+|localhost):\d+\b
    | \b[A-Za-z][\w-]*:\d{4,5}\b
    | (?<=server[ ]at[ ])"[^"]*"(?:[ ]\([^)]*\))?(?:,[ ]port[ ]\d+)?
    | (?<=server[ ]on[ ])'[^']*'
    | (?<=host[ ]name[ ])"[^"]*"
    | \b\d{1,3}(?:\.\d{1,3}){3}\b
    | (?<![\w.])/(?:[\w.@+-]+/)+[\w.@+-]*
    """,
    re.VERBOSE,
)


def public(text: str) -> str:
    """The text without addresses and paths, which task logs have."""
    return _PLACES.sub("…", text)


def short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
