"""A stream's own functions over its feed: read an event, rewind a position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One event. ``event_id``: unique, the same if the event comes again. Events of one ``key`` keep their
    order. ``malformed``: why no table can take it, or None; it is sent all the same, and the consumer
    quarantines it. ``is_canary``: only shows that the feed is alive; it is not sent."""

    event_id: str
    key: str | None = None
    malformed: str | None = None
    is_canary: bool = False


@dataclass(frozen=True)
class Source:
    """A stream's feed. ``read``: data and position -> the event; never raises. ``rewind``: the newest
    handled position -> the one to request, the same or an earlier one; duplicates are skipped."""

    read: Callable[[str, str], Event]
    rewind: Callable[[str], str]
