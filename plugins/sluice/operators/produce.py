"""Step 3 of a load: a bounded Spark job sends the plan's rows to the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from sluice.clients.keys import Document, run_key
from sluice.hooks import plan as plans
from sluice.hooks.failures import final_failures, is_hopeless, last_reason
from sluice.hooks.stream import StreamMixin

if TYPE_CHECKING:
    from airflow.sdk import Context


class ProduceOperator(StreamMixin, SparkSubmitOperator):
    """Send what the run's plan names, once; return its range set and what each source came to.

    The plan is pinned in the ledger at the first attempt. The job is not started when every source was sent
    to its end before, so the task can be cleared, retried and run twice. An earlier attempt may still be
    alive: rows that it sends too are recognised by the consumer and do not become visible.

    ``durable`` is off: in cluster mode the provider would take a job that ended before a *clear* for the
    answer, and whether rows must be sent is for the ledger to say. No secret is in argv: the job reads the
    platform file of role ``producer``.
    """

    def __init__(
        self, *, stream: str, role: str = "airflow", conn_id: str = "sluice_spark", **kwargs: Any
    ) -> None:
        super().__init__(conn_id=conn_id, durable=False, name=f"sluice-{stream}-producer", **kwargs)
        self.stream = stream
        self.role = role

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        with final_failures():
            run_id = context["run_id"]
            hook = self.platform_hook
            plan = plans.pin(
                self.ledger,
                hook.source,
                hook.kafka,
                run_id=run_id,
                stream=self.stream,
                topic=self.spec.topic.name,
                params=dict(context["params"]),
            )
            waiting = plans.pending(self.ledger, plan)
            if waiting:
                self._submit(context, run_id, waiting)
                ends = hook.kafka.ends(self.spec.topic.name)
                for source in waiting:
                    plans.settle(self.ledger, source, ends, run_id)
            else:
                self.log.info("all %d sources were sent before; the job is not started", len(plan["sources"]))
            return self._summary(run_id, {source["source_id"] for source in waiting})

    def _submit(self, context: Context, run_id: str, waiting: list[Document]) -> None:
        self._check_connection()
        self.application = str(self.spec.producer_script)
        self.application_args = ["--plan", self.ledger.uri(run_key(run_id, "plan"))]
        for source in waiting:
            self.log.info(
                "to send: s3://%s/%s, version %s, %d bytes, source %s",
                source["bucket"], source["key"], source["version_id"], source["size"], source["source_id"],
            )  # fmt: skip
        try:
            super().execute(context)
        except AirflowException as error:
            reason = last_reason(str(error).splitlines())
            kind = AirflowFailException if is_hopeless(reason) else AirflowException
            raise kind(f"the producer of stream {self.stream!r} failed: {reason}") from error

    def _check_connection(self) -> None:
        """The provider takes an unknown connection for a YARN cluster; here it is an error."""
        try:
            BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException as error:
            raise AirflowFailException(
                f"connection {self._conn_id!r} does not exist, so there is no Spark to submit to; add it in "
                f"Airflow under Admin, or set AIRFLOW_CONN_{self._conn_id.upper()}"
            ) from error

    def _summary(self, run_id: str, sent_now: set[str]) -> dict[str, Any]:
        plan, documents = plans.produced(self.ledger, run_id)
        total = plans.offsets_of_all(documents)
        sources = []
        for source, document in zip(plan["sources"], documents, strict=True):
            ranges = plans.offsets_of(document)
            sources.append(
                {
                    "object": f"s3://{source['bucket']}/{source['key']}",
                    "version_id": source["version_id"],
                    "source_id": source["source_id"],
                    "offsets": ranges.count,
                    "sent_now": source["source_id"] in sent_now,
                }
            )
            self.log.info("s3://%s/%s: %s", source["bucket"], source["key"], ranges)
        return {
            "topic": plan["topic"],
            "records": total.count,
            "ranges": {str(p): [list(pair) for pair in ranges] for p, ranges in total.partitions.items()},
            "sources": sources,
        }

    def on_kill(self) -> None:
        # Before the job is submitted there is nothing to kill, and the provider would look for a connection.
        if self._hook is not None:
            super().on_kill()
