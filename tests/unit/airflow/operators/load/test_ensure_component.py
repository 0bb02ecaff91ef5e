"""A component of the stream is started if it does not run and is not suspended."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow.operators.load.ensure import EnsureComponentOperator
from sluice.core.processes.restarts import RestartHistory
from sluice.core.processes.status import ProcessState, ProcessStatus
from tests.support.raising import raising
from tests.support.steps import given


class Process:
    """A runtime with one program, and its history."""

    def __init__(self, state: ProcessState, suspended: dict[str, Any] | None = None) -> None:
        self.state, self.suspend = state, suspended
        self.restarts = RestartHistory()
        self.stream = "isp_hits.queries"
        self.started: list[str] = []
        self.recorded: list[tuple[str, dict[str, Any]]] = []

    def status(self, program: str) -> ProcessStatus:
        return ProcessStatus(program, self.state)

    def start(self, program: str) -> bool:
        self.started.append(program)
        return True

    def tail(self, program: str) -> list[str]:
        return ["OutOfMemoryError"]

    def suspended(self) -> dict[str, Any] | None:
        return self.suspend

    def restart_history(self, *_: Any) -> RestartHistory:
        return self.restarts

    def record(self, kind: str, document: dict[str, Any], at: datetime) -> None:
        self.recorded.append((kind, document))

    def run(self) -> dict[str, Any]:
        made = EnsureComponentOperator(task_id="ensure_queries", stream="isp_hits", component="queries")
        made.__dict__ |= {"platform_hook": SimpleNamespace(runtime=self), "history": self}
        return made.work(given(run_id="r"))


@pytest.mark.parametrize(
    ("state", "started"),
    [
        (ProcessState.STOPPED, True),
        (ProcessState.EXITED, True),
        (ProcessState.FATAL, True),
        (ProcessState.RUNNING, False),
        (ProcessState.STARTING, False),
    ],
)
def test_a_part_is_started_where_it_does_not_run(state: ProcessState, started: bool) -> None:
    process = Process(state)
    assert process.run() == {"program": "stream-isp_hits-queries", "started": started}
    assert process.started == ["stream-isp_hits-queries"] * started
    assert [kind for kind, _ in process.recorded] == ["start"] * started


def test_a_component_that_is_left_to_a_person_is_not_started_by_a_load() -> None:
    process = Process(ProcessState.EXITED)
    left = {"health": "flapping", "left_since": 1_800_000_000.0, "requested_at": 0.0}
    process.restarts = RestartHistory(recorded=left)
    with raising(
        AirflowFailException, "SLU-614", "kept ending", "2027-01-15", "isp_hits_stream", "action restart"
    ):
        process.run()
    assert not process.started


def test_a_suspended_component_is_left_alone() -> None:
    process = Process(ProcessState.STOPPED, {"who": "kim", "at": "noon", "reason": "the database moves"})
    with raising(AirflowFailException, "queries", "isp_hits", "by kim since noon: the database moves"):
        process.run()
    assert not process.started
