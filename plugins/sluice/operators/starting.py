"""The frame of a load's steps that see to it that a part of the stream runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from sluice.model.health.process import ENDED
from sluice.operators.base import PartOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.model.health.process import ProcessStatus


class StartingOperator(PartOperator):
    """A step about ``part`` of the stream. Its start is an event of the part's history."""

    def refuse_held(self) -> None:
        """Raises AirflowFailException where somebody holds it: another try would find the same."""
        held = self.history.held()
        if held is not None:
            raise AirflowFailException(
                f"the {self.part} of {self.stream} is on hold by {held.get('who')} since {held['at']}: "
                f"{held.get('why') or 'no reason given'}; release it: trigger {self.stream}_stream with "
                "action start"
            )

    def ensure_runs(self, context: Context) -> bool:
        """Start the component unless it runs; whether this run started it. Raises as :meth:`refuse_held`."""
        self.refuse_held()
        process = self.platform_hook.runtime.status(self.program)
        self.log.info("%s", process.sentence())
        return process.state in ENDED and self.start(context, process)

    def start(self, context: Context, process: ProcessStatus) -> bool:
        """Start what is as ``process`` says; False where another run was faster."""
        if not self.platform_hook.runtime.start(self.program):
            self.log.info("%s was started by another run", self.program)
            return False
        self.log.info("started %s", self.program)
        who = f"load {context['run_id']}"
        document = {"who": who, "why": process.sentence(), "run": context["run_id"], "asked": True}
        self.history.record("start", document, datetime.now(UTC))
        return True
