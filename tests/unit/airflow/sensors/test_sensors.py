"""Sensors: one condition in the triggerer and in a worker, and no check that passes by failing softly."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.bases.sensor import BaseSensorOperator
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    TaskDeferred,
)

from sluice.airflow.sensors.base import StreamSensor
from sluice.airflow.sensors.health import StreamHealthSensor
from sluice.airflow.sensors.published import PublishedSensor
from sluice.airflow.triggers.expected_health import ExpectedHealthTrigger
from sluice.airflow.triggers.published import PublishedTrigger
from sluice.core.errors import Unreachable
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.processes.status import ProcessState as S
from sluice.ledger.keys import run_key
from tests.support.raising import raising
from tests.support.steps import given, ledger
from tests.support.supervision import FakeRuntime, connect
from tests.unit.airflow.operators.supervision.test_supervise import World
from tests.unit.airflow.triggers.test_published import EXPECTED, Hook, process, state

OFFSETS = {"0": [[5, 10]], "1": [[0, 5]]}
SOFT: list[dict[str, Any]] = [{"soft_fail": True}, {"never_fail": True}]


def published(**more: Any) -> PublishedSensor:
    return PublishedSensor(**{"task_id": "waits", "stream": "nyc_taxi", "offsets": OFFSETS, **more})


def deferred(sensor: StreamSensor, **context: Any) -> Any:
    with pytest.raises(TaskDeferred) as caught:
        sensor.execute(given(**{"params": {}, **context}))
    assert caught.value.method_name == "resume"
    return caught.value.trigger


def in_worker(sensor: StreamSensor, hook: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Execute it without a triggerer; its trigger's requests get the hook's clients."""
    asked = type(sensor)._asked

    def connected(self: Any, context: Any) -> Any:
        trigger = asked(self, context)
        connect(trigger, hook)
        return trigger

    monkeypatch.setattr(sensor, "_asked", lambda context: connected(sensor, context))
    sensor.__dict__["platform_hook"] = SimpleNamespace(runtime=FakeRuntime())
    ti = SimpleNamespace(get_first_reschedule_date=lambda context: None)
    return sensor.execute(given(params={}, ti=ti))


@pytest.mark.parametrize("kind", [PublishedSensor, StreamHealthSensor])
@pytest.mark.parametrize("soft", SOFT, ids=["soft_fail", "never_fail"])
def test_a_check_that_passes_by_failing_softly_is_refused(kind: Any, soft: dict[str, Any]) -> None:
    with raising(ValueError, kind.__name__, "soft_fail", "trigger_rule"):
        kind(task_id="waits", stream="nyc_taxi", **soft)


@pytest.mark.parametrize("kind", [PublishedSensor, StreamHealthSensor])
def test_they_are_airflows_sensors_and_defer_by_default(kind: Any) -> None:
    sensor = kind(task_id="waits", stream="nyc_taxi", poke_interval=timedelta(seconds=7), timeout=60)
    assert issubclass(kind, BaseSensorOperator)
    assert (sensor.poke_interval, sensor.timeout, sensor.mode, sensor.deferrable) == (7, 60, "poke", True)
    with pytest.raises(ValueError, match="mode"):
        kind(task_id="other", stream="nyc_taxi", mode="often")


def test_offsets_may_be_pairs_or_their_json() -> None:
    for offsets in (OFFSETS, EXPECTED.to_json()):
        trigger = deferred(published(offsets=offsets, timeout=60, poke_interval=3))
        assert isinstance(trigger, PublishedTrigger)
        assert OffsetRanges.from_json(trigger.expected) == EXPECTED
        assert (trigger.poll_interval, trigger.deadline - time.time() <= 60) == (3, True)
    with raising(AirflowFailException, "SLU-104", "'all of them'"):
        published(offsets="all of them").execute(given(params={}))
    with raising(ValueError, "one of the two"):
        published(load="r")


@pytest.mark.parametrize("load", ["r", "r#000002"])
def test_a_load_is_given_by_its_run(load: str) -> None:
    """A backfill's run has several: the newest counts."""
    sensor = published(offsets=None, load="r")
    kept = ledger("nyc_taxi")
    sensor.__dict__["ledger"] = kept
    kept.put(run_key(load, "plan"), {"sources": []})
    sources = {"s": {"ranges": {"0": [5, 10], "1": [0, 5]}}}
    kept.put(run_key(load, "produced"), {"sources": sources})
    assert OffsetRanges.from_json(deferred(sensor, run_id="another").expected) == EXPECTED


