"""Task `produce` of CSV and generated streams: a bounded Spark job sends the plan's rows to the topic."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.hooks import load_plan as plans
from sluice.hooks.failures import final_failures
from sluice.model.spec.ledger import Document, run_key
from sluice.operators.spark_job import SparkJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class ProduceOperator(SparkJobOperator):
    """Send the sources of the run's plan, once; return their offset ranges.

    The first attempt pins the plan in the ledger. The job is not started if every source was sent before, so
    the task can be cleared, retried and run twice. An earlier attempt may still be alive: the consumer
    quarantines the rows that it sends again.
    """

    does = "sends every record of the source to the topic, each with its identity"
    fails_if = "the source is missing, corrupt or refused"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="producer", **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        with final_failures():
            run_id, kafka = context["run_id"], self.platform_hook.kafka
            topic, params = self.spec.topic.name, dict(context["params"])
            plan = plans.pin(
                self.ledger,
                kafka,
                lambda: self._sources(context, params),
                run_id=run_id,
                stream=self.stream,
                topic=topic,
                params=params,
            )
            pending = plans.pending(self.ledger, plan)
            if pending:
                for source in pending:
                    self.log.info("pending: %s source_id=%s", plans.name_of(source), source["source_id"])
                self.submit(context, ["--plan", self.ledger.uri(run_key(run_id, "plan"))])
                ends = kafka.ends(topic)
                for source in pending:
                    plans.complete_source(self.ledger, source, ends, run_id)
            else:
                self.log.info("job not started: all %d sources were sent before", len(plan["sources"]))
            return plans.summary(self.ledger, run_id)

    def _sources(self, context: Context, params: dict[str, Any]) -> list[Document]:
        if self.spec.generator is None:
            return plans.object_sources(self.platform_hook.source, params)
        moment = context.get("logical_date") or datetime.now(UTC)
        return plans.generated_source(self.spec.generator, context["run_id"], params, moment)
