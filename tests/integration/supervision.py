"""Runs of the DAG that supervises the taxi stream, triggered: they do what those of the schedule would."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from local.stack.stack import wait_until
from sluice.config.stream import CONSUMER
from sluice.core.processes.status import ProcessState, ProcessStatus
from sluice.supervision.decide import observe_seconds
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.timeline import Timeline
from tests.integration.rig import SPEC, Rig
from tests.support import airflow_calls

RUN_SECONDS = 600
UNDER_WAY = ("queued", "running")
KINDS = ("restart", "start", "stop", "suspend", "resume", "recovered")


@dataclass
class Supervised:
    """A finished run of the supervising DAG."""

    rig: Rig
    run_id: str
    state: str
    tasks: dict[str, str]

    @property
    def did(self) -> set[str]:
        """The kinds of what it recorded in the history, but for health statuses."""
        began = datetime.fromisoformat(self.rig.airflow.run(self.rig.supervision, self.run_id)["queued_at"])
        events = [event for kind in KINDS for event in self.rig.history.since(kind, began)]
        return {event["kind"] for event in events if self.run_id in event["run"]}

    @property
    def health(self) -> str:
        kept = self.rig.airflow.returned(self.rig.supervision, self.run_id, CONSUMER)
        # Text if a trigger ended the task: so Airflow 3.3 stores that task's XCom.
        found = json.loads(kept) if isinstance(kept, str) else kept
        return str(found["health"])

    def log(self, task: str = CONSUMER) -> str:
        return "\n".join(self.rig.airflow.log(self.rig.supervision, self.run_id, task))


def open_transaction(rig: Rig) -> None:
    """No run is under way, the stream is not suspended, and no earlier restart counts."""
    for run in rig.runs(rig.supervision):
        if run["state"] in UNDER_WAY:
            path = f"/dags/{rig.supervision}/dagRuns/{quote(run['dag_run_id'], safe='')}"
            rig.airflow.request("PATCH", path, json={"state": "failed"})
    recorded = rig.history.restart_history(datetime.now(UTC), SPEC.supervision)
    if recorded.suspended or recorded.restarts or recorded.left_since:
        rig.history.record("resume", {"who": "tests", "reason": "another test begins"}, datetime.now(UTC))


def trigger(rig: Rig, **conf: Any) -> str:
    return rig.airflow.trigger(rig.supervision, conf)


def finish(rig: Rig, run_id: str) -> Supervised:
    state = wait_for_run(rig, rig.supervision, run_id)
    return Supervised(rig, run_id, state, tasks_of(rig, run_id))


def wait_for_run(rig: Rig, dag: str, run_id: str) -> str:
    """The state in which a run ends. Prints what Airflow says of its failed tasks."""
    state = rig.airflow.wait(dag, run_id, RUN_SECONDS)
    airflow_calls.print_failed(rig.airflow, dag, run_id)
    return state


def supervise(rig: Rig, **conf: Any) -> Supervised:
    return finish(rig, trigger(rig, **conf))


def tasks_of(rig: Rig, run_id: str) -> dict[str, str]:
    return {task["task_id"]: task["state"] for task in rig.airflow.tasks(rig.supervision, run_id)}


def wait_for_task(rig: Rig, dag: str, run_id: str, task: str, state: str) -> None:
    """Until a task is in a state. Fails where it has ended in another one."""
    seen: list[str] = []

    def reached() -> bool:
        tasks = rig.airflow.tasks(dag, run_id)
        seen[:] = [found["state"] for found in tasks if found["task_id"] == task]
        return seen[0] in (state, "failed", "skipped", "success", "upstream_failed")

    wait_until(f"{task} {state}", reached, RUN_SECONDS)
    assert seen == [state], f"{task} of {run_id}"


def end(rig: Rig) -> None:
    """The consumer for good: its runtime does not restart what it was told to stop."""
    rig.stop_stream()


def is_patient_for_long(rig: Rig) -> bool:
    """Whether it takes longer than one run observes until the stream counts as stalled."""
    return _view(rig).stall_timeout > observe_seconds(SPEC.supervision)


def _view(rig: Rig) -> Timeline:
    process = ProcessStatus(SPEC.program, ProcessState.RUNNING)
    sample = Sample(at=time.time(), process=process, published=rig.lake.position(SPEC.table))
    return Timeline([sample], SPEC.supervision, [])
