"""Health of a stream's components, and when supervision checked it last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.state import DagRunState
from sqlalchemy import select

from sluice.clients.errors import ClientError
from sluice.model.health.status import RESTARTABLE, Health, no_action
from sluice.model.spec.ledger import Document
from sluice.model.spec.stream import CONSUMER, Supervision


@dataclass(frozen=True)
class LastCheck:
    """The newest finished run of the DAG that supervises a stream.

    ``paused``: None if Airflow has no such DAG. ``at``: when the run ended (seconds since 1970), ``passed``:
    whether it succeeded; both None before the first.
    """

    dag: str
    paused: bool | None
    at: float | None
    passed: bool | None


def last_check(stream: str, session: SessionDep) -> LastCheck:
    """Read it from Airflow's database; ``stream`` is the one in the request's path."""
    dag = f"{stream}_stream"
    paused = session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag))
    # By id, which is an index: ordering years of runs by their end would not be.
    run = session.execute(
        select(DagRun.end_date, DagRun.state)
        .where(DagRun.dag_id == dag, DagRun.state.in_([DagRunState.SUCCESS, DagRunState.FAILED]))
        .order_by(DagRun.id.desc())
        .limit(1)
    ).first()
    if run is None:
        return LastCheck(dag, paused, None, None)
    end, state = run
    return LastCheck(dag, paused, end.timestamp() if end else None, state == DagRunState.SUCCESS)


def stream_status(
    events: Mapping[str, Document | ClientError | None], check: LastCheck, policy: Supervision, now: float
) -> dict[str, Any]:
    """JSON of each component's health and of its supervision. Times: seconds since 1970.

    ``events``: component -> newest health event. ``current``: False if supervision is paused or unknown, or
    the last check is older than the policy's ``missed_seconds``; then each health is only the last known one.
    """
    is_recent = check.at is not None and now - check.at <= policy.missed_seconds
    return {
        "components": [
            {"component": component, **_component(component, event)} for component, event in events.items()
        ],
        "supervision": asdict(check) | {"current": check.paused is False and is_recent},
    }


def _component(component: str, event: Document | ClientError | None) -> dict[str, Any]:
    if event is None:
        return {"health": None, "severity": "none", "message": "not checked yet", "since": None}
    if isinstance(event, ClientError):
        message = f"its health cannot be read: {event}"
        return {"health": Health.UNKNOWN.value, "severity": "error", "message": message, "since": None}
    health = str(event["health"])
    return {
        "health": health,
        "severity": severity(health, component),
        "message": str(event.get("message", "")),
        "since": datetime.fromisoformat(event["at"]).timestamp(),
    }


def severity(health: str, component: str = CONSUMER) -> str:
    """``ok``, ``suspended``, ``recovering`` (supervision restarts it) or ``error``, also for an unknown word.

    Fenced is ``ok``, because another instance works, except for the consumer.
    """
    if health == Health.SUSPENDED:
        return "suspended"
    if health in no_action(component):
        return "ok"
    return "recovering" if health in RESTARTABLE else "error"
