"""What the pages show of Airflow's own tables: checks of supervision, runs of loads, open approvals.

Every query is bounded by a time or by a state that few rows have, so that it costs the same after years.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import DagRunState, TaskInstanceState
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from sluice.supervision.observer.component_view import LastCheck

# A check that is older is none: supervision is paused or gone.
CHECKED_WITHIN = timedelta(days=1)
LOADED_WITHIN = timedelta(days=7)
MAX_RUNS = 3
FINISHED = (DagRunState.SUCCESS, DagRunState.FAILED)
WAITING = (TaskInstanceState.DEFERRED, TaskInstanceState.AWAITING_INPUT, TaskInstanceState.RUNNING)


@dataclass(frozen=True)
class LoadRun:
    """A run of a load that is not verified, or not yet; ``at``: its start or end, seconds since 1970."""

    dag: str
    run: str
    state: str
    at: float


@dataclass(frozen=True)
class OpenApproval:
    """A change that waits for a person's approval. ``dag``, ``run``, ``task``: Airflow's ids; ``subject``:
    the question in a line, asked ``at`` (seconds since 1970). ``assigned``: who may answer; empty: all who
    may edit the DAG and its required actions."""

    dag: str
    run: str
    task: str
    subject: str
    at: float
    assigned: tuple[str, ...]


def last_checks(streams: Iterable[str], session: Session) -> dict[str, LastCheck]:
    """Stream -> its newest check."""
    dags = {f"{stream}_stream": stream for stream in streams}
    paused = {
        dag: bool(is_paused)
        for dag, is_paused in session.execute(
            select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dags))
        )
    }
    newest = (
        select(func.max(DagRun.id))
        .where(
            DagRun.run_after >= datetime.now(UTC) - CHECKED_WITHIN,
            DagRun.dag_id.in_(dags),
            DagRun.state.in_(FINISHED),
        )
        .group_by(DagRun.dag_id)
    )
    runs = {
        dag: (end.timestamp() if end else None, state == DagRunState.SUCCESS)
        for dag, end, state in session.execute(
            select(DagRun.dag_id, DagRun.end_date, DagRun.state).where(DagRun.id.in_(newest))
        )
    }
    return {
        stream: LastCheck(dag, paused.get(dag), *runs.get(dag, (None, None))) for dag, stream in dags.items()
    }


def unverified_runs(dags: Collection[str], session: Session) -> list[LoadRun]:
    """Runs of these loads that failed lately or are not finished, newest first, MAX_RUNS of each DAG."""
    since = datetime.now(UTC) - LOADED_WITHIN
    states = (DagRunState.FAILED, DagRunState.RUNNING, DagRunState.QUEUED)
    place = func.row_number().over(partition_by=DagRun.dag_id, order_by=DagRun.run_after.desc())
    # All at once: a statement for each of hundreds of DAGs took half a second.
    newest = (
        select(
            DagRun.dag_id, DagRun.run_id, DagRun.state,
            DagRun.start_date, DagRun.end_date, DagRun.run_after, place.label("place"),
        )
        .where(DagRun.dag_id.in_(dags), DagRun.state.in_(states), DagRun.run_after >= since)
        .subquery()
    )  # fmt: skip
    rows = session.execute(select(*newest.c[:-1]).where(newest.c.place <= MAX_RUNS))
    found = [
        LoadRun(dag, run, str(getattr(state, "value", state)), (end or start or after).timestamp())
        for dag, run, state, start, end, after in rows
    ]
    return sorted(found, key=lambda run: -run.at)


def open_approvals(dags: Collection[str], session: Session) -> list[OpenApproval]:
    """Questions of these DAGs without an answer, oldest first."""
    rows = session.execute(
        select(
            TaskInstance.dag_id,
            TaskInstance.run_id,
            TaskInstance.task_id,
            HITLDetail.subject,
            HITLDetail.created_at,
            HITLDetail.assignees,
        )
        .join(TaskInstance, TaskInstance.id == HITLDetail.ti_id)
        .where(
            HITLDetail.responded_at.is_(None),
            TaskInstance.dag_id.in_(dags),
            TaskInstance.state.in_(WAITING),
        )
        .order_by(HITLDetail.created_at)
    )
    return [
        OpenApproval(dag, run, task, subject, at.timestamp(), tuple(one["name"] for one in assignees or ()))
        for dag, run, task, subject, at, assignees in rows
    ]
