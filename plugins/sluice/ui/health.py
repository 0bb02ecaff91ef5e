"""Health and when it was last checked.

How the stream stands, as a page tells it: a pure function of verdicts, supervision and the time.

When Airflow last looked at a stream: without that, a verdict is as good as the day it was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.state import DagRunState
from sqlalchemy import select

from sluice.clients.errors import ClientError
from sluice.model.health.status import RESTARTABLE, Health, no_action
from sluice.model.spec.ledger import Document
from sluice.model.spec.stream import CONSUMER, Supervision


class LastChecks(Protocol):
    """What :class:`sluice.ui.health.Supervised` holds."""

    @property
    def dag(self) -> str: ...
    @property
    def paused(self) -> bool | None: ...
    @property
    def at(self) -> float | None: ...
    @property
    def passed(self) -> bool | None: ...


def standing(
    verdicts: Mapping[str, Document | ClientError | None],
    looks: LastChecks,
    policy: Supervision,
    now: float,
) -> dict[str, Any]:
    """JSON of each part's verdict and of the supervision that stands behind it. Times: seconds since 1970.

    ``current`` is False where nobody has looked for the policy's ``missed_seconds``, or supervision is paused
    or unknown: then a verdict is what was last known, not what is.
    """
    is_recent = looks.at is not None and now - looks.at <= policy.missed_seconds
    return {
        "parts": [{"part": component, **_told(component, found)} for component, found in verdicts.items()],
        "supervision": {
            "dag": looks.dag,
            "paused": looks.paused,
            "at": looks.at,
            "passed": looks.passed,
            "current": looks.paused is False and is_recent,
        },
    }


def _told(component: str, found: Document | ClientError | None) -> dict[str, Any]:
    if found is None:
        return {"health": None, "tone": "none", "message": "not looked at yet", "since": None}
    if isinstance(found, ClientError):
        # As a look that saw nothing: red, and with the reason.
        return {
            "health": Health.UNKNOWN.value,
            "tone": "bad",
            "message": f"its verdict cannot be read: {found}",
            "since": None,
        }
    return {
        "health": str(found["health"]),
        "tone": tone(str(found["health"]), component),
        "message": str(found.get("message", "")),
        "since": datetime.fromisoformat(found["at"]).timestamp(),
    }


def tone(health: str, component: str = CONSUMER) -> str:
    """``well``, ``suspended``, ``mending`` (a restart follows) or ``bad``; what is not known here is bad.

    A part in whose place another one is at work is well; the consumer has no substitute.
    """
    if health == Health.SUSPENDED:
        return "suspended"
    if health in no_action(component):
        return "well"
    return "mending" if health in RESTARTABLE else "bad"


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
