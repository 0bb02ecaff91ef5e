"""What happens when a stream's supervision did not come to its end in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sluice.hooks.platform import PlatformHook

log = logging.getLogger(__name__)


async def missed(
    *,
    stream: str,
    context: dict[str, Any],
    role: str = "airflow",
    connect: Callable[[str], PlatformHook] = PlatformHook,
) -> str:
    """Record that a run of the stream's supervision missed its deadline; the callback of its DeadlineAlert.

    Airflow calls it in the triggerer with ``context``: the run (as REST shows it) and the deadline. It calls
    it also for a run that ended red in time, which is not missed.
    What is returned, or raised, is kept in Airflow's table ``callback``; a failed callback is not repeated.
    """
    run, deadline = context["dag_run"], _moment(context["deadline"]["deadline_time"])
    name = f"{run['dag_id']} {run['dag_run_id']}"
    if run["end_date"] and _moment(run["end_date"]) <= deadline:
        return f"{name} ended in time, {run['state']}"
    return await asyncio.to_thread(_record, connect(role), stream, run, name, deadline)


def _record(hook: PlatformHook, stream: str, run: dict[str, Any], name: str, deadline: datetime) -> str:
    history = hook.history(stream)
    log.error(
        "the supervision of stream %s is not done: run %s is %s, and should have ended by %s; look at the "
        "scheduler, the triggerer and the run",
        stream, name, run["state"], deadline.isoformat(),
    )  # fmt: skip
    document = {
        "run": run["dag_run_id"],
        "dag": run["dag_id"],
        "state": run["state"],
        "queued_at": run["queued_at"],
        "deadline": deadline.isoformat(),
    }
    history.record("deadline_missed", document, datetime.now(UTC))
    return f"{name} missed its deadline"


def _moment(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)
