"""The feed over HTTP: one connection after another, each from where the one before ended."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import cast

import httpx
from httpx_sse import EventSource

from sluice.model.error_codes import ErrorCode

log = logging.getLogger(__name__)

# The server's `retry:` in such a number of digits and more is no time to wait.
_RETRY_DIGITS = 9
MAX_CHARACTERS = 32 * 1024 * 1024
# What servers take as the value of a header (8 KiB, as a rule) with room to spare.
MAX_POSITION = 4096
# Of the pause before the next connection.
FIRST_SECONDS = 1.0
MAX_SECONDS = 60.0
# A server may ask for patience, but not for good.
MAX_RETRY_AFTER_SECONDS = 900.0
# Without an event for so long, a feed that answers is silent.
SILENT_SECONDS = 10.0
CONNECT_SECONDS = 10.0
# Of the body of an answer that is no feed, for the log.
_MAX_BODY = 300
_BODY_SECONDS = 5.0


class FeedError(Exception):
    """The feed did not answer as a feed; it is asked again."""

    code = ErrorCode.HEALTH_SOURCE_UNAVAILABLE


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
    response: httpx.Response, heard: Callable[[], None], most: int = MAX_CHARACTERS
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
    is_short = 0 < len(position.encode()) <= MAX_POSITION
    return is_short and position.isprintable() and position == position.strip()


def _seconds(retry: int | None) -> float | None:
    if retry is None or not 0 <= retry < 10**_RETRY_DIGITS:
        return None
    return retry / 1000


def delay(failures: int, drawn: float, asked: float = 0.0) -> float:
    """Seconds to wait after so many connections in a row (1 or more) that brought no event.

    What the server ``asked`` for (``retry:``, Retry-After; seconds) is waited in any case. On top of it comes
    a share, ``drawn`` between 0 and 1, of a time that doubles with each failure: so many clients that lost
    the same server do not come back together.
    """
    spread = min(MAX_SECONDS, FIRST_SECONDS * 2 ** min(failures - 1, 30))
    return min(max(asked, 0.0), MAX_RETRY_AFTER_SECONDS) + drawn * spread


def retry_after(header: str | None, now: datetime | None = None) -> float:
    """The seconds that a Retry-After header asks for, a number or an HTTP date; 0 for none or nonsense."""
    if header is None:
        return 0.0
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())


class Activity:
    """Times are seconds since 1970, of ``clock``."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._is_answered = False
        # When the feed last gave a sign of life; before the first, when this began to ask.
        self._heard = self._event = clock()
        self._blocked: float | None = None
        # Why there was no connection when there last was none.
        self.trouble = ""

    def connecting(self, trouble: str = "") -> None:
        """There is no connection; ``trouble`` says why, in words."""
        self._is_answered = False
        self.trouble = trouble

    def heard(self) -> None:
        """Something came, if only a comment."""
        self._heard = self._clock()
        self._is_answered = True

    def event(self) -> None:
        """An event came."""
        self._event = self._clock()

    def blocked(self, is_blocked: bool) -> None:
        """Whether Kafka has to catch up before more is read."""
        if not is_blocked:
            self._blocked = None
        elif self._blocked is None:
            self._blocked = self._clock()

    def state(self) -> tuple[str, float]:
        """One of :class:`sluice.model.health.heartbeat.HeartbeatState`, and since when."""
        blocked = self._blocked
        if blocked is not None:
            return "backpressured", blocked
        if not self._is_answered:
            return "connecting", self._heard
        if self._clock() - self._event > SILENT_SECONDS:
            return "waiting", self._event
        return "streaming", self._event


