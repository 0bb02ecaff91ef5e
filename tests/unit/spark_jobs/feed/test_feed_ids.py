"""Ids of sent events are saved while the producer runs, so that a slow feed needs no record that retention
has deleted."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.config import streams
from sluice.config.platform_sections.kafka import Kafka
from spark_jobs.common.feed import run, sender
from spark_jobs.common.feed.client import Frame
from spark_jobs.common.feed.event import Event, Source
from spark_jobs.common.feed.position import PositionUnknown, SavedPosition, Start, Tail, resume
from tests.support.raising import raising

SPEC = streams.load("wiki_changes")
assert SPEC.feed is not None
FEED = SPEC.feed
URL, NAME = "https://feed.test/stream", "feed.test/stream"
EVENTS = 7


class Killed(Exception):
    """Ends the process between two saves."""


class Broker:
    """One partition. It leaves the record ``unacknowledged`` without an answer."""

    unacknowledged = -1

    def __init__(self, *_: object, **__: object) -> None:
        self.queue: list[Callable[[None, object], None]] = []
        self.answered = 0

    def produce(self, *_: object, on_delivery: Callable[[None, object], None], **__: object) -> None:
        self.queue.append(on_delivery)

    def poll(self, _: float) -> None:
        while self.answered < len(self.queue):
            offset, answer = self.answered, self.queue[self.answered]
            self.answered += 1
            if offset != self.unacknowledged:
                answer(None, SimpleNamespace(partition=lambda: 0, offset=lambda: offset))  # noqa: B023

    def purge(self, **_: object) -> None:
        pass


class Lock:
    """What PostgreSQL holds of the position; kills the producer once all is acknowledged and saved."""

    def __init__(self, acknowledged: int) -> None:
        self.saved: SavedPosition | None = None
        self.ids = "[]"
        self._acknowledged = acknowledged

    def save(self, position: SavedPosition, *, with_ids: bool = False) -> None:
        if self.saved is not None and self.saved.acknowledged == self._acknowledged:
            raise Killed
        if with_ids:
            self.ids = json.dumps(position.ids)
        self.saved = SavedPosition.parse(position.dump(), self.ids)


class Client:
    """A feed of EVENTS events that stays open."""

    def __init__(self, *given: Any) -> None:
        self._stop: threading.Event = given[-1]

    def events(self, _: str | None) -> Iterator[Frame]:
        for number in range(1, EVENTS + 1):
            yield Frame("message", f"e{number}", f"p{number}", None)
        self._stop.wait()

    def cut(self) -> None:
        pass


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., SavedPosition]:
    """What a killed producer had saved; ``acknowledged``: the highest sequence of which it knew that."""
    monkeypatch.setattr(run, "Client", Client)
    monkeypatch.setattr(sender, "Producer", Broker)
    monkeypatch.setattr(run.HeartbeatSender, "send", lambda *_, **__: True)

    def produce(acknowledged: int) -> SavedPosition:
        lock: Any = Lock(acknowledged)
        source, start = Source(lambda data, _: Event(data), str), Start("one", {0: 0}, read_at=time.time())
        producer = run.FeedProducer(SPEC, FEED, URL, Kafka("localhost:1"), source, start, lock)
        producer.heartbeat_seconds = producer.ids_seconds = 0
        with pytest.raises(Killed):
            producer.run_until(threading.Event())
        assert lock.saved is not None
        return lock.saved

    return produce


def test_a_killed_producer_of_a_slow_feed_resumes_after_retention(
    killed: Callable[..., SavedPosition],
) -> None:
    saved = killed(EVENTS)
    deleted = Tail("one", {0: (EVENTS, EVENTS)})
    begun = resume(deleted, saved, NAME, FEED)
    assert (begun.position, begun.ids) == (f"p{EVENTS}", [f"e{n}" for n in range(1, EVENTS + 1)])


def test_no_id_is_saved_of_an_event_that_may_be_lost(
    killed: Callable[..., SavedPosition], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Broker, "unacknowledged", 3)
    saved = killed(EVENTS)
    assert (saved.position, saved.ids_sequence, saved.ids) == ("p3", 3, ["e1", "e2", "e3"])
    with raising(PositionUnknown, "were deleted"):
        resume(Tail("one", {0: (EVENTS, EVENTS)}), saved, NAME, FEED)
