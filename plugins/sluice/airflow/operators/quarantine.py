"""Base of the steps that read the quarantine, which follows the table."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sluice.airflow.operators.base import BACKSTOP, StreamOperator
from sluice.airflow.triggers.quarantine import QuarantineTrigger, is_settled

if TYPE_CHECKING:
    from airflow.sdk import Context

SETTLE_SECONDS = 60
POLL_SECONDS = 1.0


class QuarantineOperator(StreamOperator):
    """A step over the table and the quarantine. Its :meth:`work` is done again after a wait."""

    waits = (timedelta(seconds=SETTLE_SECONDS) + BACKSTOP,)
    waited = False

    def settle(self) -> bool:
        """Whether the quarantine holds what the stream rejected. Usually at once; else this defers, and says
        no if it took longer than a minute."""
        if is_settled(self.platform_hook.lake, self.spec):
            return True
        if not self.waited:
            self.wait_for(QuarantineTrigger, SETTLE_SECONDS, "resume", poll_interval=POLL_SECONDS)
        self.log.warning("%s does not hold what the stream rejected", self.spec.quarantine_table)
        return False

    def resume(self, context: Context, event: dict[str, Any]) -> Any:
        self.waited = True
        return self.checked_work(context)
