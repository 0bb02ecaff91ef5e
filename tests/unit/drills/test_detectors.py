"""Detectors, and the context in which a drill waits for them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.core.errors import Unreachable
from sluice.core.processes.status import ProcessExit, ProcessState, ProcessStatus
from tests.drills import detectors
from tests.drills.drill import POLL_SECONDS, Failed, moment
from tests.support.drills import context
from tests.support.raising import raising


class History:
    def __init__(self, **events: list[dict[str, Any]]) -> None:
        self.events = events

    def since(self, kind: str, at: Any) -> list[dict[str, Any]]:
        found = self.events.get(kind, [])
        return [event for event in found if moment(event["at"]) >= at.timestamp()]


def health(at: int, word: str) -> dict[str, Any]:
    return {"at": f"1970-01-01T00:{at // 60:02}:{at % 60:02}+00:00", "health": word}


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], None),
        ([health(999, "down")], None),
        ([health(1001, "healthy"), health(1002, "catching up"), health(1003, "suspended")], None),
        (
            [health(1001, "idle"), health(1007, "stalled"), health(1009, "down")],
            (1007.0, "health stalled"),
        ),
        ([health(1001, "unknown")], (1001.0, "health unknown")),
    ],
)
def test_detected_by_the_first_status_that_needs_an_action(
    statuses: list[dict[str, Any]], expected: Any
) -> None:
    assert detectors.detected_by_health(context(history=History(health=statuses))) == expected


def test_detected_by_rejecting_and_no_other_status() -> None:
    words = [health(1001, "unknown"), health(1003, "rejecting"), health(1005, "rejecting")]
    assert detectors.detected_by_rejecting(context(history=History(health=words))) == (
        1003.0,
        "health rejecting",
    )
    assert detectors.detected_by_rejecting(context(history=History(health=words[:1]))) is None


def test_detected_by_the_first_status_that_leads_to_a_restart() -> None:
    words = [health(1001, "fenced"), health(1002, "idle"), health(1005, "down")]
    assert detectors.detected_by_restartable_health(context(history=History(health=words))) == (
        1005.0,
        "health down",
    )
    assert detectors.detected_by_restartable_health(context(history=History(health=words[:2]))) is None


@pytest.mark.parametrize(
    ("pid", "start", "expected"),
    [(7, 900, None), (0, 0, None), (8, 1004, (1004.0, "supervisord")), (8, 999, (1000.0, "supervisord"))],
)
def test_detected_by_supervisord(pid: int, start: int, expected: Any) -> None:
    made = context(process=lambda program: {"pid": pid, "start": start})
    made.state["pids"] = {"kafka": 7}
    assert detectors.detected_by_supervisord("kafka")(made) == expected


def test_detected_by_the_runtime() -> None:
    ended = ProcessExit(1003.0, -9, 50.0)
    before = ProcessStatus("stream-x", ProcessState.RUNNING, restarts=(990.0,), last_exit=ended)
    assert detectors.detected_by_runtime(context(status=lambda: before)) is None
    after = replace(before, restarts=(990.0, 1003.5, 1010.0))
    found = detectors.detected_by_runtime(context(status=lambda: after))
    assert found == (1003.5, "the runtime (signal 9 after 50 s)")


def run(state: str, end: int | None) -> dict[str, Any]:
    return {
        "state": state,
        "end_date": None if end is None else f"1970-01-01T00:{end // 60:02}:{end % 60:02}Z",
    }


@pytest.mark.parametrize("kind", ["stream", "reconciliation"])
@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([run("failed", 990), run("success", 1010), run("running", None), run("failed", None)], None),
        ([run("failed", 1030), run("failed", 1010)], 1010.0),
    ],
)
def test_detected_by_a_red_run(kind: str, runs: list[dict[str, Any]], expected: Any) -> None:
    of_dag = {f"taxi_{kind}": runs}
    made = context(spec=SimpleNamespace(name="taxi"), runs=of_dag.__getitem__)
    found = None if expected is None else (expected, f"a red run of taxi_{kind}")
    assert detectors.detected_by_failed_run(kind)(made) == found


def test_waiting_takes_silence_for_nothing_yet() -> None:
    answers: list[Any] = [Unreachable("Kafka does not answer"), None, "seen"]

    def observe() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    slept: list[float] = []
    made = context()
    made.sleep = slept.append
    assert made.wait_for("it", observe, 60) == "seen"
    assert slept == [POLL_SECONDS] * 2


def test_waiting_ends_with_what_it_waited_for_and_why() -> None:
    def observe() -> None:
        raise Unreachable("Kafka does not answer")

    with raising(Failed, "a batch", "-1 s", "Kafka does not answer"):
        context().wait_for("a batch", observe, -1)
    with pytest.raises(ZeroDivisionError):
        context().wait_for("a bug", lambda: 1 // 0, 60)


@pytest.mark.parametrize(
    ("trigger_immediately", "states", "triggered"),
    [
        (False, [], 0),
        (True, [], 1),
        (True, ["success", "failed"], 1),
        (True, ["running", "success"], 0),
        (True, ["queued"], 0),
    ],
)
def test_at_once_supervision_is_triggered_when_it_is_not_at_work(
    trigger_immediately: bool, states: list[str], triggered: int
) -> None:
    asked: list[str] = []
    made = context(
        supervision="x_stream",
        runs=lambda dag, limit: [{"state": state} for state in states],
        airflow=SimpleNamespace(trigger=asked.append),
    )
    made.trigger_immediately = trigger_immediately
    made.trigger_check()
    assert len(asked) == triggered
    made.injected_at = 0.0
    made.trigger_check()
    assert len(asked) == triggered, "no fault is injected yet"
