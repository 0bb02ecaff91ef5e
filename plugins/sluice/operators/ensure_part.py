"""A step of a load: one of the stream's other processes runs."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from sluice.clients.keys import history_name
from sluice.model.process import ENDED
from sluice.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.history import History
    from sluice.model.stream import Part


class EnsurePartOperator(StreamOperator):
    """Start ``part`` of the stream if it does not run. Whether it does its work, a later step waits to see.

    Red at once where somebody holds it. A second start is never made: two runs at once find one process. A
    start is an event of the part's history.
    """

    def __init__(self, *, part: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.part_name = part

    @cached_property
    def part(self) -> Part:
        """Raises ConfigError for a part that the stream does not have."""
        return self.spec.part(self.part_name)

    @cached_property
    def history(self) -> History:
        return self.platform_hook.history(history_name(self.stream, self.part.name))

    def work(self, context: Context) -> dict[str, Any]:
        program, runtime = self.part.program, self.platform_hook.runtime
        held = self.history.held()
        if held is not None:
            raise AirflowFailException(
                f"the {self.part_name} of {self.stream} is on hold by {held.get('who')} since {held['at']}: "
                f"{held.get('why') or 'no reason given'}; release it: trigger {self.stream}_stream with "
                "action start"
            )
        process = runtime.status(program)
        started = process.state in ENDED and runtime.start(program)
        if started:
            who = f"load {context['run_id']}"
            document = {"who": who, "why": process.sentence(), "run": context["run_id"], "asked": True}
            self.history.record("start", document, datetime.now(UTC))
        self.log.info("%s%s", process.sentence(), "; started it" if started else "")
        return {"program": program, "started": started}
