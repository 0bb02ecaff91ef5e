"""Read the feed in a thread and send its new events."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.common.feed.client import Activity, Client, Frame
from spark_jobs.common.feed.event import Source
from spark_jobs.common.feed.sender import Sender


class RecentIds:
    """The last ``size`` event ids, ``ids`` (oldest first) among them. Not thread-safe."""

    def __init__(self, size: int, ids: Iterable[str] = ()) -> None:
        self._size = size
        # A plain dict slows down when its first key is removed again and again.
        self._ids: OrderedDict[str, None] = OrderedDict()
        for event_id in ids:
            self.is_duplicate(event_id)

    def is_duplicate(self, event_id: str) -> bool:
        """Whether the id is among them; if not, it is added."""
        if event_id in self._ids:
            return True
        self._ids[event_id] = None
        if len(self._ids) > self._size:
            self._ids.popitem(last=False)
        return False


@dataclass
class Counts:
    """Events that were read. The ``malformed`` ones are among those ``sent``."""

    sent: int = 0
    duplicate: int = 0
    canary: int = 0
    malformed: int = 0

    def message(self) -> str:
        return (
            f"{self.sent} sent ({self.malformed} of them malformed), {self.duplicate} duplicates, "
            f"{self.canary} canaries"
        )


class _Stopped(Exception):
    """``stop`` was set during a wait."""


class Reader:
    """Reads until ``stop`` is set, or something fails."""

    def __init__(
        self,
        client: Client,
        source: Source,
        recent_ids: RecentIds,
        sender: Sender,
        activity: Activity,
        stop: threading.Event,
    ) -> None:
        self.counts = Counts()
        self.failure: Exception | None = None
        self._client = client
        self._source = source
        self._recent_ids = recent_ids
        self._sender = sender
        self._activity = activity
        self._stop = stop
        # A daemon: a wait for the server does not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def end(self, seconds: float) -> None:
        """Set ``stop``, and wait at most ``seconds`` for the thread's end."""
        self._stop.set()
        self._client.cut()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            for frame in self._client.events(self._sender.position):
                self._handle(frame)
        except _Stopped:
            return
        except Exception as error:
            # FeedProducer raises it.
            self.failure = error

    def _handle(self, frame: Frame) -> None:
        event = self._source.read(frame.data, frame.position)
        position = frame.position or None
        is_new = True
        if event.is_canary:
            self.counts.canary += 1
            self._sender.skip(position)
        elif self._recent_ids.is_duplicate(event.event_id):
            is_new = False
            self.counts.duplicate += 1
            self._sender.skip(position)
        else:
            self._sender.send(event, frame.data, position, self._wait)
            self._activity.blocked(False)
            self.counts.sent += 1
            self.counts.malformed += event.malformed is not None
        self._activity.handled(is_new=is_new, event_time=event.time)

    def _wait(self) -> None:
        if self._stop.is_set():
            raise _Stopped
        self._activity.blocked(True)
