"""Step 3 of a load of generated rows: a bounded Spark job makes and sends them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sluice.hooks import plan as plans
from sluice.operators.produce import ProduceOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.keys import Document


class ProduceGeneratedOperator(ProduceOperator):
    """Send the rows that the run's parameters stand for, once; return as :class:`ProduceOperator` does.

    The parameters are the form's; what is left empty there is pinned at the first attempt: ``begin`` as the
    hour of the run's logical date (of now, where it has none), ``seed`` as one of the run's own. The same
    parameters are the same source, so a second run with them sends nothing again.
    """

    def _pin(self, context: Context) -> Document:
        return plans.pin_generated(
            self.ledger,
            self.platform_hook.kafka,
            run_id=context["run_id"],
            stream=self.stream,
            topic=self.spec.topic.name,
            params=dict(context["params"]),
            moment=context.get("logical_date") or datetime.now(UTC),
        )
