"""A watched stream: an event when it published, not too often, none twice and none lost over a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.airflow.triggers.asset_event import POLL_SECONDS, STATE, PublishedEventTrigger
from sluice.airflow.triggers.health import HealthTrigger
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.tables.position import Position
from tests.support.steps import NewTables
from tests.support.supervision import connect


def at(end: int, topic: str = "t1") -> Position:
    return Position(
        epoch=3, at=100.0 + end, acquired_at=0.0, starts={0: 0}, ends={0: end}, topic_id=topic
    )  # fmt: skip


# Not 1970, which is never.
BEGAN = 1e9


class Store:
    """An asset's state store."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    async def aget(self, key: str) -> Any:
        return self.values.get(key)

    async def aset(self, key: str, value: Any) -> None:
        self.values[key] = value


class Over(Exception):
    """The triggerer ends."""


class ObservedComponent:
    """A stream whose position is ``position(seconds)``, and triggerers that run until a time."""

    def __init__(self, position: Callable[[float], Position | Exception | None]) -> None:
        self.position, self.store, self.now = position, Store(), 0.0
        # How far the clock is ahead; when the table was read.
        self.ahead, self.reads = 0.0, list[float]()
        self.events: list[tuple[float, dict[str, Any]]] = []

    def run(self, until: float, every: float = 60.0) -> None:
        """As a triggerer that ends at ``until``."""
        trigger = PublishedEventTrigger(stream="nyc_taxi", every=every)
        trigger.asset_state_store = self.store  # type: ignore[assignment]
        trigger.clock = lambda: BEGAN + self.now + self.ahead
        trigger.sleep = self._sleep
        lake = SimpleNamespace(position=self._read, close=lambda: None)
        connect(trigger, SimpleNamespace(lake=lake))
        self.until = until

        async def watch() -> None:
            async for event in trigger.run():
                self.events.append((self.now, event.payload))

        with pytest.raises(Over):
            asyncio.run(watch())

    def _read(self, table: str) -> Position | None:
        self.reads.append(self.now)
        found = self.position(self.now)
        if isinstance(found, Exception):
            raise found
        return found

    async def _sleep(self, seconds: float) -> None:
        assert seconds >= POLL_SECONDS
        self.now = min(self.now + seconds, self.until)
        if self.now >= self.until:
            raise Over

    @property
    def ranges(self) -> list[list[int]]:
        return [payload["ranges"]["0"] for _, payload in self.events]


def test_a_lost_table_is_not_taken_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = ObservedComponent(lambda now: at(10))
    watched.run(until=40)

    def lost(tables: NewTables, *names: str) -> None:
        assert names == ("raw.nyc_taxi",)
        raise Refused("raw.nyc_taxi is lost", ErrorCode.TABLE_LOST)

    monkeypatch.setattr(NewTables, "check", lost)
    reads, watched.position = len(watched.reads), lambda now: at(3)
    watched.run(until=100)
    assert (watched.events, len(watched.reads)) == ([], reads)


def test_what_was_published_before_the_first_observation_is_not_announced() -> None:
    watched = ObservedComponent(lambda now: at(10) if now < 50 else at(12))
    watched.run(until=40)
    assert watched.events == []
    watched.run(until=100)
    ((when, payload),) = watched.events
    assert when == 50
    assert payload == {
        "stream": "nyc_taxi", "table": "raw.nyc_taxi", "records": 2, "ranges": {"0": [10, 12]},
        "topic_id": "t1", "epoch": 3, "at": 112.0,
    }  # fmt: skip


def test_the_first_publication_of_a_new_stream_is_announced_whole() -> None:
    # Before its consumer's first start there is no table.
    watched = ObservedComponent(lambda now: None if now < 20 else at(0) if now < 40 else at(4))
    watched.run(until=100)
    assert watched.ranges == [[0, 4]]


