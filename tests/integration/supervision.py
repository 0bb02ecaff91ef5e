"""Runs of the DAG that supervises the taxi stream, triggered: they do what those of the schedule would."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from local.stack import wait_until
from sluice.model.samples import Sample
from sluice.model.view import View
from sluice.triggers.stream_health import observe_seconds
from tests.integration.rig import SPEC, Rig

RUN_SECONDS = 300
UNDER_WAY = ("queued", "running")


@dataclass
class Supervised:
    """A finished run of the supervising DAG."""

    rig: Rig
    run_id: str
    state: str
    tasks: dict[str, str]

    @property
    def done(self) -> set[str]:
        return {task for task, state in self.tasks.items() if state == "success"}

    @property
    def diagnosis(self) -> dict[str, Any]:
        return dict(self.rig.airflow.xcom(self.rig.supervision, self.run_id, "observe")["diagnosis"])

    @property
    def verdict(self) -> str:
        return str(self.diagnosis["verdict"])

    def log(self, task: str) -> str:
        return "\n".join(self.rig.airflow.log(self.rig.supervision, self.run_id, task))


def begin_afresh(rig: Rig) -> None:
    """No run is under way, nobody holds the stream, and no earlier restart counts."""
    for run in rig.supervision_runs():
        if run["state"] in UNDER_WAY:
            path = f"/dags/{rig.supervision}/dagRuns/{quote(run['dag_run_id'], safe='')}"
            rig.airflow.request("PATCH", path, json={"state": "failed"})
    facts = rig.history.facts(datetime.now(UTC), SPEC.supervision)
    if facts.held or facts.restarts:
        rig.history.record("release", {"who": "tests", "why": "another test begins"}, datetime.now(UTC))


def trigger(rig: Rig, **conf: Any) -> str:
    return rig.airflow.trigger(rig.supervision, conf)


def finish(rig: Rig, run_id: str) -> Supervised:
    state = rig.airflow.wait(rig.supervision, run_id, RUN_SECONDS)
    run = Supervised(rig, run_id, state, tasks_of(rig, run_id))
    for task in (name for name, end in run.tasks.items() if end == "failed"):
        print(f"{run_id} {task} failed:\n{run.log(task)[-3000:]}")
    return run


def supervise(rig: Rig, **conf: Any) -> Supervised:
    return finish(rig, trigger(rig, **conf))


def tasks_of(rig: Rig, run_id: str) -> dict[str, str]:
    return {task["task_id"]: task["state"] for task in rig.airflow.tasks(rig.supervision, run_id)}


def wait_for_task(rig: Rig, run_id: str, task: str, state: str) -> None:
    """Until a task is in a state. Fails where it has ended in another one."""
    seen: list[str] = []

    def reached() -> bool:
        seen[:] = [tasks_of(rig, run_id)[task]]
        return seen[0] in (state, "failed", "skipped", "success", "upstream_failed")

    wait_until(f"{task} {state}", reached, RUN_SECONDS)
    assert seen == [state], f"{task} of {run_id}"


def has_ended(rig: Rig, run_id: str, task: str) -> bool:
    """Whether the scheduler knows that the task's worker has ended, some seconds after the task."""
    log = (rig.stack.home.logs / "airflow-scheduler.log").read_text(errors="replace")
    return any(
        "Received executor event" in line and f"task_id='{task}'" in line and run_id in line
        for line in log.splitlines()
    )


def trigger_log(rig: Rig, run_id: str, task: str) -> str:
    """What a task's trigger has said so far, in all triggerers."""
    folder = rig.stack.home.logs / "airflow" / f"dag_id={rig.supervision}" / f"run_id={run_id}"
    return "".join(log.read_text() for log in folder.glob(f"task_id={task}/*.trigger.*.log"))


def settles_nothing(rig: Rig) -> Callable[[], bool]:
    """Whether one look is too little to say that the stream moves: it published some time ago."""

    def quiet() -> bool:
        view = _view(rig)
        return not view.is_recent(view.patience / 2)

    return quiet


def is_patient_for_long(rig: Rig) -> bool:
    """Whether it takes longer than one run looks until the stream counts as stalled."""
    return _view(rig).patience > observe_seconds(SPEC.supervision)


def _view(rig: Rig) -> View:
    look = Sample(
        at=time.time(),
        process=None,
        topic_id=None,
        begins=None,
        ends=None,
        expiring=None,
        published=rig.lake.position(SPEC.table),
        trouble={},
    )
    return View([look], SPEC.supervision, [])
