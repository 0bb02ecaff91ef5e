"""Events as frames of a Server-Sent-Events stream, in Wikimedia's words. Pure."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from local.replay.faults import Faults
from local.replay.feed import TOPIC, Feed
from local.replay.tempo import reached

OTHER_TOPIC = "eqiad.mediawiki.recentchange"


class BadPosition(ValueError):
    """A Last-Event-ID or `since` that says no position."""


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
        raise BadPosition(f"Last-Event-ID {last_event_id[:200]!r} is none of this feed's") from error
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < -1:
        raise BadPosition(f"Last-Event-ID: offset {offset!r} is none")
    return offset + 1


def since(feed: Feed, text: str) -> int:
    """The first event at or after a time, in milliseconds since 1970 or in ISO 8601. Raises BadPosition."""
    try:
        at = int(text) / 1000 if text.lstrip("-").isdecimal() else datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise BadPosition(
            f"since {text[:100]!r}: give milliseconds since 1970 or a time in ISO 8601"
        ) from error
    n = max(0, reached(feed.tempo, at) - 1)
    while feed.at(n) < at:
        n += 1
    return n


def frame(feed: Feed, n: int, faults: Faults) -> bytes:
    """Event n on the wire, as odd as the faults want it."""
    kind = faults.odd_kind(n)
    if kind is None:
        return f"event: message\nid: {sse_id(feed, n)}\ndata: {feed.data(n)}\n\n".encode()
    lines = ["event: message", f"id: {sse_id(feed, n)}"]
    lines += [f"data: {line}" for line in payload(feed, n, kind).split("\n")]
    if kind == "no_sse_id":
        del lines[1]
    if kind == "comment":
        lines[1:1] = [": in the middle of an event", ":"]
    end = "\r\n" if kind == "crlf" else "\n"
    return (end.join(lines) + end * 2).encode()


def payload(feed: Feed, n: int, kind: str | None) -> str:
    """The data of event n, as a client must have it (several `data:` lines joined by a line end)."""
    text = feed.data(n)
    if kind == "broken":
        return text[: len(text) // 2]
    if kind in (None, "comment", "no_sse_id", "crlf"):
        return text
    event: dict[str, Any] = json.loads(text)
    if kind == "multi_line":
        return json.dumps(event, ensure_ascii=False, indent=1)
    if kind == "list":
        return json.dumps([event], ensure_ascii=False)
    if kind == "no_meta_id":
        del event["meta"]["id"]
    if kind == "canary":
        event["meta"]["domain"] = "canary"
    if kind == "legacy":
        event = legacy(event)
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def legacy(event: dict[str, Any]) -> dict[str, Any]:
    """An event in the shape it had before streams had versioned schemas (mediawiki/recentchange/2)."""
    meta = {name: value for name, value in event["meta"].items() if name != "stream"}
    meta |= {
        "schema_uri": "mediawiki/recentchange/2",
        "dt": event["meta"]["dt"].partition(".")[0] + "+00:00",
    }
    return {"meta": meta} | {
        name: value for name, value in event.items() if name not in ("$schema", "meta", "title_url")
    }