def test_a_busy_stream_has_one_event_in_the_time_and_no_offset_is_left_out() -> None:
    watched = ObservedComponent(lambda now: at(int(now) + 1))
    watched.run(until=600)
    times = [when for when, _ in watched.events]
    assert all(later - earlier >= 60 for earlier, later in pairwise(times))
    assert len(times) == pytest.approx(600 / 60, abs=2)
    ends = [1, *(until for _, until in watched.ranges)]
    assert [start for start, _ in watched.ranges] == ends[:-1]


def test_while_no_event_is_due_the_table_is_not_read() -> None:
    watched = ObservedComponent(lambda now: at(int(now) + 1))
    watched.run(until=600)
    assert len(watched.reads) <= len(watched.events) + 2
    # The state was stored before the long sleep.
    (last, _) = watched.events[-1]
    assert watched.store.values[STATE]["at"] == BEGAN + last


def test_a_quiet_stream_is_announced_at_the_next_observation() -> None:
    watched = ObservedComponent(lambda now: at(1) if now < 200 else at(5) if now < 303 else at(9))
    watched.run(until=400)
    assert [when for when, _ in watched.events] == [200, 305]


def test_a_clock_that_was_ahead_silences_nothing() -> None:
    watched = ObservedComponent(lambda now: at(1) if now < 30 else at(5) if now < 100 else at(9))
    watched.ahead = 1e6
    watched.run(until=60)
    watched.ahead = 0
    watched.run(until=200)
    assert watched.ranges == [[1, 5], [5, 9]]


def test_a_restart_neither_repeats_nor_loses_an_event() -> None:
    watched = ObservedComponent(lambda now: at(1) if now < 30 else at(5) if now < 200 else at(9))
    watched.run(until=100)
    # While no triggerer runs, more is published.
    watched.now = 300
    watched.run(until=400)
    assert watched.ranges == [[1, 5], [5, 9]]


def test_a_restart_keeps_the_rate() -> None:
    watched = ObservedComponent(lambda now: at(int(now) + 1))
    watched.run(until=20)
    watched.run(until=40)
    watched.run(until=60)
    assert len(watched.events) == 1


def test_a_triggerer_that_ends_before_airflow_stored_the_event_announces_the_same_again() -> None:
    watched = ObservedComponent(lambda now: at(1) if now < 30 else at(5))
    watched.run(until=35)
    assert watched.ranges == [[1, 5]]
    watched.run(until=100)
    assert watched.ranges == [[1, 5], [1, 5]]


def test_a_lake_that_does_not_answer_ends_nothing() -> None:
    down = Unreachable("no answer")
    watched = ObservedComponent(lambda now: at(1) if now < 30 else down if now < 90 else at(5))
    watched.run(until=200)
    assert (watched.events[0][0], watched.ranges) == (90, [[1, 5]])


def test_after_a_restored_catalog_what_is_published_again_is_announced_again() -> None:
    watched = ObservedComponent(lambda now: at(9) if now < 30 else at(4) if now < 60 else at(7))
    watched.run(until=200)
    assert watched.ranges == [[4, 7]]


def test_the_state_does_not_grow() -> None:
    watched = ObservedComponent(lambda now: at(int(now) + 1))
    watched.run(until=1000)
    assert list(watched.store.values) == [STATE]
    assert set(watched.store.values[STATE]) == {"ends", "topic_id", "at"}


def test_it_is_made_again_from_what_airflow_stores() -> None:
    path, values = PublishedEventTrigger(stream="nyc_taxi", every=60.0).serialize()
    assert path == "sluice.airflow.triggers.asset_event.PublishedEventTrigger"
    assert PublishedEventTrigger(**values).serialize() == (path, values)


def test_what_hangs_does_not_count_against_supervision() -> None:
    """A triggerer abandons two requests of an owner at most, and then asks nothing."""
    watcher = PublishedEventTrigger(stream="nyc_taxi", every=60.0)
    assert watcher.requests.owner != HealthTrigger(stream="nyc_taxi").requests.owner
