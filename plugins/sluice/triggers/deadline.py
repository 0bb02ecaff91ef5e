"""Record that a run of supervision missed its deadline."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

from sluice.hooks.platform import PlatformHook

log = logging.getLogger(__name__)


async def missed(*, stream: str, context: dict[str, Any]) -> str:
    """Callback of the DeadlineAlert of a stream's supervision; ``context``: run (as in REST) and deadline.

    Airflow calls it in the triggerer, also for a run that failed in time, which is not recorded. The result
    or exception is stored in Airflow's table ``callback``; a failed callback is not repeated.
    """
    run, deadline = context["dag_run"], _moment(context["deadline"]["deadline_time"])
    name = f"{run['dag_id']} {run['dag_run_id']}"
    if run["end_date"] and _moment(run["end_date"]) <= deadline:
        return f"{name} ended in time, {run['state']}"
    log.error(
        "supervision missed its deadline: stream=%s run=%s state=%s deadline=%s. Fix: check the "
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
    await asyncio.to_thread(
        lambda: PlatformHook().history(stream).record("deadline_missed", document, datetime.now(UTC))
    )
    return f"{name} missed its deadline"


def _moment(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)
