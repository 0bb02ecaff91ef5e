"""When a consumer counts as the stream's writer, and when as failed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from sluice.airflow.operators.base import BACKSTOP
from sluice.airflow.operators.load.ensure import EnsureConsumerOperator
from sluice.airflow.triggers.lease import LeaseTrigger, has_failed, holds_lease
from sluice.core.errors import Unreachable
from sluice.core.processes import exits
from sluice.core.processes.status import ProcessState as S
from sluice.core.processes.status import ProcessStatus
from sluice.core.tables.position import Position
from tests.support.raising import raising
from tests.support.steps import NewTables, carried_out
from tests.support.supervision import connect, events, history

CONTEXT: Any = {"run_id": "load-1"}


def lease(epoch: int, since: float | None) -> Position:
    return Position(epoch, 0.0, since, {}, {})


NONE = None
OWNED = lease(3, 1005.0)


def process(state: S, pid: int | None = 42, since: float | None = 1000.0) -> ProcessStatus:
    return ProcessStatus("stream-x", state, pid, since)


OWNED_CASES = {
    "it acquired the lease after its start": (process(S.RUNNING), OWNED, 3, 1010, True),
    "it acquired the lease while it was observed": (process(S.RUNNING, since=2000.0), OWNED, 2, 1010, True),
    "the clocks differ a little": (process(S.RUNNING, since=1006.5), OWNED, 3, 1010, True),
    "only an earlier writer is there": (process(S.RUNNING, since=1100.0), OWNED, 3, 1110, False),
    "old, its epoch-start expired": (process(S.RUNNING), lease(3, None), 3, 1181, True),
    "old, and only an earlier writer is there": (process(S.RUNNING, since=1100.0), OWNED, 3, 1300, False),
    "young, no epoch-start": (process(S.RUNNING), lease(3, None), 3, 1179, False),
    "not running yet": (process(S.STARTING), OWNED, 0, 1010, False),
    "running, start unknown": (process(S.RUNNING, since=None), OWNED, 3, 1010, False),
}


@pytest.mark.parametrize("case", OWNED_CASES.values(), ids=OWNED_CASES.keys())
def test_holds_lease(case: Any) -> None:
    status, seen, before, now, expected = case
    assert holds_lease(status, seen, before, now) is expected


def restarted(*at: float) -> ProcessStatus:
    return replace(process(S.BACKOFF, None), restarts=at)


FAILURES = {
    "it runs": (process(S.RUNNING), False),
    "it is being stopped": (process(S.STOPPING), False),
    "it ended": (process(S.EXITED, pid=None), True),
    "the runtime restarts it": (restarted(), False),
    "it was restarted once": (restarted(1001.0), False),
    "it was restarted twice": (restarted(1001.0, 1002.0), True),
    "it was restarted earlier": (restarted(998.0, 999.0), False),
}


@pytest.mark.parametrize("case", FAILURES.values(), ids=FAILURES.keys())
def test_has_failed(case: Any) -> None:
    status, failed = case
    assert has_failed(1000.0, status) is failed


class Runtime:
    """A process's states in turn, exceptions are raised; ``is_asked``: another run starts it first."""

    def __init__(self, states: list[ProcessStatus | Exception]) -> None:
        self.states = states
        self.starts = 0
        self.is_asked = False

    def status(self, program: str) -> ProcessStatus:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return state

    def start(self, program: str) -> bool:
        self.starts += 1
        return not self.is_asked

    def tail(self, program: str) -> list[str]:
        return ["Traceback", "LookupError: topic 't' has no partition", "done"]


class Lake:
    """What ``main`` says of its writer, in turn."""

    def __init__(self, writers: list[Position | None]) -> None:
        self.writers = writers

    def position(self, table: str) -> Position | None:
        assert table == "raw.nyc_taxi"
        return self.writers.pop(0) if len(self.writers) > 1 else self.writers[0]


class World:
    """``deferred``: the waits without a worker; ``now``: of their clock."""

    def __init__(self, states: list[Any], writers: list[Position | None]) -> None:
        self.operator = EnsureConsumerOperator(task_id="ensure_consumer", stream="nyc_taxi")
        self.runtime = Runtime(states)
        self.hook = SimpleNamespace(runtime=self.runtime, lake=Lake(writers))
        self.operator.__dict__ |= {"tables": NewTables(), "platform_hook": self.hook, "history": history()}
        self.deferred: list[TaskDeferred] = []
        self.now = time.time()

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self) -> dict[str, Any]:
        return dict(carried_out(self.operator, CONTEXT, self.fire))

    def fire(self, waits: TaskDeferred) -> dict[str, Any]:
        self.deferred.append(waits)
        path, values = waits.trigger.serialize()
        trigger = LeaseTrigger(**values)
        assert trigger.serialize() == (path, values)
        assert values["component"] == "consumer"
        connect(trigger, self.hook)
        trigger.clock, trigger.sleep = lambda: self.now, self.sleep

        async def first() -> dict[str, Any]:
            return dict((await anext(trigger.run())).payload)

        return asyncio.run(first())


