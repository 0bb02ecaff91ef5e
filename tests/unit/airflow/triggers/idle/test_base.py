"""What looks hold of the triggerer while a system hangs, and what they leave to others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.triggers.base import TaskSuccessEvent

from sluice.airflow.triggers import requests
from sluice.airflow.triggers.base import StreamTrigger
from sluice.airflow.triggers.health import HealthTrigger
from sluice.airflow.triggers.idle.base import MAX_LOOKS, IdleTrigger
from sluice.airflow.triggers.idle.reconciliation import PositionsTrigger, UnchangedTrigger
from sluice.airflow.triggers.idle.sinks import SinksTrigger
from sluice.airflow.triggers.requests import MAX_ABANDONED, Abandoned

STREAM = "nyc_taxi"


class Clients:
    """Clients without a system: what a look does with them is the test's."""

    def close(self) -> None: ...


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Ends the looks that hang. Nothing of another test counts as abandoned."""
    monkeypatch.setattr(requests, "ABANDONED", Abandoned())
    ended = threading.Event()
    yield ended
    ended.set()


def looks() -> list[IdleTrigger]:
    """One of each kind, of one stream."""
    return [
        PositionsTrigger(stream=STREAM),
        UnchangedTrigger(stream=STREAM, step="table"),
        UnchangedTrigger(stream=STREAM, step="files"),
        SinksTrigger(stream=STREAM, about="provision_sinks"),
    ]


def with_clients(trigger: Any) -> Any:
    trigger.requests.connect = Clients
    return trigger


async def event_of(trigger: IdleTrigger) -> Any:
    return await anext(trigger.run())


@pytest.mark.parametrize("number", range(4))
def test_looks_that_hang_blind_neither_a_health_check_nor_another_look(
    number: int, released: threading.Event
) -> None:
    async def scene() -> None:
        for _ in range(MAX_ABANDONED):
            hanging = with_clients(looks()[number])
            hanging.request_timeout_seconds = 0.05
            hanging.look = lambda clients: released.wait(20)
            assert "no answer within" in (await event_of(hanging)).payload["reason"]
        again = with_clients(looks()[number])
        assert f"requests of {again.sender} have not returned" in (await event_of(again)).payload["reason"]
        others: list[StreamTrigger] = [one for at, one in enumerate(looks()) if at != number]
        health = HealthTrigger(stream=STREAM)
        for other in (health, *others):
            assert await with_clients(other).ask(lambda clients: "answer") == "answer", other.sender

    asyncio.run(scene())


class Looks:
    """Looks of many streams, each of which lasts until ``ended``; ``most`` were under way at once."""

    def __init__(self, ended: threading.Event) -> None:
        self.ended, self.lock, self.under_way, self.most = ended, threading.Lock(), 0, 0

    def look(self, clients: Any) -> dict[str, Any]:
        with self.lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        self.ended.wait(20)
        with self.lock:
            self.under_way -= 1
        return {}

    def begin(self, count: int, seconds: float = 20) -> list[asyncio.Task[Any]]:
        found = []
        for number in range(count):
            trigger = with_clients(PositionsTrigger(stream=f"stream_{number}"))
            trigger.look, trigger.request_timeout_seconds = self.look, seconds
            found.append(asyncio.create_task(event_of(trigger)))
        return found

    async def reach(self, under_way: int) -> None:
        deadline = time.monotonic() + 10
        while self.under_way != under_way:
            assert time.monotonic() < deadline, self.under_way
            await asyncio.sleep(0.01)


def test_looks_of_many_streams_take_turns(released: threading.Event) -> None:
    async def scene() -> None:
        looks = Looks(released)
        tasks = looks.begin(3 * MAX_LOOKS)
        await looks.reach(MAX_LOOKS)
        await asyncio.sleep(0.1)
        released.set()
        events = await asyncio.gather(*tasks)
        assert all(isinstance(event, TaskSuccessEvent) for event in events)
        assert looks.most == MAX_LOOKS

    asyncio.run(scene())


@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "abandoned"])
def test_a_look_that_is_given_up_keeps_no_place(released: threading.Event, is_cancelled: bool) -> None:
    async def scene() -> None:
        hanging = Looks(released)
        tasks = hanging.begin(2 * MAX_LOOKS if is_cancelled else MAX_LOOKS, 20 if is_cancelled else 0.3)
        await hanging.reach(MAX_LOOKS)
        for task in tasks if is_cancelled else ():
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        later = Looks(released)
        tasks = later.begin(2 * MAX_LOOKS)
        await later.reach(MAX_LOOKS)
        assert later.most == MAX_LOOKS
        released.set()
        await asyncio.gather(*tasks)

    asyncio.run(scene())
