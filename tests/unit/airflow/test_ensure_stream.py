"""When a consumer counts as the stream's owner, and when as dead."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.model.process import ProcessState as S
from sluice.model.process import ProcessStatus
from sluice.operators import ensure_stream as module
from sluice.operators.ensure_stream import EnsureStreamOperator, Ownership, died, is_owned
from tests.support.supervision import events, history

CONTEXT: Any = {"run_id": "load-1"}
NONE = Ownership()
OWNED = Ownership(token=3, since=1005.0)


def process(state: S, pid: int | None = 42, since: float | None = 1000.0) -> ProcessStatus:
    return ProcessStatus("stream-x", state, pid, since)


OWNED_CASES = {
    "took over after its start": (process(S.RUNNING), OWNED, OWNED, 1010, True),
    "took over while we looked": (process(S.RUNNING, since=2000.0), OWNED, Ownership(2, 9.0), 1010, True),
    "the clocks differ a little": (process(S.RUNNING, since=1006.5), OWNED, OWNED, 1010, True),
    "only an earlier owner is there": (process(S.RUNNING, since=1100.0), OWNED, OWNED, 1110, False),
    "old, its take-over expired": (process(S.RUNNING), Ownership(3, None), Ownership(3, None), 1181, True),
    "young, no take-over": (process(S.RUNNING), Ownership(3, None), Ownership(3, None), 1179, False),
    "no table yet": (process(S.RUNNING), NONE, NONE, 99999, False),
    "not running yet": (process(S.STARTING), OWNED, NONE, 1010, False),
    "running, start unknown": (process(S.RUNNING, since=None), OWNED, OWNED, 1010, False),
}


@pytest.mark.parametrize("case", OWNED_CASES.values(), ids=OWNED_CASES.keys())
def test_is_owned(case: Any) -> None:
    status, seen, before, now, expected = case
    assert is_owned(status, seen, before, now, deadline=180) is expected


DEATHS = {
    "still the same": (42, True, process(S.RUNNING), False),
    "starting": (None, True, process(S.STARTING), False),
    "another process": (42, True, process(S.RUNNING, pid=43), True),
    "gone": (42, False, process(S.EXITED, pid=None), True),
    "gone before it was seen": (None, True, process(S.FATAL, pid=None), True),
    "stopping by somebody": (42, True, process(S.STOPPING), False),
    "backing off after we asked": (None, True, process(S.BACKOFF, pid=None), True),
    "backing off by itself": (None, False, process(S.BACKOFF, pid=None), False),
}


@pytest.mark.parametrize("case", DEATHS.values(), ids=DEATHS.keys())
def test_died(case: Any) -> None:
    first, asked, status, expected = case
    assert died(first, asked, status) is expected


class Runtime:
    def __init__(self, states: list[ProcessStatus]) -> None:
        self.states = states
        self.starts = 0

    def status(self, program: str) -> ProcessStatus:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def start(self, program: str) -> bool:
        self.starts += 1
        return True

    def tail(self, program: str) -> list[str]:
        return ["Traceback", "LookupError: topic 't' has no partition", "done"]


def operator(monkeypatch: pytest.MonkeyPatch, states: list[ProcessStatus], owners: list[Ownership]) -> Any:
    made = EnsureStreamOperator(task_id="ensure_stream", stream="nyc_taxi", deadline=5)
    runtime = Runtime(states)
    made.__dict__ |= {"platform_hook": type("Hook", (), {"runtime": runtime})(), "history": history()}
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    monkeypatch.setattr(
        EnsureStreamOperator, "_ownership", lambda _: owners.pop(0) if len(owners) > 1 else owners[0]
    )
    return made, runtime


def test_a_running_owner_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made, runtime = operator(monkeypatch, [process(S.RUNNING)], [OWNED])
    assert made.work(CONTEXT) == {
        "program": "stream-nyc_taxi", "state": "running", "pid": 42, "token": 3, "started": False
    }  # fmt: skip
    assert runtime.starts == 0
    assert events(made.history, "start") == []


def test_a_stopped_consumer_is_started_once_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [process(S.STOPPED, None, None), process(S.STARTING), process(S.RUNNING), process(S.RUNNING)]
    made, runtime = operator(monkeypatch, states, [NONE, NONE, NONE, NONE, OWNED])
    assert made.work(CONTEXT)["started"]
    assert runtime.starts == 1
    (event,) = events(made.history, "start")
    assert (event["who"], event["run"], event["why"]) == ("load load-1", "load-1", "stream-x is STOPPED")


@pytest.mark.parametrize("end", [S.BACKOFF, S.EXITED, S.FATAL])
def test_a_consumer_that_dies_is_red_with_its_last_words(monkeypatch: pytest.MonkeyPatch, end: S) -> None:
    states = [process(S.STOPPED, None, None), process(S.STARTING), process(end, None)]
    made, runtime = operator(monkeypatch, states, [NONE])
    with pytest.raises(AirflowException, match=rf"{end.name}.*died.*LookupError: topic 't' has no partition"):
        made.work(CONTEXT)
    assert runtime.starts == 1


def test_a_consumer_that_never_owns_is_red_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = operator(monkeypatch, [process(S.RUNNING, since=2000.0)], [OWNED])
    made.deadline = 0
    monkeypatch.setattr(module.time, "time", lambda: 1999.0)
    with pytest.raises(AirflowException, match=r"does not own the stream after 0 s \(token 3\)"):
        made.work(CONTEXT)


def test_a_held_stream_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    made, runtime = operator(monkeypatch, [process(S.STOPPED, None, None)], [NONE])
    made.history.record("hold", {"who": "ada", "why": "new table"}, datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(
        AirflowFailException,
        match=r"^the consumer of nyc_taxi is on hold by ada since 2026-01-01T00:00:00\+00:00: new table; "
        r"release it: trigger nyc_taxi_stream with action start$",
    ):
        made.work(CONTEXT)
    assert runtime.starts == 0


def test_who_comes_second_has_started_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [process(S.STOPPED, None, None), process(S.RUNNING)]
    made, runtime = operator(monkeypatch, states, [NONE, OWNED])
    monkeypatch.setattr(runtime, "start", lambda program: False)
    assert not made.work(CONTEXT)["started"]
    assert events(made.history, "start") == []
