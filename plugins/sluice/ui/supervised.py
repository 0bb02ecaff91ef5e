"""When Airflow last looked at a stream: without that, a verdict is as good as the day it was given."""

from __future__ import annotations

from dataclasses import dataclass

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.state import DagRunState
from sqlalchemy import select


@dataclass(frozen=True)
class Supervised:
    """The runs of the DAG that supervises a stream.

    ``paused`` is None where Airflow knows no such DAG. ``at`` is when its newest finished run ended (seconds
    since 1970) and ``passed`` whether that was green; both None before the first.
    """

    dag: str
    paused: bool | None
    at: float | None
    passed: bool | None


def supervised(stream: str, session: SessionDep) -> Supervised:
    """Ask Airflow's database about the stream in the request's path."""
    dag = f"{stream}_stream"
    paused = session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag))
    # By id, which is an index: ordering years of runs by their end would not be.
    last = session.execute(
        select(DagRun.end_date, DagRun.state)
        .where(DagRun.dag_id == dag, DagRun.state.in_([DagRunState.SUCCESS, DagRunState.FAILED]))
        .order_by(DagRun.id.desc())
        .limit(1)
    ).first()
    if last is None:
        return Supervised(dag, paused, None, None)
    end, state = last
    return Supervised(dag, paused, end.timestamp() if end else None, state == DagRunState.SUCCESS)
