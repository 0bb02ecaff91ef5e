"""Health of a stream's components, and when supervision checked it last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from airflow.api_fastapi.common.db.common import SessionDep

from sluice.config.sections.supervision import Supervision
from sluice.supervision.observer.component_view import ComponentView, LastCheck, worst
from sluice.web.data.airflow_db import last_checks
from sluice.web.formats import public


def last_check(stream: str, session: SessionDep) -> LastCheck:
    """``stream`` is the one in the request's path."""
    return last_checks([stream], session)[stream]


def stream_status(
    components: Sequence[ComponentView], check: LastCheck, policy: Supervision, now: float
) -> dict[str, Any]:
    """JSON of each component's health and of its supervision, without addresses. Times: seconds since 1970.

    ``worst``: the component with the worst severity. ``current``: False if a component was not observed
    lately; of the supervision, if that is paused, unknown or late.
    """
    return {
        "components": [
            {
                "component": one.name,
                "health": one.health,
                "severity": one.severity,
                "message": public("; ".join(filter(None, [one.message, *one.problems]))),
                "since": one.since,
            }
            for one in components
        ],
        "worst": worst(components).name,
        "current": all(one.is_current for one in components),
        "supervision": asdict(check) | {"current": check.is_current(policy, now)},
    }
