"""A stream's own functions over its feed: read an event, rewind a position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    event_id: str
    """Unique, the same if the event comes again."""
    key: str | None = None
    """Events of one key keep their order; None for any order."""
    malformed: str | None = None
    """Why no table can take it, or None; it is sent all the same, and the consumer quarantines it."""
    is_canary: bool = False
    """It only shows that the feed is alive, and is not sent."""
    time: float | None = None
    """When it happened, in seconds since 1970; None if it does not say. A producer that is behind the feed
    knows by it how old the events are that it has yet to read (``keeps_hours``)."""


@dataclass(frozen=True)
class Source:
    """A stream's feed. ``read``: data and position -> the event; never raises. ``rewind``: the newest
    handled position -> the one to request, the same or an earlier one; duplicates are skipped."""

    read: Callable[[str, str], Event]
    rewind: Callable[[str], str]
