"""Health of a stream's components, and when supervision checked it last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from airflow.api_fastapi.common.db.common import SessionDep

from sluice.config.stream import CONSUMER, Supervision
from sluice.core.errors import ClientError
from sluice.core.json_record import Document
from sluice.supervision.rules.status import RESTARTABLE, Health, no_action
from sluice.web.data.airflow_db import LastCheck, last_checks
from sluice.web.formats import public


def last_check(stream: str, session: SessionDep) -> LastCheck:
    """``stream`` is the one in the request's path."""
    return last_checks([stream], session)[stream]


def stream_status(
    events: Mapping[str, Document | ClientError | None], check: LastCheck, policy: Supervision, now: float
) -> dict[str, Any]:
    """JSON of each component's health and of its supervision, without addresses. Times: seconds since 1970.

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
        message = public(f"its health cannot be read: {event}")
        return {"health": Health.UNKNOWN.value, "severity": "error", "message": message, "since": None}
    health = str(event["health"])
    return {
        "health": health,
        "severity": severity(health, component),
        "message": public(str(event.get("message", ""))),
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
