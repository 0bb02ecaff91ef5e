"""What a record says about its place in the feed. Pure.

``event-id``: the event's id. ``feed-seq``: a number that grows by one with every record that is sent, over
restarts too (what a killed producer had not delivered yet leaves a gap). ``feed-resume``: the position from
which to resume where this is the topic's newest record; left out where there is none. ``feed``: which feed
the position is of. ``event-bytes``: how long the value was, where it was cut.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.window import Window

EVENT_ID = "event-id"
SEQ = "feed-seq"
RESUME = "feed-resume"
FEED = "feed"
EVENT_BYTES = "event-bytes"


def feed_name(url: str) -> str:
    """Which feed it is: host and path; the port and what is asked for may change."""
    parts = urlsplit(url)
    return f"{parts.hostname}{parts.path}"


class Headers:
    """Numbers the records."""

    def __init__(self, feed: str, following: int, window: Window) -> None:
        """``feed``: its name. ``following``: the number of the next record."""
        self._feed = feed.encode()
        self._following = following
        self._window = window

    def of(
        self, event: Event, position: str | None, was_bytes: int | None = None
    ) -> list[tuple[str, str | bytes | None]]:
        """The headers of the next record; call it before the event is added to the window."""
        headers: list[tuple[str, str | bytes | None]] = [
            (EVENT_ID, event.event_id.encode()),
            (SEQ, b"%d" % self._following),
            (FEED, self._feed),
        ]
        self._following += 1
        resume = self._window.resume(position)
        if resume is not None:
            headers.append((RESUME, resume.encode()))
        if was_bytes is not None:
            headers.append((EVENT_BYTES, b"%d" % was_bytes))
        return headers
