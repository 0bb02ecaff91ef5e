"""When supervision checked last, from Airflow's own tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.tasklog import LogTemplate
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session

from sluice.ui.health import LastCheck, last_check

DAG = "wiki_changes_stream"


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    for model in (DagModel, LogTemplate, DagRun):
        model.__table__.create(engine)
    with Session(engine) as made:
        yield made
    engine.dispose()


def add_dag(session: Session, paused: bool) -> None:
    known = {"dag_id": DAG, "is_paused": paused, "bundle_name": "dags-folder"}
    known |= {"max_active_tasks": 16, "max_active_runs": 1, "max_consecutive_failed_dag_runs": 0}
    known |= {"has_task_concurrency_limits": False}
    session.execute(insert(DagModel.__table__).values(**known))


def add_run(session: Session, number: int, state: str, end: datetime | None, dag: str = DAG) -> None:
    at = datetime(2026, 1, 1, number, tzinfo=UTC)
    values: dict[str, Any] = {
        "id": number,
        "dag_id": dag,
        "run_id": f"run {number}",
        "run_type": "scheduled",
        "state": state,
        "run_after": at,
        "end_date": end,
    }
    session.execute(insert(DagRun.__table__).values(**values))


def at(hour: int) -> datetime:
    return datetime(2026, 1, 2, hour, tzinfo=UTC)


def test_a_dag_that_airflow_does_not_know(session: Session) -> None:
    assert last_check("wiki_changes", session) == LastCheck(DAG, None, None, None)


def test_a_dag_without_a_run_that_is_finished(session: Session) -> None:
    add_dag(session, paused=True)
    add_run(session, 1, "running", None)
    add_run(session, 2, "queued", None)
    add_run(session, 3, "success", at(3), dag="nyc_taxi_stream")
    assert last_check("wiki_changes", session) == LastCheck(DAG, True, None, None)


def test_the_newest_finished_run(session: Session) -> None:
    add_dag(session, paused=False)
    add_run(session, 1, "success", at(1))
    add_run(session, 2, "failed", at(2))
    add_run(session, 3, "running", None)
    assert last_check("wiki_changes", session) == LastCheck(DAG, False, at(2).timestamp(), False)
    add_run(session, 4, "success", at(4))
    assert last_check("wiki_changes", session) == LastCheck(DAG, False, at(4).timestamp(), True)
