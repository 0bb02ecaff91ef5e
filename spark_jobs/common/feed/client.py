"""The feed over HTTP: one connection after another, each from where the last one ended."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import cast

import httpx
from httpx_sse import EventSource

from sluice.clients.backoff import seconds_asked
from sluice.clients.http_client import without_login
from sluice.config.sections.feed import Feed
from sluice.core.error_codes import ErrorCode
from spark_jobs.common.feed.redirects import open_feed

log = logging.getLogger(__name__)

# A `retry:` of the server with more digits is ignored.
_RETRY_DIGITS = 9
MAX_CHARACTERS = 32 * 1024 * 1024
# Servers usually take 8 KiB as a header's value.
MAX_POSITION = 4096
# The pause before the next connection.
FIRST_SECONDS = 1.0
MAX_SECONDS = 60.0
MAX_RETRY_AFTER_SECONDS = 900.0
# Without an event for longer, a connected feed is waiting.
SILENT_SECONDS = 10.0
CONNECT_SECONDS = 10.0
# Longest part of an error response's body in the log.
_MAX_BODY = 300
_BODY_SECONDS = 5.0


class FeedError(Exception):
    """The response is not a valid feed; the client connects again."""

    code = ErrorCode.HEALTH_SOURCE_UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Frame:
    """One dispatched event. ``position``: the last id, "" before the first. ``retry``: the server's pause
    before the next connection in seconds, None if the frame has none."""

    event: str
    data: str
    position: str
    retry: float | None


class _BoundedResponse:
    """The parts of a response that EventSource reads; a frame above MAX_CHARACTERS raises FeedError."""

    def __init__(self, response: httpx.Response, on_text: Callable[[], None]) -> None:
        self.headers = response.headers
        self.since_frame = 0
        self._response = response
        self._on_text = on_text

    def iter_text(self) -> Iterator[str]:
        for text in self._response.iter_text():
            self._on_text()
            self.since_frame += len(text)
            if self.since_frame > MAX_CHARACTERS:
                raise FeedError(f"a frame of more than {MAX_CHARACTERS} characters")
            yield text


def frames(response: httpx.Response, on_text: Callable[[], None]) -> Iterator[Frame]:
    """The complete frames of a response as they arrive; ``on_text`` is called for all text, comments too.

    Raises httpx.HTTPError if the connection breaks or the response is no event stream, FeedError if a frame
    is too long.
    """
    # The format is UTF-8, whatever the Content-Type says, and a byte order mark may precede it.
    response.encoding = "utf-8-sig"
    bounded = _BoundedResponse(response, on_text)
    for sse in EventSource(cast(httpx.Response, bounded)).iter_sse():
        bounded.since_frame = 0
        if sse.data or sse.retry is not None:
            yield Frame(sse.event or "message", sse.data, sse.id, _retry_seconds(sse.retry))


def is_valid_position(position: str) -> bool:
    """Whether it may stand in a Last-Event-ID header."""
    is_short = 0 < len(position.encode()) <= MAX_POSITION
    return is_short and position.isprintable() and position == position.strip()


def _retry_seconds(retry: int | None) -> float | None:
    if retry is None or not 0 <= retry < 10**_RETRY_DIGITS:
        return None
    return retry / 1000


def delay(failures: int, jitter: float, requested: float = 0.0) -> float:
    """Seconds to wait after ``failures`` (1 or more) connections in a row that brought no event.

    The server's ``requested`` pause (``retry:``, Retry-After) plus a random share (``jitter``, 0 to 1) of a
    time that doubles with each failure: so clients that lost the same server do not return at once.
    """
    spread = min(MAX_SECONDS, FIRST_SECONDS * 2 ** min(failures - 1, 30))
    return min(max(requested, 0.0), MAX_RETRY_AFTER_SECONDS) + jitter * spread


class EventsForgotten(Exception):
    """The feed may no longer keep the events that follow those that were handled. FeedProducer says where it
    was, after its last commit."""

    code = ErrorCode.POSITION_UNKNOWN


class Activity:
    """State of the connection, for heartbeats; and up to when the feed's events were handled. Times: seconds
    since 1970, by ``clock``."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        read_at: float | None = None,
        gap: Callable[[float, float], str] = lambda since, now: "",
        stall_seconds: float = SILENT_SECONDS,
    ) -> None:
        """``read_at``: the saved position's. ``gap``: from, to -> why the feed may no longer keep events of
        that time, or "". ``stall_seconds``: a connection without text for longer ends."""
        self._clock, self._gap, self._stall_seconds = clock, gap, stall_seconds
        self._is_connected = False
        self._last_text = self._last_event = clock()
        self._blocked_since: float | None = None
        # Since when the connection is read, and has no events.
        self._quiet_since: float | None = None
        # Up to then every event was handled. A text alone does not say so: events may follow that were there
        # before, and the first of them may end this process.
        self.read_at = clock() if read_at is None else read_at
        # The last connection's error.
        self.error = ""

    def connecting(self, error: str = "") -> None:
        self._is_connected = False
        self.error = error

    def text_received(self) -> None:
        """Raises EventsForgotten if what was sent meanwhile may not come any more: before a new connection,
        or while this process was suspended, and what came then is read from a buffer."""
        now = self._clock()
        since = self._last_text if self._is_connected else self.read_at
        # A clock that goes back is no silence.
        if reason := self._gap(min(since, now), now):
            raise EventsForgotten(reason)
        if self._quiet_since is None or now - self._last_text > self._stall_seconds:
            self._quiet_since = now
        self._last_text = now
        self._is_connected = True
        if now - self._quiet_since >= SILENT_SECONDS:
            self.read_at = now

    def handled(self, *, is_new: bool, event_time: float | None) -> None:
        """The event received last was handled. ``event_time``: when it happened, None if it does not say."""
        now = self._quiet_since = self._clock()
        if is_new:
            # Behind an event of an hour ago those of that hour are to come.
            self.read_at = now if event_time is None else min(now, event_time)

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    def event_received(self) -> None:
        self._last_event = self._clock()

    def blocked(self, is_blocked: bool) -> None:
        """Whether reading waits for Kafka."""
        if not is_blocked:
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = self._clock()

    def state(self) -> tuple[str, float]:
        """One of :class:`sluice.core.processes.heartbeat.HeartbeatState`, and since when."""
        blocked_since = self._blocked_since
        if blocked_since is not None:
            return "backpressured", blocked_since
        if not self._is_connected:
            return "connecting", self._last_text
        if self._clock() - self._last_event > SILENT_SECONDS:
            return "waiting", self._last_event
        return "streaming", self._last_event


