"""From the feed to the sender: what is new goes to the topic, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.common.feed.client import Activity, Client, Frame
from spark_jobs.common.feed.event import Source
from spark_jobs.common.feed.sender import Sender
from spark_jobs.common.feed.window import Window


class RecentIds:
    """The last ``most`` ids; the oldest is forgotten first. Not for several threads at once."""

    def __init__(self, most: int, ids: Iterable[str] = ()) -> None:
        """``ids``: what is known from the start, oldest first."""
        self._most = most
        self._ids: OrderedDict[str, None] = OrderedDict()
        for known in ids:
            self.is_new(known)

    def is_new(self, event_id: str) -> bool:
        """Whether it was not known; from here on it is."""
        if event_id in self._ids:
            return False
        self._ids[event_id] = None
        if len(self._ids) > self._most:
            self._ids.popitem(last=False)
        return True

    def __len__(self) -> int:
        return len(self._ids)


_CHECK_SECONDS = 0.2


@dataclass
class Counts:
    """What became of the events that were read. ``poison`` are among those that were ``sent``."""

    sent: int = 0
    known: int = 0
    canary: int = 0
    poison: int = 0

    def message(self) -> str:
        return (
            f"{self.sent} sent ({self.poison} of them poison), {self.known} known already, "
            f"{self.canary} canaries"
        )


class _Stopped(Exception):
    """Told to stop while waiting."""


class Reader:
    """Reads until ``stop`` is set, or something fails."""

    def __init__(
        self,
        client: Client,
        source: Source,
        seen: RecentIds,
        window: Window,
        sender: Sender,
        activity: Activity,
        stop: threading.Event,
    ) -> None:
        self.counts = Counts()
        self.failure: Exception | None = None
        self._client = client
        self._source = source
        self._seen = seen
        self._window = window
        self._sender = sender
        self._activity = activity
        self._stop = stop
        # A daemon: one that waits for a server's answer does not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def end(self, seconds: float) -> None:
        """Set ``stop``, and wait for the end up to so many seconds."""
        self._stop.set()
        self._client.cut()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            for frame in self._client.events(self._window.mark):
                self._handle(frame)
        except _Stopped:
            return
        except Exception as error:
            # For the thread that waits for this one's end.
            self.failure = error

    def _handle(self, frame: Frame) -> None:
        event = self._source.read(frame.data, frame.position)
        position = frame.position or None
        self._wait_for_room()
        if event.is_canary:
            self.counts.canary += 1
            self._window.passed(position)
        elif not self._seen.is_new(event.event_id):
            self.counts.known += 1
            self._window.passed(position)
        else:
            self._sender.send(event, frame.data, position, self._wait)
            self.counts.sent += 1
            self.counts.poison += event.poison is not None

    def _wait_for_room(self) -> None:
        if not self._window.has_room(0):
            while not self._window.has_room(_CHECK_SECONDS):
                self._note_blocked()
            self._activity.blocked(False)

    def _wait(self) -> None:
        self._note_blocked()
        time.sleep(_CHECK_SECONDS)

    def _note_blocked(self) -> None:
        if self._stop.is_set():
            raise _Stopped
        self._activity.blocked(True)
