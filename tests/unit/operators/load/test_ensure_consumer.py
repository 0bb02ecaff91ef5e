"""When a consumer counts as the stream's owner, and when as failed."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.model.health.sample import Position, ProcessStatus
from sluice.model.health.sample import ProcessState as S
from sluice.operators.load.ensure import EnsureConsumerOperator, has_failed, holds_lease
from tests.support.raising import raising
from tests.support.supervision import events, history

CONTEXT: Any = {"run_id": "load-1"}


def lease(epoch: int, since: float | None) -> Position:
    return Position(epoch, 0.0, since, {}, {})


NONE = None
OWNED = lease(3, 1005.0)


def process(state: S, pid: int | None = 42, since: float | None = 1000.0) -> ProcessStatus:
    return ProcessStatus("stream-x", state, pid, since)


OWNED_CASES = {
    "took over after its start": (process(S.RUNNING), OWNED, 3, 1010, True),
    "took over while we looked": (process(S.RUNNING, since=2000.0), OWNED, 2, 1010, True),
    "the clocks differ a little": (process(S.RUNNING, since=1006.5), OWNED, 3, 1010, True),
    "only an earlier owner is there": (process(S.RUNNING, since=1100.0), OWNED, 3, 1110, False),
    "old, its take-over expired": (process(S.RUNNING), lease(3, None), 3, 1181, True),
    "young, no take-over": (process(S.RUNNING), lease(3, None), 3, 1179, False),
    "not running yet": (process(S.STARTING), OWNED, 0, 1010, False),
    "running, start unknown": (process(S.RUNNING, since=None), OWNED, 3, 1010, False),
}


@pytest.mark.parametrize("case", OWNED_CASES.values(), ids=OWNED_CASES.keys())
def test_holds_lease(case: Any) -> None:
    status, seen, before, now, expected = case
    assert holds_lease(status, seen, before, now, deadline=180) is expected


def restarted(*at: float) -> ProcessStatus:
    return replace(process(S.BACKOFF, None), restarts=at)


FAILURES = {
    "it runs": (True, process(S.RUNNING), False),
    "it is being stopped": (True, process(S.STOPPING), False),
    "it ended": (True, process(S.EXITED, pid=None), True),
    "it was not started yet": (False, process(S.EXITED, pid=None), False),
    "the runtime restarts it": (True, restarted(), False),
    "it was restarted once": (True, restarted(1001.0), False),
    "it was restarted twice": (True, restarted(1001.0, 1002.0), True),
    "it was restarted earlier": (True, restarted(998.0, 999.0), False),
}


@pytest.mark.parametrize("case", FAILURES.values(), ids=FAILURES.keys())
def test_has_failed(case: Any) -> None:
    expected, status, failed = case
    assert has_failed(expected, 1000.0, status) is failed


class Runtime:
    """A process's states in turn; ``is_asked``: somebody else starts it first."""

    def __init__(self, states: list[ProcessStatus]) -> None:
        self.states = states
        self.starts = 0
        self.is_asked = False

    def status(self, program: str) -> ProcessStatus:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def start(self, program: str) -> bool:
        self.starts += 1
        return not self.is_asked

    def tail(self, program: str) -> list[str]:
        return ["Traceback", "LookupError: topic 't' has no partition", "done"]


class Lake:
    """What ``main`` says of its owner, in turn."""

    def __init__(self, owners: list[Position | None]) -> None:
        self.owners = owners

    def position(self, table: str) -> Position | None:
        assert table == "raw.nyc_taxi"
        return self.owners.pop(0) if len(self.owners) > 1 else self.owners[0]


def operator(
    states: list[ProcessStatus], owners: list[Position | None]
) -> tuple[EnsureConsumerOperator, Runtime]:
    made = EnsureConsumerOperator(task_id="ensure_consumer", stream="nyc_taxi", deadline=5)
    made.poll_seconds = 0.0
    runtime = Runtime(states)
    hook = SimpleNamespace(runtime=runtime, lake=Lake(owners))
    made.__dict__ |= {"platform_hook": hook, "history": history()}
    return made, runtime


def test_a_running_owner_is_left_alone() -> None:
    made, runtime = operator([process(S.RUNNING)], [OWNED])
    assert made.work(CONTEXT) == {
        "program": "stream-nyc_taxi", "state": "running", "pid": 42, "epoch": 3, "started": False
    }  # fmt: skip
    assert runtime.starts == 0
    assert events(made.history, "start") == []


def test_a_stopped_consumer_is_started_once_and_waited_for() -> None:
    states = [process(S.STOPPED, None, None), process(S.STARTING), process(S.RUNNING), process(S.RUNNING)]
    made, runtime = operator(states, [NONE, NONE, NONE, NONE, OWNED])
    assert made.work(CONTEXT)["started"]
    assert runtime.starts == 1
    (event,) = events(made.history, "start")
    assert (event["who"], event["run"], event["reason"]) == ("load load-1", "load-1", "stream-x is STOPPED")


@pytest.mark.parametrize("end", [S.EXITED, S.FATAL])
def test_a_consumer_that_ends_for_good_is_red_with_its_last_words(end: S) -> None:
    states = [process(S.STOPPED, None, None), process(S.STARTING), process(end, None)]
    made, runtime = operator(states, [NONE])
    with raising(AirflowException, end.name, "ended", "LookupError: topic 't' has no partition"):
        made.work(CONTEXT)
    assert runtime.starts == 1


def test_a_consumer_that_the_runtime_restarts_is_waited_for() -> None:
    states = [process(S.RUNNING), process(S.BACKOFF, None), process(S.RUNNING, 43, time.time())]
    made, runtime = operator(states, [NONE, NONE, NONE, lease(3, time.time())])
    assert made.work(CONTEXT)["pid"] == 43
    assert runtime.starts == 0


def test_a_consumer_that_never_owns_is_red_at_the_deadline() -> None:
    made, _ = operator([process(S.RUNNING, since=time.time() + 1000)], [OWNED])
    made.deadline = 0
    with raising(AirflowException, "stream-x", "0 s", "epoch 3"):
        made.work(CONTEXT)


def test_a_held_stream_is_not_started() -> None:
    made, runtime = operator([process(S.STOPPED, None, None)], [NONE])
    made.history.record("suspend", {"who": "ada", "reason": "new table"}, datetime(2026, 1, 1, tzinfo=UTC))
    said = ("nyc_taxi", "by ada since 2026-01-01T00:00:00+00:00: new table", "nyc_taxi_stream")
    with raising(AirflowFailException, *said):
        made.work(CONTEXT)
    assert runtime.starts == 0


def test_who_comes_second_has_started_nothing() -> None:
    states = [process(S.STOPPED, None, None), process(S.RUNNING)]
    made, runtime = operator(states, [NONE, OWNED])
    runtime.is_asked = True
    assert not made.work(CONTEXT)["started"]
    assert events(made.history, "start") == []
