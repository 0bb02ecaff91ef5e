"""The frame of a load's steps that see to it that a part of the stream runs."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from sluice.clients.keys import history_name
from sluice.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.history import History
    from sluice.model.process import ProcessStatus


class StartingOperator(StreamOperator):
    """A step about ``part`` of the stream. Its start is an event of the part's history."""

    def __init__(self, *, part: str = "consumer", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.part = part

    @cached_property
    def program(self) -> str:
        """supervisord's. Raises ConfigError for a part that the stream does not have."""
        return self.spec.part(self.part).program

    @cached_property
    def history(self) -> History:
        return self.platform_hook.history(history_name(self.stream, self.part))

    def refuse_held(self) -> None:
        """Raises AirflowFailException where somebody holds it: another try would find the same."""
        held = self.history.held()
        if held is not None:
            raise AirflowFailException(
                f"the {self.part} of {self.stream} is on hold by {held.get('who')} since {held['at']}: "
                f"{held.get('why') or 'no reason given'}; release it: trigger {self.stream}_stream with "
                "action start"
            )

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
