"""A step of a load: one of the stream's other processes runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.model.process import ENDED
from sluice.operators.starting import StartingOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class EnsurePartOperator(StartingOperator):
    """Start the part if it does not run. Whether it does its work, a later step waits to see.

    Red at once where somebody holds it. A second start is never made: two runs at once find one process.
    """

    does = "starts the component unless it runs"
    fails_if = "it is held"

    def work(self, context: Context) -> dict[str, Any]:
        self.refuse_held()
        process = self.platform_hook.runtime.status(self.program)
        self.log.info("%s", process.sentence())
        started = process.state in ENDED and self.start(context, process)
        return {"program": self.program, "started": started}