@pytest.mark.parametrize("empty", [{"offsets": {}}, {"offsets": "{}"}, {"offsets": {"0": []}}, {"load": ""}])
def test_what_names_no_record_is_no_wait(empty: dict[str, Any]) -> None:
    """The task that gives it has returned nothing: to wait for nothing would be green."""
    with raising(AirflowFailException, "SLU-104"):
        published(**{"offsets": None, **empty}).execute(given(params={}))


def test_the_runs_form_shortens_the_wait() -> None:
    for minutes, seconds in ((1, 60), (99, 600)):
        trigger = deferred(published(timeout=600), params={"publish_timeout_minutes": minutes})
        assert seconds - 30 < trigger.deadline - time.time() <= seconds


@pytest.mark.parametrize("mode", ["poke", "reschedule"])
def test_in_a_worker_it_asks_the_same_trigger(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = published(deferrable=False, poke_interval=0.01, mode=mode)
    event = in_worker(sensor, Hook([state({0: 10, 1: 5})], [process(S.RUNNING)]), monkeypatch)
    assert (event["outcome"], event["reason"]) == ("reached", "10 of 10 records of the load are published")


def test_in_a_worker_it_pokes_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = published(deferrable=False, poke_interval=0.01)
    states = [Unreachable("catalog: refused"), state({0: 7, 1: 5}), state({0: 10, 1: 5})]
    event = in_worker(sensor, Hook(states, [process(S.RUNNING)]), monkeypatch)
    assert event["outcome"] == "reached"
    sensor = published(task_id="other", deferrable=False, poke_interval=0.01, mode="reschedule")
    with pytest.raises(AirflowRescheduleException):
        in_worker(sensor, Hook([state({0: 7, 1: 5})], [process(S.RUNNING)]), monkeypatch)


def test_in_a_worker_its_timeout_names_what_was_seen_last(monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = published(deferrable=False, poke_interval=0.01, timeout=0)
    with raising(AirflowFailException, "SLU-408", "timed out", "7 of 10 records") as caught:
        in_worker(sensor, Hook([state({0: 7, 1: 5})], [process(S.RUNNING)]), monkeypatch)
    assert isinstance(caught.value.__cause__, AirflowSensorTimeout)


def test_in_a_worker_what_will_never_be_is_red_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = published(deferrable=False)
    with raising(AirflowFailException, "SLU-408", "permanent", "never publish"):
        in_worker(sensor, Hook([state({0: 8}, {0: 8})], [process(S.RUNNING)]), monkeypatch)


# Health.


def well(**more: Any) -> StreamHealthSensor:
    values = {"task_id": "waits", "stream": "wiki_changes", "component": "producer", **more}
    return StreamHealthSensor(**values)


def fire(world: World, sensor: StreamHealthSensor) -> Any:
    """What the trigger of the deferred sensor fires."""
    trigger = deferred(sensor)
    assert isinstance(trigger, ExpectedHealthTrigger)
    return world.fire(type(trigger)(**trigger.serialize()[1])).payload


def test_it_waits_until_a_component_works_and_acts_on_nothing() -> None:
    world = World(S.EXITED)

    def start() -> None:
        if world.now - world.began > 60:
            world.process = World().process
            world.heard = world.heartbeat(1)

    world.meanwhile = start
    sensor = well()
    event = fire(world, sensor)
    assert (event["outcome"], event["health"]) == ("reached", "healthy")
    assert sensor.resume(given(), event) == event
    assert (world.did, world.happened) == ([], [])


def test_a_component_that_does_not_get_well_in_time_is_red_with_what_was_seen() -> None:
    world = World(S.EXITED)
    sensor = well(timeout=120)
    event = fire(world, sensor)
    assert event["outcome"] == "timed out"
    with raising(AirflowFailException, "SLU-504", "producer of wiki_changes", "down", "page of streams"):
        sensor.resume(given(), event)


def test_any_health_can_be_waited_for() -> None:
    world = World(S.EXITED)
    world.kept.record("suspend", {"who": "ada"}, datetime.now(UTC))
    assert fire(world, well(health=["suspended"]))["health"] == "suspended"
    with pytest.raises(ValueError, match="fine"):
        well(health=["fine"])


def test_a_system_that_does_not_answer_is_asked_again() -> None:
    world = World()
    world.away["kafka"] = Unreachable("Kafka is away")

    def back() -> None:
        if world.now - world.began > 60:
            world.away.clear()
            world.heard = world.heartbeat(1)

    world.meanwhile = back
    assert fire(world, well())["outcome"] == "reached"


def test_the_health_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    hook, closed = World().hook, list[bool]()
    hook.close = lambda: closed.append(True)
    assert in_worker(well(deferrable=False), hook, monkeypatch)["health"] == "healthy"
    assert closed == [True]
