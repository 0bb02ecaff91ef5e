"""Record and tell that a run of supervision missed its deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sluice.airflow.channel import RunChannel, compose
from sluice.airflow.hook import PlatformHook
from sluice.config.notifications import Event
from sluice.core.error_codes import ErrorCode
from sluice.notify.occasions import Occasion
from sluice.notify.telling import tell_anyway

log = logging.getLogger(__name__)


class Deadlines:
    """The missed deadlines of all streams. ``told``: the streams that were told of one since the ledger
    answered last; while it does not, nothing else knows."""

    def __init__(self) -> None:
        self.told: set[str] = set()

    async def missed(self, *, stream: str, context: dict[str, Any]) -> str:
        """Callback of the DeadlineAlert of a stream's supervision; ``context``: run (as in REST), deadline.

        Airflow calls it in the triggerer, also for a run that failed in time, which is not recorded. Not in
        the executor: Airflow 3.3 denies connections there. While the triggerer is down, the checks themselves
        time out, and their callback tells. The result or exception is stored in Airflow's table ``callback``;
        a failed callback is not repeated, but the next missed run tells if this one could not.
        """
        return await asyncio.to_thread(self._missed, stream, context)

    def _missed(self, stream: str, context: dict[str, Any]) -> str:
        run, deadline = context["dag_run"], _moment(context["deadline"]["deadline_time"])
        name = f"{run['dag_id']} {run['dag_run_id']}"
        if run["end_date"] and _moment(run["end_date"]) <= deadline:
            return f"{name} ended in time, {run['state']}"
        message = (
            f"{ErrorCode.DEADLINE_MISSED} supervision missed its deadline: run {run['dag_run_id']} is "
            f"{run['state']}, deadline {deadline.isoformat(timespec='seconds')}. Fix: check the scheduler, "
            "the triggerer and the run"
        )
        log.error("%s", message)
        document = {
            "run": run["dag_run_id"],
            "dag": run["dag_id"],
            "state": run["state"],
            "queued_at": run["queued_at"],
            "deadline": deadline.isoformat(),
        }
        note = compose(
            Occasion(Event.DEADLINE, stream, "supervision", message),
            (str(run["dag_id"]), str(run["dag_run_id"])),
        )
        channel = _Channel(context, is_told=stream in self.told)
        # Told first: the ledger may be why it was missed.
        try:
            if tell_anyway(
                lambda: PlatformHook().brief_history(stream), note, ErrorCode.DEADLINE_MISSED.value, channel
            ):
                self.told.add(stream)
        finally:
            PlatformHook().history(stream).record("deadline_missed", document, datetime.now(UTC))
        self.told.discard(stream)
        return f"{name} missed its deadline"


class _Channel(RunChannel):
    def __init__(self, context: Mapping[str, Any], *, is_told: bool) -> None:
        super().__init__(context)
        self.is_told = is_told

    def failed_before(self) -> bool:
        return self.is_told


# Airflow imports the callback by this address for each missed deadline, so its object lives as long as the
# triggerer: nothing of Airflow's outlives one call.
missed = Deadlines().missed


def _moment(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)
