"""What a stream says about its feed: what an event is, and from where to resume."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """What the producer must know of one event.

    ``event_id``: unique per event, and the same whenever it comes again. ``key``: events of one key keep
    their order; None where it has none. ``poison``: why no table can take it, or None; it goes to the topic
    all the same, where the consumer quarantines it. ``is_canary``: no event, but a sign that the feed is
    alive; it is not sent.
    """

    event_id: str
    key: str | None = None
    poison: str | None = None
    is_canary: bool = False


@dataclass(frozen=True)
class Source:
    """A stream's feed. ``read``: data and position -> the event; it never raises. ``rewind``: the newest
    position that was handled -> the one to ask for, the same or an earlier one: what comes twice is known."""

    read: Callable[[str, str], Event]
    rewind: Callable[[str], str]
