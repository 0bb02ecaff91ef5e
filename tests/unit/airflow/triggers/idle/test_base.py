"""What looks hold of the triggerer while a system hangs, and what they leave to others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sluice.airflow.triggers import requests
from sluice.airflow.triggers.base import StreamTrigger
from sluice.airflow.triggers.health import HealthTrigger
from sluice.airflow.triggers.idle.base import IdleTrigger
from sluice.airflow.triggers.idle.reconciliation import PositionsTrigger, UnchangedTrigger
from sluice.airflow.triggers.idle.sinks import SinksTrigger
from sluice.airflow.triggers.requests import MAX_ABANDONED, Abandoned

STREAM = "nyc_taxi"


class Clients:
    """Of no system: what a look does with them is the test's."""

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
        assert (
            f"requests of {again.requests.owner} have not returned"
            in (await event_of(again)).payload["reason"]
        )
        others: list[StreamTrigger] = [one for at, one in enumerate(looks()) if at != number]
        health = HealthTrigger(stream=STREAM)
        for other in (health, *others):
            assert await with_clients(other).ask(lambda clients: "answer") == "answer", other.requests.owner

    asyncio.run(scene())
