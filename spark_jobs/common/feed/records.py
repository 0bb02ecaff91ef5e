"""A feed's records: names, keys and headers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from sluice.config.sections.topic import POSITIONS_TOPIC
from sluice.core.tables.records import Headers
from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.position import FeedRecord

EVENT_ID = "event-id"
# Grows by one with every record, over restarts too.
SEQUENCE = "feed-sequence"
# The feed's behind this event; left out if it has none.
POSITION = "feed-position"
# The feed to which the position belongs.
FEED = "feed"
# The value's length in bytes, if it was cut.
EVENT_BYTES = "original-size"

# Half of what the topic of positions takes.
MAX_IDS_BYTES = POSITIONS_TOPIC.max_message_bytes // 2


def feed_name(url: str) -> str:
    """A feed's host and path; port and query may change."""
    parts = urlsplit(url)
    return f"{parts.hostname}{parts.path}"


def position_key(stream: str) -> bytes:
    """The key of the stream's position in POSITIONS_TOPIC."""
    return stream.encode()


def ids_key(stream: str) -> bytes:
    """The key of the ids of its last events there."""
    return f"{stream}/ids".encode()


def record_headers(
    event: Event, sequence: int, feed: str, position: str | None, original_size: int | None = None
) -> Headers:
    """The headers of one record. ``position``: the feed's behind the event."""
    headers: Headers = [
        (EVENT_ID, event.event_id.encode()),
        (SEQUENCE, b"%d" % sequence),
        (FEED, feed.encode()),
    ]
    if position is not None:
        headers.append((POSITION, position.encode()))
    if original_size is not None:
        headers.append((EVENT_BYTES, b"%d" % original_size))
    return headers


def feed_record(headers: Iterable[tuple[str, str | bytes | None]]) -> FeedRecord | None:
    """What the headers of a record say; None for a record of another program."""
    values = {name: value for name, value in headers if isinstance(value, bytes)}
    try:
        return FeedRecord(int(values[SEQUENCE]), values[EVENT_ID].decode())
    except (KeyError, ValueError):
        return None


def newest_ids(ids: Sequence[str]) -> list[str]:
    """The last of ``ids``, as many as one record takes."""
    kept: list[str] = []
    left = MAX_IDS_BYTES
    for one in reversed(ids):
        left -= len(json.dumps(one)) + len(", ")
        if left < 0:
            break
        kept.append(one)
    return kept[::-1]
