"""Events as frames of a Server-Sent Events stream, as Wikimedia sends them. Pure."""

from __future__ import annotations

import json
from datetime import datetime

from local.replay.events import TOPIC, Feed, reached

OTHER_TOPIC = "eqiad.mediawiki.recentchange"


class BadPosition(ValueError):
    """An invalid Last-Event-ID or `since`."""


def sse_id(feed: Feed, n: int) -> str:
    """The `id:` of event n: of one data centre the time, of the other the offset, which is n."""
    at = int(feed.at(n) * 1000)
    return (
        f'[{{"topic":"{OTHER_TOPIC}","partition":0,"timestamp":{at}}},'
        f'{{"topic":"{TOPIC}","partition":0,"offset":{n}}}]'
    )


def after(last_event_id: str) -> int:
    """The event that follows a Last-Event-ID. Raises BadPosition."""
    try:
        positions = {item["topic"]: item for item in json.loads(last_event_id)}
        offset = positions[TOPIC]["offset"]
    except (ValueError, TypeError, KeyError) as error:
        raise BadPosition(f"Last-Event-ID {last_event_id[:200]!r} is not a position of this feed") from error
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < -1:
        raise BadPosition(f"Last-Event-ID: offset {offset!r} is invalid")
    return offset + 1


def since(feed: Feed, text: str) -> int:
    """The first event at or after a time, in milliseconds since 1970 or in ISO 8601. Raises BadPosition."""
    try:
        at = int(text) / 1000 if text.lstrip("-").isdecimal() else datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        fix = "Fix: give milliseconds since 1970 or a time in ISO 8601"
        raise BadPosition(f"since {text[:100]!r} is no time. {fix}") from error
    n = max(0, reached(feed.schedule, at) - 1)
    while feed.at(n) < at:
        n += 1
    return n


def frame(feed: Feed, n: int) -> bytes:
    """Event n on the wire."""
    return f"event: message\nid: {sse_id(feed, n)}\ndata: {feed.data(n)}\n\n".encode()
