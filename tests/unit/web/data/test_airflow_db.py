"""What pages show of Airflow's own tables: checks of supervision, runs of loads, open approvals."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import create_engine, event, insert
from sqlalchemy.orm import Session

from sluice.supervision.observer.component_view import LastCheck
from sluice.web.data.airflow_db import (
    MAX_RUNS,
    LoadRun,
    OpenApproval,
    last_checks,
    open_approvals,
    unverified_runs,
)
from sluice.web.streams.health import last_check

DAG = "wiki_changes_stream"
NOW = datetime.now(UTC).replace(microsecond=0)
NUMBERS = count(1)


@pytest.fixture
def session() -> Iterator[Session]:
    import_all_models()
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as made:
        yield made
    engine.dispose()


def add_dag(session: Session, paused: bool) -> None:
    known = {"dag_id": DAG, "is_paused": paused, "bundle_name": "dags-folder"}
    known |= {"max_active_tasks": 16, "max_active_runs": 1, "max_consecutive_failed_dag_runs": 0}
    known |= {"has_task_concurrency_limits": False}
    session.execute(insert(DagModel.__table__).values(**known))


def add_run(session: Session, state: str, hours: float, dag: str = DAG, ended: bool = True) -> str:
    """A run of ``hours`` ago."""
    number, at = next(NUMBERS), NOW - timedelta(hours=hours)
    values: dict[str, Any] = {
        "id": number,
        "dag_id": dag,
        "run_id": f"run {number}",
        "run_type": "scheduled",
        "state": state,
        "run_after": at,
        "start_date": at,
        "end_date": at + timedelta(minutes=1) if ended else None,
    }
    session.execute(insert(DagRun.__table__).values(**values))
    return f"run {number}"


def end(hours: float) -> float:
    return (NOW - timedelta(hours=hours) + timedelta(minutes=1)).timestamp()


def test_a_dag_that_airflow_does_not_know(session: Session) -> None:
    assert last_check("wiki_changes", session) == LastCheck(DAG, None, None, None)


def test_a_dag_without_a_run_that_is_finished(session: Session) -> None:
    add_dag(session, paused=True)
    add_run(session, "running", 0.2, ended=False)
    add_run(session, "queued", 0.1, ended=False)
    add_run(session, "success", 0.3, dag="nyc_taxi_stream")
    assert last_check("wiki_changes", session) == LastCheck(DAG, True, None, None)


def test_the_newest_finished_run(session: Session) -> None:
    add_dag(session, paused=False)
    add_run(session, "success", 3)
    add_run(session, "failed", 2)
    add_run(session, "running", 1, ended=False)
    assert last_check("wiki_changes", session) == LastCheck(DAG, False, end(2), False)
    add_run(session, "success", 0.5)
    assert last_check("wiki_changes", session) == LastCheck(DAG, False, end(0.5), True)


def test_checks_of_several_streams_and_none_of_the_day_before(session: Session) -> None:
    add_dag(session, paused=False)
    add_run(session, "success", 25)
    add_run(session, "success", 1, dag="nyc_taxi_stream")
    assert last_checks(["wiki_changes", "nyc_taxi"], session) == {
        "wiki_changes": LastCheck(DAG, False, None, None),
        "nyc_taxi": LastCheck("nyc_taxi_stream", None, end(1), True),
    }


def test_loads_that_failed_lately_or_are_not_finished(session: Session) -> None:
    add_run(session, "success", 1, "x_load")
    failed = add_run(session, "failed", 5, "x_load")
    running = add_run(session, "running", 2, "x_backfill", ended=False)
    add_run(session, "failed", 24 * 8, "x_load")
    add_run(session, "failed", 1, "y_load")
    assert unverified_runs(["x_load", "x_backfill"], session) == [
        LoadRun("x_backfill", running, "running", (NOW - timedelta(hours=2)).timestamp()),
        LoadRun("x_load", failed, "failed", end(5)),
    ]
    for _ in range(5):
        add_run(session, "failed", 3, "x_load")
    assert len(unverified_runs(["x_load"], session)) == MAX_RUNS


def test_loads_of_hundreds_of_streams_are_found_by_one_statement(session: Session) -> None:
    dags = [f"s{number}_load" for number in range(300)]
    for dag in dags:
        add_run(session, "failed", 3, dag)
    sent: list[str] = []
    event.listen(session.get_bind(), "before_cursor_execute", lambda *given: sent.append(given[2]))
    assert {run.dag for run in unverified_runs(dags, session)} == set(dags)
    assert len(sent) == 1


def add_request(session: Session, dag: str, state: str, answered: bool = False, **more: Any) -> str:
    run, number = add_run(session, "running", 0.1, dag, ended=False), uuid.uuid4()
    session.execute(
        insert(TaskInstance.__table__).values(
            id=number,
            task_id="approve_change",
            dag_id=dag,
            run_id=run,
            map_index=-1,
            state=state,
            try_number=1,
            pool="default_pool",
            pool_slots=1,
        )
    )
    session.execute(
        insert(HITLDetail.__table__).values(
            ti_id=number,
            options=["a"],
            subject="Revert?",
            params={},
            params_input={},
            created_at=NOW,
            responded_at=NOW if answered else None,
            **more,
        )
    )
    return run


def test_approvals_that_wait_for_an_answer(session: Session) -> None:
    run = add_request(session, "x_change", "deferred")
    asked = add_request(session, "w_change", "deferred", assignees=[{"id": "1", "name": "ada"}])
    add_request(session, "x_change", "deferred", answered=True)
    # Its run was ended by its time limit, or by a person.
    add_request(session, "x_change", "skipped")
    add_request(session, "y_change", "deferred")
    at = NOW.timestamp()
    assert sorted(open_approvals(["w_change", "x_change"], session), key=lambda one: one.dag) == [
        OpenApproval("w_change", asked, "approve_change", "Revert?", at, ("ada",)),
        OpenApproval("x_change", run, "approve_change", "Revert?", at, ()),
    ]
