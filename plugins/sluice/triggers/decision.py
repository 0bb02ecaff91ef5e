"""Waiting in the triggerer for a person's decision, as long as it is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from airflow.triggers.base import TriggerEvent

from sluice.clients.errors import ClientError
from sluice.model.health.consumer import NO_ACTION, Health
from sluice.model.health.status import Answer
from sluice.model.spec.ledger import history_name
from sluice.triggers.base import StreamTrigger

if TYPE_CHECKING:
    from sluice.clients.ledger import History

POLL_SECONDS = 15.0
NEEDS_NO_DECISION = NO_ACTION - {Health.STARTING}


def settled(history: History, requested_at: datetime) -> str | None:
    """Why a decision that was requested then is not needed any more; None if it is. Raises ClientError.

    Supervision found the component healthy or suspended since, or a person acted.
    """
    acted = history.requested_since(requested_at)
    if acted:
        return acted
    newest = history.latest("health")
    if newest and datetime.fromisoformat(newest["at"]) > requested_at:
        return f"it is {newest['health']}" if newest["health"] in NEEDS_NO_DECISION else None
    return None


class DecisionTrigger(StreamTrigger):
    """Ends an open question at ``deadline``, or as soon as no decision is needed: with the answer to wait.

    A person's answer does not come through it: Airflow resumes the task itself. ``requested_at``,
    ``deadline``: seconds since 1970.
    """

    names = ("stream", "component", "role", "requested_at", "deadline")

    def __init__(
        self, *, stream: str, component: str, role: str, requested_at: float, deadline: float
    ) -> None:
        super().__init__(stream=stream, role=role)
        self.component = component
        self.requested_at = requested_at
        self.deadline = deadline

    @cached_property
    def history(self) -> History:
        return self.hook.history(history_name(self.stream, self.component))

    async def run(self) -> AsyncIterator[TriggerEvent]:
        reason = await self._wait()
        self.log.info("no answer is waited for: %s", reason)
        yield TriggerEvent(
            {
                "chosen_options": [Answer.LOOK.value],
                "params_input": {},
                "responded_by_user": None,
                "responded_at": datetime.fromtimestamp(self.clock(), UTC),
                "reason": reason,
            }
        )

    async def _wait(self) -> str:
        since = datetime.fromtimestamp(self.requested_at, UTC)
        while self.clock() < self.deadline:
            try:
                reason = await self.ask(lambda: settled(self.history, since))
            except ClientError as error:
                self.log.warning("whether a decision is still needed is unknown: %s", error)
            else:
                if reason:
                    return reason
            await self.sleep(POLL_SECONDS)
        return "nobody answered in time"
