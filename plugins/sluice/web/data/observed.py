"""What the observer's process knows of the streams, for the pages and the metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Lock

from sluice.core.errors import ClientError
from sluice.supervision.observer.client import ObserverClient
from sluice.supervision.observer.live import Live
from sluice.supervision.observer.streams import CYCLE_SECONDS
from sluice.web.data.cache import TtlCache

# Viewers at once cost one request.
SECONDS = 2.0
# Key in a component's ``errors``.
OBSERVER = "observer"
# What is known of each component, and why it is no news; "": it is.
Known = tuple[Mapping[str, Live], str]


class Observed:
    """``connect``: opens the client; may raise ConfigError and ClientError, and is then asked again.

    While the observer does not answer, what it said last stays, with its age and the reason.
    """

    cycle_seconds = CYCLE_SECONDS

    def __init__(self, connect: Callable[[], ObserverClient]) -> None:
        self._connect = connect
        self._lock = Lock()
        self._caches: dict[str, TtlCache[Known]] = {}
        self._known: dict[str, Mapping[str, Live]] = {}

    def live(self, stream: str, component: str) -> Live:
        """What is known of the component; an empty one before its first observation. Raises ConfigError."""
        with self._lock:
            cache = self._caches.setdefault(stream, TtlCache(lambda: self._read(stream), SECONDS))
        known, reason = cache.get()
        live = known.get(component, Live())
        return replace(live, errors={OBSERVER: reason}) if reason else live

    def _read(self, stream: str) -> Known:
        try:
            self._known[stream] = self._connect().stream(stream)
        except ClientError as error:
            return self._known.get(stream, {}), str(error)
        return self._known[stream], ""
