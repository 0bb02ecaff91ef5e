"""Wait, in the triggerer, for a person's decision while it is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.triggers.base import TriggerEvent

from sluice.airflow.triggers.wait import Outcome, PollTrigger, Progress
from sluice.core.errors import ClientError
from sluice.supervision.rules.status import NO_ACTION, Decision, Health

if TYPE_CHECKING:
    from sluice.ledger.history import History

POLL_SECONDS = 15.0
NEEDS_NO_DECISION = NO_ACTION - {Health.STARTING}


def obsolete_reason(history: History, requested_at: datetime) -> str | None:
    """Why a decision requested then is no longer needed, or None. Raises ClientError.

    The component was found healthy or suspended since, or a person acted.
    """
    acted = history.requested_since(requested_at)
    if acted:
        return acted
    newest = history.latest("health")
    if newest and datetime.fromisoformat(newest["at"]) > requested_at:
        return f"it is {newest['health']}" if newest["health"] in NEEDS_NO_DECISION else None
    return None


@dataclass(kw_only=True, eq=False, repr=False)
class DecisionTrigger(PollTrigger):
    """Answers an open request with CHECK at ``deadline``, or as soon as no decision is needed.

    A person's answer does not pass through it: Airflow resumes the task itself. Times: seconds since 1970.
    """

    requested_at: float
    poll_interval: float = POLL_SECONDS

    async def run(self) -> AsyncIterator[TriggerEvent]:
        outcome, progress = await self.wait()
        reason = "no answer in time" if outcome is Outcome.TIMED_OUT else progress.message
        self.log.info("request ended without an answer: reason=%s", reason)
        yield TriggerEvent(
            {
                "chosen_options": [Decision.CHECK.value],
                "params_input": {},
                "responded_by_user": None,
                "responded_at": datetime.fromtimestamp(self.clock(), UTC),
                "reason": reason,
            }
        )

    async def poll(self) -> Progress:
        since = datetime.fromtimestamp(self.requested_at, UTC)
        try:
            reason = await self.ask(lambda clients: obsolete_reason(clients.history, since))
        except ClientError as error:
            return Progress(f"need for a decision unknown: {error}")
        return Progress(reason, Outcome.REACHED) if reason else Progress("no answer yet")
