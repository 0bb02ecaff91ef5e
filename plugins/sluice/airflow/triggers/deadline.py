"""Record and tell that a run of supervision missed its deadline."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

from sluice.airflow import notifications
from sluice.airflow.hook import PlatformHook
from sluice.config.sections.notifications import Event
from sluice.core.error_codes import ErrorCode

log = logging.getLogger(__name__)

# Streams of which this process told since the ledger answered last.
_told: set[str] = set()


async def missed(*, stream: str, context: dict[str, Any]) -> str:
    """Callback of the DeadlineAlert of a stream's supervision; ``context``: run (as in REST) and deadline.

    Airflow calls it in the triggerer, also for a run that failed in time, which is not recorded. Not in the
    executor: Airflow 3.3 denies connections there. While the triggerer is down, the checks themselves time
    out, and their callback tells. The result or exception is stored in Airflow's table ``callback``; a failed
    callback is not repeated, but the next missed run tells if this one could not.
    """
    return await asyncio.to_thread(_missed, stream, context)


def _missed(stream: str, context: dict[str, Any]) -> str:
    run, deadline = context["dag_run"], _moment(context["deadline"]["deadline_time"])
    name = f"{run['dag_id']} {run['dag_run_id']}"
    if run["end_date"] and _moment(run["end_date"]) <= deadline:
        return f"{name} ended in time, {run['state']}"
    message = (
        f"{ErrorCode.DEADLINE_MISSED} supervision missed its deadline: run {run['dag_run_id']} is "
        f"{run['state']}, deadline {deadline.isoformat(timespec='seconds')}. Fix: check the scheduler, the "
        "triggerer and the run"
    )
    log.error("%s", message)
    document = {
        "run": run["dag_run_id"],
        "dag": run["dag_id"],
        "state": run["state"],
        "queued_at": run["queued_at"],
        "deadline": deadline.isoformat(),
    }
    ids = (str(run["dag_id"]), str(run["dag_run_id"]))
    # Told first: the ledger may be why it was missed.
    try:
        note = notifications.compose(Event.DEADLINE, stream, "supervision", message, ids)
        condition = ErrorCode.DEADLINE_MISSED.value
        if notifications.tell_anyway(stream, note, condition, context, lambda: stream in _told):
            _told.add(stream)
    finally:
        PlatformHook().history(stream).record("deadline_missed", document, datetime.now(UTC))
    _told.discard(stream)
    return f"{name} missed its deadline"


def _moment(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)