class Client:
    """One feed. :meth:`events` is for one thread, :meth:`cut` for another."""

    def __init__(
        self,
        url: str,
        user_agent: str,
        read_timeout_seconds: float,
        rewind: Callable[[str], str],
        activity: Activity,
        stop: threading.Event,
        drawn: Callable[[], float] = random.random,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """``read_timeout_seconds``: without a byte for so long, a connection is dead. ``rewind``: as Source
        has it. ``drawn``: between 0 and 1, for the jitter of the back-off. ``transport``: in place of the
        network."""
        self._url = url
        self._rewind = rewind
        self._activity = activity
        self._stop = stop
        self._drawn = drawn
        self._headers = {
            b"User-Agent": user_agent.encode(),
            b"Accept": b"text/event-stream",
            b"Cache-Control": b"no-store",
            # Compressed, what was cut off in the middle could not be told from what was not.
            b"Accept-Encoding": b"identity",
        }
        self._timeout = httpx.Timeout(read_timeout_seconds, connect=CONNECT_SECONDS)
        self._transport = transport
        self._retry = 0.0
        self._socket: socket.socket | None = None

    def events(self, position: str | None) -> Iterator[Frame]:
        """The feed's messages behind ``position`` (None: what is new), without end, until ``stop`` is set.

        A frame without an id has the position of the one before, over connections too. Whatever happens to a
        connection leads to the next one, after a pause; what was sent twice comes twice.
        """
        failures = 0
        # Each time anew: what the server left of the last connection is not to be trusted.
        limits = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(
            timeout=self._timeout, follow_redirects=True, limits=limits, transport=self._transport
        ) as http:
            while not self._stop.is_set():
                asked = 0.0
                try:
                    for frame in self._connection(http, position):
                        failures = 0
                        position = frame.position or position
                        yield frame
                    trouble = "the server ended its answer"
                except _Refused as refusal:
                    trouble, asked = str(refusal), refusal.retry_after
                except (httpx.HTTPError, FeedError) as error:
                    trouble = f"{type(error).__name__}: {error}"
                if self._stop.is_set():
                    return
                failures += 1
                pause = delay(failures, self._drawn(), max(self._retry, asked))
                self._activity.connecting(f"{trouble}; try {failures}")
                log.log(
                    logging.INFO if failures == 1 else logging.WARNING,
                    "the feed: %s; connecting again in %.1f s (%d in a row)",
                    trouble,
                    pause,
                    failures,
                )
                self._stop.wait(pause)

    def cut(self) -> None:
        """End the connection that is open, whoever waits for it; for when ``stop`` is set."""
        connected = self._socket
        if connected is not None:
            # Of the connection, not of the object that another thread reads from; it may have ended by now.
            with suppress(OSError), socket.socket(fileno=os.dup(connected.fileno())) as same:
                same.shutdown(socket.SHUT_RDWR)

    def _connection(self, http: httpx.Client, position: str | None) -> Iterator[Frame]:
        headers = dict(self._headers)
        if position is not None:
            # Bytes: httpx would refuse what is not ASCII, and the format says UTF-8.
            headers[b"Last-Event-ID"] = self._rewind(position).encode()
        with http.stream("GET", self._url, headers=headers) as response:
            if response.status_code != httpx.codes.OK:
                raise _Refused(response)
            if "network_stream" in response.extensions:
                self._socket = response.extensions["network_stream"].get_extra_info("socket")
            log.info("the feed answers, from %s", "what is new" if position is None else position)
            try:
                for frame in frames(response, self._activity.heard):
                    if self._stop.is_set():
                        return
                    if frame.retry is not None:
                        self._retry = frame.retry
                    if frame.event == "error":
                        raise FeedError(f"the feed says error: {frame.data[:_MAX_BODY]}")
                    if frame.event != "message":
                        # As in a browser: who listens for messages does not get what has another name.
                        log.warning("the feed: an event of the kind %r is no message", frame.event[:50])
                    elif frame.data:
                        self._activity.event()
                        if not can_be_asked_for(frame.position):
                            frame = replace(frame, position=position or "")
                        position = frame.position or position
                        yield frame
            finally:
                self._socket = None


class _Refused(Exception):
    """The server answered, and not with the feed."""

    def __init__(self, response: httpx.Response) -> None:
        self.retry_after = retry_after(response.headers.get("retry-after"))
        body = ""
        deadline = time.monotonic() + _BODY_SECONDS
        # What it says is for the log; a server that does not finish saying it has said its status.
        with suppress(httpx.HTTPError):
            for text in response.iter_text():
                body += text
                if len(body) > _MAX_BODY or time.monotonic() > deadline:
                    break
        said = " ".join(body[:_MAX_BODY].split())
        super().__init__(f"{response.status_code} {response.reason_phrase} {said}".strip())