def test_a_running_writer_is_left_alone_and_costs_no_wait() -> None:
    world = World([process(S.RUNNING)], [OWNED])
    assert world.run() == {
        "program": "stream-nyc_taxi", "state": "running", "pid": 42, "epoch": 3, "started": False
    }  # fmt: skip
    assert (world.runtime.starts, world.deferred) == (0, [])
    assert events(world.operator.history, "start") == []


def test_a_stopped_consumer_is_started_once_and_waited_for_without_a_worker() -> None:
    states = [process(S.STOPPED, None, None), process(S.STARTING), process(S.RUNNING), process(S.RUNNING)]
    world = World(states, [NONE, NONE, NONE, NONE, OWNED])
    assert world.run()["started"]
    assert (world.runtime.starts, len(world.deferred)) == (1, 1)
    assert world.deferred[0].timeout == timedelta(seconds=180) + BACKSTOP == world.operator.waits[0]
    (event,) = events(world.operator.history, "start")
    assert (event["who"], event["run"], event["reason"]) == ("load load-1", "load-1", "stream-x is STOPPED")


@pytest.mark.parametrize("end", [S.EXITED, S.FATAL])
def test_a_consumer_that_ends_for_good_is_red_with_its_last_words(end: S) -> None:
    world = World([process(S.STOPPED, None, None), process(S.STARTING), process(end, None)], [NONE])
    said = ("SLU-504", end.name, "ended", "LookupError: topic 't' has no partition")
    with raising(AirflowException, *said):
        world.run()
    assert world.runtime.starts == 1


def test_a_consumer_that_cannot_work_with_its_configuration_is_not_started_by_each_attempt() -> None:
    line = "SLU-101 ConfigError: stream.toml: unknown key 'x'"
    ended = replace(process(S.EXITED, None), exit_status=exits.CONFIGURATION, description=line)
    world = World([ended, process(S.STARTING), ended], [NONE])
    with raising(AirflowFailException, "stream-nyc_taxi", "nyc_taxi_stream") as caught:
        world.run()
    assert str(caught.value).startswith(line)
    assert world.runtime.starts == 1, "the declaration may be another one since"


def test_a_consumer_that_the_runtime_restarts_is_waited_for() -> None:
    states = [process(S.RUNNING), process(S.BACKOFF, None), process(S.RUNNING, 43, time.time())]
    world = World(states, [NONE, NONE, NONE, lease(3, time.time())])
    assert world.run()["pid"] == 43
    assert world.runtime.starts == 0


def test_a_system_that_does_not_answer_during_the_wait_is_asked_again() -> None:
    states = [process(S.STOPPED, None, None), Unreachable("supervisord is away"), process(S.RUNNING)]
    assert World(states, [NONE, OWNED]).run()["epoch"] == 3


def test_a_consumer_that_never_owns_is_red_at_the_deadline() -> None:
    world = World([process(S.RUNNING, since=time.time() + 1000)], [OWNED])
    began = world.now
    with raising(AirflowException, "stream-x", "no writer lease (epoch 3) after 180 s", "LookupError"):
        world.run()
    assert 180 <= world.now - began < 185


def test_a_held_stream_is_not_started() -> None:
    world = World([process(S.STOPPED, None, None)], [NONE])
    document = {"who": "ada", "reason": "new table"}
    world.operator.history.record("suspend", document, datetime(2026, 1, 1, tzinfo=UTC))
    said = ("nyc_taxi", "by ada since 2026-01-01T00:00:00+00:00: new table", "nyc_taxi_stream")
    with raising(AirflowFailException, *said):
        world.run()
    assert (world.runtime.starts, world.deferred) == (0, [])


def test_who_comes_second_has_started_nothing() -> None:
    world = World([process(S.STOPPED, None, None), process(S.RUNNING)], [NONE, OWNED])
    world.runtime.is_asked = True
    assert not world.run()["started"]
    assert events(world.operator.history, "start") == []
