"""A step of a load: one of the stream's other processes runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
        return {"program": self.program, "started": self.ensure_runs(context)}
