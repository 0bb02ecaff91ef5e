"""What an event of Wikimedia's ``recentchange`` feed is to the producer, and where that resumes. Pure."""

from __future__ import annotations

import json
from uuid import UUID, uuid5

from spark_jobs.common.feed.event import Event

# Of the ids of what has none of its own. Never change it: what is sent again would not be known.
_NAMESPACE = UUID("0d3e6f0a-4f6b-5b0e-9a55-6c3f3a3b8f2d")
_MAX_ID = 255
OVERLAP_MS = 5_000


def read(data: str, position: str) -> Event:
    """The event in one frame's ``data``; ``position`` is the frame's id.

    Its key is the wiki's name, so one wiki's changes keep their order. Both shapes are read, with ``$schema``
    and the legacy one. What is no JSON object or has no ``meta.id`` is poison: it has no key, and its id
    follows from position and data. A canary (``meta.domain`` is "canary") says that the feed is alive.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        return _poison(data, position, f"not JSON: {error}")
    meta = document.get("meta") if isinstance(document, dict) else None
    if not isinstance(meta, dict):
        return _poison(data, position, "no event: it has no meta")
    if meta.get("domain") == "canary":
        return Event(_own_id(data, position), is_canary=True)
    event_id = _text(meta.get("id"))
    if event_id is None:
        return _poison(data, position, f"meta.id {str(meta.get('id'))[:50]!r} is no id")
    return Event(event_id, key=_text(document.get("wiki")) or _text(meta.get("domain")))


def rewind(position: str) -> str:
    """The position to ask for, so that nothing behind ``position`` is left out.

    The feed joins the topics of several data centres, and its positions are times of these topics: 1 ms past
    the last event's. So events of the same millisecond, and those whose times are not in order, would be left
    out; they are asked for again from OVERLAP_MS before. A topic of which nothing has come yet is given as
    offset -1, its end at the time of asking; it is asked for from the same time. What comes twice is known.
    A position by offsets is exact and stays, and so does what is not understood.
    """
    try:
        places = json.loads(position)
    except (ValueError, RecursionError):
        return position
    if not isinstance(places, list) or not all(isinstance(place, dict) for place in places):
        return position
    times = [place["timestamp"] for place in places if _is_number(place.get("timestamp"))]
    if not times:
        return position
    since = max(min(times) - OVERLAP_MS, 0)
    for place in places:
        if _is_number(place.get("timestamp")):
            place["timestamp"] = max(place["timestamp"] - OVERLAP_MS, 0)
        elif place.get("offset") == -1:
            del place["offset"]
            place["timestamp"] = since
    return json.dumps(places, separators=(",", ":"))


def _poison(data: str, position: str, reason: str) -> Event:
    return Event(_own_id(data, position), poison=reason)


def _own_id(data: str, position: str) -> str:
    return str(uuid5(_NAMESPACE, f"{position}\n{data}"))


def _text(value: object) -> str | None:
    """A text that may stand in a record's key or header, or None."""
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_ID:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        # JSON may name half of a surrogate pair, which is no character.
        return None
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
