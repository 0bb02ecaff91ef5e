"""Step 3 of a load: a bounded Spark job sends the plan's rows to the topic."""

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
    """Send what the run's plan names, once; return its range set and what each source came to.

    The first attempt pins the plan in the ledger: the versions of the objects, or the generator's parameters
    (``begin`` is by default the hour of the run's logical date, ``seed`` the run's own). The job is not
    started when every source was sent to its end before, so the task can be cleared, retried and run twice.
    An earlier attempt may still be alive: rows that it sends too are recognised by the consumer and do not
    become visible.
    """

    does = "sends every record of the source to the topic, each with its identity"
    fails_if = "the source is missing, damaged or refused"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="producer", **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        with final_failures():
            run_id = context["run_id"]
            hook = self.platform_hook
            plan = self._pin(context)
            waiting = plans.pending(self.ledger, plan)
            if waiting:
                self._submit(context, run_id, waiting)
                ends = hook.kafka.ends(self.spec.topic.name)
                for source in waiting:
                    plans.complete_source(self.ledger, source, ends, run_id)
            else:
                self.log.info("all %d sources were sent before; the job is not started", len(plan["sources"]))
            return self._summary(run_id, {source["source_id"] for source in waiting})

    def _pin(self, context: Context) -> Document:
        run = {"run_id": context["run_id"], "stream": self.stream, "topic": self.spec.topic.name}
        params, kafka = dict(context["params"]), self.platform_hook.kafka
        if self.spec.generator is None:
            return plans.pin(self.ledger, self.platform_hook.source, kafka, params=params, **run)
        moment = context.get("logical_date") or datetime.now(UTC)
        return plans.pin_generated(
            self.ledger, kafka, generator=self.spec.generator, params=params, moment=moment, **run
        )

    def _submit(self, context: Context, run_id: str, waiting: list[Document]) -> None:
        for source in waiting:
            more = {key: source[key] for key in ("version_id", "size", "parameters") if key in source}
            self.log.info("to send: %s, source %s, %s", plans.name_of(source), source["source_id"], more)
        self.submit(context, ["--plan", self.ledger.uri(run_key(run_id, "plan"))])

    def _summary(self, run_id: str, sent_now: set[str]) -> dict[str, Any]:
        plan, documents = plans.produced(self.ledger, run_id)
        total = plans.offsets_of_all(documents)
        sources = []
        for source, document in zip(plan["sources"], documents, strict=True):
            ranges = plans.offsets_of(document)
            sources.append(
                {
                    **plans.identity_of(source),
                    "source_id": source["source_id"],
                    "offsets": ranges.count,
                    "sent_now": source["source_id"] in sent_now,
                }
            )
            self.log.info("%s: %s", plans.name_of(source), ranges)
        return {
            "topic": plan["topic"],
            "records": total.count,
            "ranges": {str(p): [list(pair) for pair in ranges] for p, ranges in total.partitions.items()},
            "sources": sources,
        }
