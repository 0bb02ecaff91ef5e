"""Wikimedia's ``recentchange`` events for the producer, and their positions. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID, uuid5

from spark_jobs.common.feed.event import Event

# For ids of events without their own. Never change it: events that are sent again would not be recognised.
_NAMESPACE = UUID("0d3e6f0a-4f6b-5b0e-9a55-6c3f3a3b8f2d")
_MAX_ID = 255
OVERLAP_MS = 5_000


def read(data: str, position: str) -> Event:
    """The event in one frame's ``data``; ``position`` is the frame's id.

    Its key is the wiki's name, so one wiki's changes keep their order. A malformed event (no JSON object, or
    no ``meta.id``) has no key, and an id made from position and data.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        return _malformed(data, position, f"not JSON: {error}")
    meta = document.get("meta") if isinstance(document, dict) else None
    if not isinstance(meta, dict):
        return _malformed(data, position, "no event: it has no meta")
    happened = _time(meta.get("dt"))
    if meta.get("domain") == "canary":
        return Event(_generated_id(data, position), is_canary=True, time=happened)
    event_id = _text(meta.get("id"))
    if event_id is None:
        return _malformed(data, position, f"meta.id {str(meta.get('id'))[:50]!r} is no id")
    return Event(event_id, key=_text(document.get("wiki")) or _text(meta.get("domain")), time=happened)


def rewind(position: str) -> str:
    """The position to request, so that no event behind ``position`` is left out.

    The feed joins topics of several data centres; its positions are 1 ms past each topic's last event. Events
    of the same millisecond, or out of order, would be left out, so the request starts OVERLAP_MS earlier. A
    topic without events so far is given as offset -1 (its end at the time of the request) and starts at the
    same time. Positions by offset are exact and stay, and so do unknown ones.
    """
    try:
        topics = json.loads(position)
    except (ValueError, RecursionError):
        return position
    if not isinstance(topics, list) or not all(isinstance(topic, dict) for topic in topics):
        return position
    times = [topic["timestamp"] for topic in topics if _is_number(topic.get("timestamp"))]
    if not times:
        return position
    since = max(min(times) - OVERLAP_MS, 0)
    for topic in topics:
        if _is_number(topic.get("timestamp")):
            topic["timestamp"] = max(topic["timestamp"] - OVERLAP_MS, 0)
        elif topic.get("offset") == -1:
            del topic["offset"]
            topic["timestamp"] = since
    return json.dumps(topics, separators=(",", ":"))


def _malformed(data: str, position: str, reason: str) -> Event:
    return Event(_generated_id(data, position), malformed=reason)


def _generated_id(data: str, position: str) -> str:
    return str(uuid5(_NAMESPACE, f"{position}\n{data}"))


def _text(value: object) -> str | None:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_ID:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        # JSON may name half of a surrogate pair, which UTF-8 does not encode.
        return None
    return value


def _time(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
