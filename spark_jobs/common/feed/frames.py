"""The frames of a response: httpx-sse's, with a bound on what one may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import httpx
from httpx_sse import EventSource

# The server's `retry:` in such a number of digits and more is no time to wait.
_RETRY_DIGITS = 9
MOST_CHARACTERS = 32 * 1024 * 1024
# What servers take as the value of a header (8 KiB, as a rule) with room to spare.
MOST_POSITION = 4096


class FeedError(Exception):
    """The feed did not answer as a feed; it is asked again."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One dispatched event. ``position``: the last id that was said, "" where none was. ``retry``: seconds to
    wait before the next connection, where the server says so with this frame."""

    event: str
    data: str
    position: str
    retry: float | None


class _Bounded:
    """What EventSource asks of a response: tells of every piece of text, and ends where a frame does not."""

    def __init__(self, response: httpx.Response, heard: Callable[[], None], most: int) -> None:
        self.headers = response.headers
        self.since_frame = 0
        self._response = response
        self._heard = heard
        self._most = most

    def iter_text(self) -> Iterator[str]:
        for text in self._response.iter_text():
            self._heard()
            self.since_frame += len(text)
            if self.since_frame > self._most:
                raise FeedError(f"a frame of more than {self._most} characters")
            yield text


def frames(
    response: httpx.Response, heard: Callable[[], None], most: int = MOST_CHARACTERS
) -> Iterator[Frame]:
    """The frames of a response as they arrive; one that the response's end cuts off is none.

    ``heard`` is called for all that arrives, comments too. Raises httpx.HTTPError when the connection breaks
    or the answer is no event stream, FeedError when a frame has more than ``most`` characters.
    """
    # The format is UTF-8, whatever the answer's header says, and a byte order mark may precede it.
    response.encoding = "utf-8-sig"
    bounded = _Bounded(response, heard, most)
    for sse in EventSource(cast(httpx.Response, bounded)).iter_sse():
        bounded.since_frame = 0
        if sse.data or sse.retry is not None:
            yield Frame(sse.event or "message", sse.data, sse.id, _seconds(sse.retry))


def can_be_asked_for(position: str) -> bool:
    """Whether it may stand in a Last-Event-ID header; an id that may not is no position."""
    is_short = 0 < len(position.encode()) <= MOST_POSITION
    return is_short and position.isprintable() and position == position.strip()


def _seconds(retry: int | None) -> float | None:
    if retry is None or not 0 <= retry < 10**_RETRY_DIGITS:
        return None
    return retry / 1000
