"""What the observer's process knows of the streams, for the pages and the metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Lock

from sluice.core.errors import ClientError, Unreachable
from sluice.supervision.observer.client import ObserverClient
from sluice.supervision.observer.live import CYCLE_SECONDS, OBSERVER, Live
from sluice.web.data.cache import TtlCache

# Viewers at once cost one request.
SECONDS = 2.0
# One that does not answer is asked for one stream in this time: a page of many would wait for each.
FAILED_SECONDS = 5.0
# What is known of each component, and why it is no news; "": it is.
Known = tuple[Mapping[str, Live], str]
# Stream -> component -> what is known of it.
Brief = Mapping[str, Mapping[str, Live]]


class Observed:
    """``connect``: opens the client; may raise ConfigError and ClientError, and is then asked again.

    While the observer does not answer, what it said last stays, with its age and the reason.
    """

    cycle_seconds = CYCLE_SECONDS

    def __init__(self, connect: Callable[[], ObserverClient]) -> None:
        self._connect = connect
        self._lock = Lock()
        self._caches: dict[str, TtlCache[Known]] = {}
        self._all: TtlCache[tuple[Brief, str]] = TtlCache(self._read_all, SECONDS)
        self._brief: Brief = {}
        self._known: dict[str, Mapping[str, Live]] = {}
        self._failure = 0.0, ""

    def live(self, stream: str, component: str) -> Live:
        """What is known of the component; an empty one before its first observation. Raises ConfigError."""
        with self._lock:
            cache = self._caches.setdefault(stream, TtlCache(lambda: self._read(stream), SECONDS))
        try:
            known, reason = cache.get()
        except ClientError as error:
            # Another reader waits for the observer.
            known, reason = self._known.get(stream, {}), str(error)
        return _with(known.get(component, Live()), reason)

    def all(self) -> Callable[[str, str], Live]:
        """What :meth:`live` says of each component, in brief, for who shows all: one request. Raises
        ConfigError."""
        try:
            known, reason = self._all.get()
        except ClientError as error:
            # Another reader waits for the observer.
            known, reason = self._brief, str(error)

        def live(stream: str, component: str) -> Live:
            why = reason or ("" if stream in known else f"the observer does not know {stream} (yet)")
            return _with(known.get(stream, {}).get(component, Live()), why)

        return live

    def _read_all(self) -> tuple[Brief, str]:
        failed_at, failure = self._failure
        if failure and time.monotonic() - failed_at < FAILED_SECONDS:
            return self._brief, failure
        try:
            self._brief = self._connect().streams()
        except Unreachable as error:
            self._failure = time.monotonic(), str(error)
            return self._brief, str(error)
        except ClientError as error:
            return self._brief, str(error)
        return self._brief, ""

    def _read(self, stream: str) -> Known:
        failed_at, failure = self._failure
        if failure and time.monotonic() - failed_at < FAILED_SECONDS:
            return self._known.get(stream, {}), failure
        try:
            self._known[stream] = self._connect().stream(stream)
        except Unreachable as error:
            self._failure = time.monotonic(), str(error)
            return self._known.get(stream, {}), str(error)
        except ClientError as error:
            return self._known.get(stream, {}), str(error)
        return self._known[stream], ""


def _with(live: Live, reason: str) -> Live:
    return replace(live, errors={OBSERVER: reason}) if reason else live
