"""Waiting for a load to land: what ends it, and what it says."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from sluice.airflow.sensors.published import PublishedSensor
from sluice.airflow.triggers.base import REQUEST_TIMEOUT_SECONDS
from sluice.airflow.triggers.published import PublishedTrigger, unreachable_offsets
from sluice.airflow.triggers.wait import ProcessWatch
from sluice.config.reading.references import SecretNotFound
from sluice.core.errors import Unreachable
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.processes import exits
from sluice.core.processes.status import ProcessState as S
from sluice.core.processes.status import ProcessStatus
from sluice.core.tables.position import Position
from sluice.ledger.keys import run_key
from tests.support.raising import raising
from tests.support.steps import given, ledger
from tests.support.supervision import FakeRuntime, connect

EXPECTED = OffsetRanges.of({0: [(5, 10)], 1: [(0, 5)]})


def process(state: S, pid: int | None = 1) -> ProcessStatus:
    return ProcessStatus("stream-x", state, pid)


def state(ends: dict[int, int], starts: dict[int, int] | None = None, rejected: int = 0) -> Position:
    return Position(1, 0.0, None, starts or {0: 0, 1: 0}, ends, rejected=rejected)


def test_a_process_may_be_down_for_the_grace() -> None:
    watch = ProcessWatch(grace=30)
    wrong = replace(process(S.EXITED, None), exit_status=exits.CONFIGURATION, description="SLU-101 no key")
    assert watch.failure(wrong, 99) == "stream-x is EXITED (SLU-101 no key)", "it is not restarted"
    assert watch.failure(process(S.EXITED, None), 100) is None
    assert watch.failure(process(S.BACKOFF, None), 129) is None
    assert watch.failure(process(S.FATAL, None), 130) == "stream-x is FATAL for 30 s"


def test_coming_back_starts_the_grace_again() -> None:
    watch = ProcessWatch(grace=30)
    assert watch.failure(process(S.EXITED, None), 100) is None
    assert watch.failure(process(S.RUNNING), 120) is None
    assert watch.failure(process(S.EXITED, None), 140) is None


def test_a_process_that_keeps_dying_ends_the_wait() -> None:
    watch = ProcessWatch(grace=30)
    failures = [watch.failure(process(S.RUNNING, pid), pid) for pid in range(1, 9)]
    assert failures[:6] == [None] * 6
    assert failures[6] == "stream-x was restarted 6 times during the wait"


def test_a_login_that_is_refused_is_waited_for() -> None:
    """The stream goes on by itself once it is corrected."""
    watch = ProcessWatch(grace=30)
    refused = replace(process(S.BACKOFF, None), exit_status=exits.LOGIN_REFUSED)
    for attempt in range(1, 20):
        assert watch.failure(process(S.RUNNING, attempt), 100.0 * attempt) is None
        assert watch.failure(refused, 100.0 * attempt + 30) is None


def test_offsets_before_the_streams_first_are_unreachable_offsets() -> None:
    assert not unreachable_offsets(EXPECTED, {0: 5, 1: 0})
    assert str(unreachable_offsets(EXPECTED, {0: 7})) == "0=[5,7)"


class Hook:
    """Answers what it is given, in turn; an exception is raised, a function is called."""

    def __init__(self, states: list[Any], processes: list[Any], held: list[Any] | None = None) -> None:
        self.lake = self.runtime = self
        self.states, self.processes, self.held = states, processes, held or [0]
        self.closed = False
        self.fired = threading.Event()

    def position(self, table: str) -> Position | None:
        return self._next(self.states)

    def rejected_held(self, table: str) -> int:
        assert table == "raw.nyc_taxi_quarantine"
        found: int = self._next(self.held)
        return found

    def status(self, program: str) -> ProcessStatus:
        found: ProcessStatus = self._next(self.processes)
        return found

    def _next(self, answers: list[Any]) -> Any:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(self) if callable(answer) else answer

    def close(self) -> None:
        self.closed = True


def fire(
    hook: Hook, request_timeout_seconds: float = REQUEST_TIMEOUT_SECONDS, **overrides: Any
) -> dict[str, Any]:
    values = {
        "stream": "nyc_taxi", "expected": EXPECTED.to_json(), "deadline": 1e12,
        "poll_interval": 0.0, "grace": 0.0, **overrides,
    }  # fmt: skip
    trigger = PublishedTrigger(**values)
    connect(trigger, hook)
    trigger.request_timeout_seconds = request_timeout_seconds

    async def first() -> dict[str, Any]:
        event = await anext(trigger.run())
        hook.fired.set()
        payload: dict[str, Any] = event.payload
        return payload

    found = asyncio.run(first())
    asyncio.run(trigger.cleanup())
    assert hook.closed
    return found


def test_it_lands_when_all_is_published() -> None:
    answers = [None, state({0: 7, 1: 5}), state({0: 12, 1: 5})]
    assert fire(Hook(answers, [process(S.RUNNING)])) == {
        "outcome": "reached",
        "reason": "10 of 10 records of the load are published",
    }


def test_it_waits_until_the_rejected_records_are_in_the_quarantine() -> None:
    published = state({0: 12, 1: 5}, rejected=3)
    assert fire(Hook([published], [process(S.RUNNING)], [0, 0, 3]))["outcome"] == "reached"
    event = fire(Hook([published], [process(S.RUNNING)]), deadline=0.0)
    assert (event["outcome"], "not in the quarantine" in event["reason"]) == ("timed out", True)


def test_an_empty_load_is_published() -> None:
    assert fire(Hook([state({0: 0})], [process(S.FATAL)]), expected="{}")["outcome"] == "reached"


def test_a_dead_consumer_ends_it_at_once() -> None:
    event = fire(Hook([state({0: 7, 1: 5})], [process(S.FATAL, None)]))
    assert event["outcome"] == "permanent"
    assert event["reason"] == "stream-x is FATAL for 0 s; 7 of 10 records of the load are published"


def test_what_will_never_be_published_ends_it_at_once() -> None:
    event = fire(Hook([state({0: 8}, {0: 8})], [process(S.RUNNING)]))
    assert (event["outcome"], "0=[5,8)" in event["reason"]) == ("permanent", True)


def test_what_cannot_be_observed_is_asked_again() -> None:
    down = Unreachable("catalog: connection refused")
    hook = Hook([down, state({0: 10, 1: 5})], [Unreachable("supervisord does not answer")])
    assert fire(hook)["outcome"] == "reached"


def test_at_the_deadline_it_names_what_lacks_and_what_could_not_be_seen() -> None:
    hook = Hook([Unreachable("catalog: refused")], [process(S.RUNNING)])
    event = fire(hook, deadline=0.0)
    assert event == {"outcome": "timed out", "reason": "nothing was observed yet; catalog: refused"}


def test_a_question_that_hangs_does_not_hold_the_trigger() -> None:
    hook = Hook([lambda hanging: hanging.fired.wait(20)], [process(S.RUNNING)])
    assert "0.01 s" in fire(hook, request_timeout_seconds=0.01, deadline=0.0)["reason"]


def test_a_secret_that_is_missing_for_a_moment_ends_no_wait() -> None:
    missing = SecretNotFound("airflow.toml s3 secret_key: file /s cannot be read. Fix: put it there")
    done = state({0: 10, 1: 5})
    assert fire(Hook([missing, missing, done], [process(S.RUNNING)]))["outcome"] == "reached"
    late = fire(Hook([missing], [process(S.RUNNING)]), deadline=0.0)
    assert (late["outcome"], late["reason"][:30]) == ("timed out", "SLU-106 airflow.toml s3 secret")


def test_a_wait_that_ends_while_a_login_is_refused_says_so() -> None:
    said = "SLU-210 LoginRefused: Kafka at b:1 refuses the login"
    refused = replace(process(S.BACKOFF, None), exit_status=exits.LOGIN_REFUSED, description=said)
    found = fire(Hook([state({0: 7, 1: 0})], [refused]), deadline=0.0)
    assert (found["outcome"], said in found["reason"]) == ("timed out", True)


def test_a_trigger_goes_on_elsewhere_and_holds_no_secret() -> None:
    trigger = PublishedTrigger(stream="s", expected="{}", deadline=5.0, poll_interval=2.0, grace=30.0)
    path, kwargs = trigger.serialize()
    assert path == f"{PublishedTrigger.__module__}.{PublishedTrigger.__qualname__}"
    assert PublishedTrigger(**kwargs).serialize() == (path, kwargs)
    assert set(kwargs) == {"stream", "expected", "deadline", "poll_interval", "grace", "component"}


def test_the_sensor_returns_or_fails_without_retries() -> None:
    sensor = PublishedSensor(task_id="wait_for_publish", stream="nyc_taxi")
    event = {"outcome": "reached", "reason": "10 of 10"}
    assert sensor.resume(given(), event) == event
    with raising(AirflowFailException, "timed out", "3 of 10"):
        sensor.resume(given(), {"outcome": "timed out", "reason": "3 of 10"})


def test_the_consumer_may_be_down_for_two_supervision_intervals() -> None:
    sensor = PublishedSensor(task_id="wait_for_publish", stream="nyc_taxi")
    kept = ledger("nyc_taxi")
    sensor.__dict__["ledger"] = kept
    kept.put(run_key("r", "produced"), {"sources": {}})
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(given(run_id="r", params={}))
    assert isinstance(deferred.value.trigger, PublishedTrigger)
    assert deferred.value.trigger.grace == 300


def test_a_permanent_failure_names_the_reason_and_the_fix() -> None:
    sensor = PublishedSensor(task_id="wait_for_publish", stream="nyc_taxi")
    sensor.__dict__["platform_hook"] = SimpleNamespace(runtime=FakeRuntime())
    hook: Any = sensor.platform_hook
    wrong = "SLU-101 ConfigError: stream.toml: unknown key 'x'"
    now = hook.runtime.now
    hook.runtime.now = replace(now, state=S.EXITED, exit_status=exits.CONFIGURATION, description=wrong)
    with pytest.raises(AirflowFailException) as caught:
        sensor.resume(given(), {"outcome": "permanent", "reason": "it is down"})
    assert str(caught.value).startswith(wrong)
    hook.runtime.now, hook.runtime.errors = now, Unreachable("supervisord is away")
    with raising(AirflowFailException, "SLU-408", "it is down", "supervisord is away"):
        sensor.resume(given(), {"outcome": "permanent", "reason": "it is down"})
    hook.runtime.errors = None
    said = ("permanent", "it is down", "LookupError: topic 't' has no partition", "nyc_taxi_stream")
    with raising(AirflowFailException, *said):
        sensor.resume(given(), {"outcome": "permanent", "reason": "it is down"})
