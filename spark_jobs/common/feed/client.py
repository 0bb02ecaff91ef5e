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
from dataclasses import replace

import httpx

from spark_jobs.common.feed import backoff
from spark_jobs.common.feed.activity import Activity
from spark_jobs.common.feed.frames import FeedError, Frame, can_be_asked_for, frames

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
# Of the body of an answer that is no feed, for the log.
_MOST_BODY = 300
_BODY_SECONDS = 5.0


class Client:
    """One feed. :meth:`events` is for one thread, :meth:`cut` for another."""

    def __init__(
        self,
        url: str,
        user_agent: str,
        read_seconds: float,
        rewind: Callable[[str], str],
        activity: Activity,
        stop: threading.Event,
        drawn: Callable[[], float] = random.random,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """``read_seconds``: without a byte for so long, a connection is dead. ``rewind``: as Source has it.
        ``drawn``: between 0 and 1, for the jitter of the back-off. ``transport``: in place of the network."""
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
        self._timeout = httpx.Timeout(read_seconds, connect=CONNECT_SECONDS)
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
                pause = backoff.delay(failures, self._drawn(), max(self._retry, asked))
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
                        raise FeedError(f"the feed says error: {frame.data[:_MOST_BODY]}")
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
        self.retry_after = backoff.retry_after(response.headers.get("retry-after"))
        body = ""
        deadline = time.monotonic() + _BODY_SECONDS
        # What it says is for the log; a server that does not finish saying it has said its status.
        with suppress(httpx.HTTPError):
            for text in response.iter_text():
                body += text
                if len(body) > _MOST_BODY or time.monotonic() > deadline:
                    break
        said = " ".join(body[:_MOST_BODY].split())
        super().__init__(f"{response.status_code} {response.reason_phrase} {said}".strip())