class Client:
    """One feed. :meth:`events` is for one thread, :meth:`cut` for another."""

    def __init__(
        self,
        url: str,
        feed: Feed,
        rewind: Callable[[str], str],
        activity: Activity,
        stop: threading.Event,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """``rewind``: see Source. ``transport``: replaces the network."""
        self._url = url
        self._rewind = rewind
        self._activity = activity
        self._stop = stop
        self._headers = {
            b"User-Agent": feed.user_agent.encode(),
            b"Accept": b"text/event-stream",
            b"Cache-Control": b"no-store",
            # Compression would hide where a broken connection cut the text.
            b"Accept-Encoding": b"identity",
        }
        self._allowed = frozenset(host.lower() for host in feed.allow_redirects_to)
        self._timeout = httpx.Timeout(feed.read_timeout_seconds, connect=CONNECT_SECONDS)
        self._transport = transport
        self._retry = 0.0
        self._socket: socket.socket | None = None

    def events(self, position: str | None) -> Iterator[Frame]:
        """The feed's messages behind ``position`` (None: new ones only), until ``stop`` is set.

        A frame without an id has the position of the one before, over connections too. After any error of a
        connection comes the next one, after a pause; duplicates are not removed. Raises ConfigError for a
        redirect that is not declared.
        """
        failures = 0
        # No reuse: the state of a broken connection is unknown.
        limits = httpx.Limits(max_keepalive_connections=0)
        with without_login(self._url, self._timeout, limits, self._transport) as http:
            while not self._stop.is_set():
                requested = 0.0
                try:
                    for frame in self._connection(http, position):
                        failures = 0
                        position = frame.position or position
                        yield frame
                    error = "the server ended its answer"
                except _Refused as refusal:
                    error, requested = str(refusal), refusal.retry_after
                except (httpx.HTTPError, FeedError) as failure:
                    error = f"{type(failure).__name__}: {failure}"
                if self._stop.is_set():
                    return
                failures += 1
                pause = delay(failures, random.random(), max(self._retry, requested))  # noqa: S311
                self._activity.connecting(f"{error}; try {failures}")
                level = logging.INFO if failures == 1 else logging.WARNING
                log.log(level, "disconnected: %s; pause_s=%.1f failures=%d", error, pause, failures)
                self._stop.wait(pause)

    def cut(self) -> None:
        """End the open connection while another thread reads from it; call it after ``stop`` is set."""
        connected = self._socket
        if connected is not None:
            # A copy: the other thread may close the socket at any moment.
            with suppress(OSError), socket.socket(fileno=os.dup(connected.fileno())) as same:
                same.shutdown(socket.SHUT_RDWR)

    def _connection(self, http: httpx.Client, position: str | None) -> Iterator[Frame]:
        headers = dict(self._headers)
        if position is not None:
            # Bytes: httpx takes only ASCII as text, and the format says UTF-8.
            headers[b"Last-Event-ID"] = self._rewind(position).encode()
        with closing(open_feed(http, self._url, headers, self._allowed)) as response:
            if response.status_code != httpx.codes.OK:
                raise _Refused(response)
            if "network_stream" in response.extensions:
                self._socket = response.extensions["network_stream"].get_extra_info("socket")
            log.info("connected position=%s", "latest" if position is None else position)
            try:
                for frame in frames(response, self._activity.text_received):
                    if self._stop.is_set():
                        return
                    if frame.retry is not None:
                        self._retry = frame.retry
                    if frame.event == "error":
                        raise FeedError(f"the feed says error: {frame.data[:_MAX_BODY]}")
                    if frame.event != "message":
                        # As in a browser, where a listener for messages gets no other kinds.
                        log.warning("event ignored kind=%r", frame.event[:50])
                    elif frame.data:
                        self._activity.event_received()
                        if not is_valid_position(frame.position):
                            frame = replace(frame, position=position or "")
                        position = frame.position or position
                        yield frame
            finally:
                self._socket = None


class _Refused(Exception):
    """A response with another status than 200."""

    def __init__(self, response: httpx.Response) -> None:
        self.retry_after = seconds_asked(response.headers.get("retry-after"))
        body = ""
        deadline = time.monotonic() + _BODY_SECONDS
        # The body is only for the log; its errors change nothing.
        with suppress(httpx.HTTPError):
            for text in response.iter_text():
                body += text
                if len(body) > _MAX_BODY or time.monotonic() > deadline:
                    break
        words = " ".join(body[:_MAX_BODY].split())
        super().__init__(f"{response.status_code} {response.reason_phrase} {words}".strip())
