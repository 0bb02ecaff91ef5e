"""Task `produce` of CSV and generated streams: a bounded Spark job sends the plan's rows to the topic."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException

from sluice.airflow import forms
from sluice.airflow.operators.base import triggered_at
from sluice.airflow.operators.jobs.spark_job import SparkJobOperator
from sluice.config.csv_reading import reading_of
from sluice.config.sending_rules import SendingRules
from sluice.config.stream import SourceType
from sluice.core.csv.form import SUFFIXES
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Refused
from sluice.core.json_record import Document
from sluice.core.processes import java
from sluice.ledger.keys import run_key
from sluice.loads.known.index import ObjectContents
from sluice.loads.known.verified import VerifiedSources, without_verified
from sluice.loads.planning.plan import LoadPlanner
from sluice.loads.sending import partly_sent, produced
from sluice.loads.sources.base import Source
from sluice.loads.sources.csv_object import select_objects
from sluice.loads.sources.generator import GeneratorSource

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.s3.objects import Bucket


def java_options(source: SourceType) -> dict[str, str]:
    """Spark's configuration of the JVM of a job that sends sources of this kind."""
    return java.PLANNING if source is SourceType.CSV else {}


class ProduceOperator(SparkJobOperator):
    """Send the sources of the run's plan, once; the ledger has their offset ranges.

    The first attempt pins the plan in the ledger, without the sources that an earlier load verified (unless
    param ``verify_again``). The job is not started if every source was sent before, so
    the task can be cleared, retried and run twice. An earlier attempt may still be alive: the consumer
    quarantines the rows that it sends again.
    """

    does = "sends every record of the source to the topic, each with its identity"
    fails_if = "the source is missing, corrupt or refused, or the run id has an earlier plan"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="producer", **kwargs)

    def work(self, context: Context) -> dict[str, Any]:
        kafka, topic = self.platform_hook.kafka, self.spec.topic.name
        plan = self.plan(context)
        self._name_again(plan)
        address = self.ledger.uri(run_key(plan["run_id"], "plan"))
        self.submitted["plan"] = address
        # Usually the first tells; the job and `complete` leave out what is sent.
        pending = next(produced.pending(self.ledger, plan), None)
        if pending:
            partly_sent.check_rules(plan, self.rules(), self.stream)
            self.log.info("pending: %s source_id=%s", pending.name, pending.source_id)
            self.conf = {**(self.conf or {}), **java_options(self.spec.source)}
            topic_id = kafka.describe(topic).id
            self._send(context, plan, address)
            self._check_same(topic, topic_id, pending)
        else:
            self.log.info(
                "job not started: all %d sources were sent before, %d were verified before",
                len(plan["sources"]),
                plan["verified_before"]["count"],
            )
        return produced.summary(self.ledger, plan, produced.complete(self.ledger, plan, kafka.ends(topic)))

    def plan(self, context: Context) -> Document:
        """The load's plan, pinned now if there is none."""
        planner = self.planner(forms.defaults(self.spec))
        return planner.pin(
            context["run_id"],
            context["params"],
            lambda params: self._sources(context, params),
            triggered_at(context),
        )

    def planner(self, defaults: Mapping[str, Any]) -> LoadPlanner:
        return LoadPlanner.of(self.platform_hook, self.spec, self.ledger, defaults, self.rules)

    def _name_again(self, plan: Document) -> None:
        if plan.get("left_out"):
            self.log.warning(
                "objects left out, since their names do not end in %s: %s",
                ", ".join(SUFFIXES),
                plan["left_out"],
            )
        for one in plan.get("uploaded_again", []):
            self.log.info(
                "uploaded again, same content as a version that was planned before: s3://%s/%s version=%s "
                "same_as=%s source_id=%s reverted=%s",
                one["bucket"], one["key"], one["version_id"], one["loaded_version_id"], one["same_as"],
                one["is_reverted"],
            )  # fmt: skip

    def _check_same(self, topic: str, topic_id: str, pending: Source) -> None:
        """Raises Refused if the topic was created again meanwhile: what was sent before is gone, and a
        producer goes on as if nothing had been."""
        now = self.platform_hook.kafka.describe(topic).id
        if now != topic_id:
            raise Refused(
                f"topic {topic!r} was created again while rows were sent: its id was {topic_id}, and is "
                f"{now}. Fix: {pending.send_again()}",
                ErrorCode.SOURCE_TOPIC_CHANGED,
            )

    def rules(self) -> SendingRules:
        """Those by which rows become records now."""
        kafka, topic = self.platform_hook.kafka, self.spec.topic.name
        return SendingRules.of(self.spec, kafka.max_message_bytes(topic))

    def _send(self, context: Context, plan: Document, address: str) -> None:
        # Last, and also of a plan that is new: any attempt may hang while another run plans and sends.
        contents = ObjectContents(self.ledger, self._source(), self._verified())
        partly_sent.check_resumed(contents, plan)
        try:
            self.submit(context, ["--plan", address])
        except AirflowException as error:
            hint = partly_sent.failure_hint(plan, self._ends(), self.stream)
            raise type(error)(f"{error}{hint}") from None

    def _ends(self) -> dict[int, int] | None:
        """The topic's end offsets; None if Kafka, which may have failed the job, does not tell."""
        try:
            return self.platform_hook.kafka.ends(self.spec.topic.name)
        except ClientError as error:
            self.log.warning("end offsets not read: %s", error)
            return None

    def _verified(self) -> VerifiedSources:
        return VerifiedSources(self.ledger, self.platform_hook.lake, self.spec.table)

    def _source(self) -> Bucket:
        return self.platform_hook.source.within(self.spec.source_prefix, reading_of(self.spec))

    def _sources(self, context: Context, params: Document) -> list[Document]:
        verified = self._verified()
        if self.spec.source is SourceType.CSV:
            kafka, topic = self.platform_hook.kafka, self.spec.topic.name
            check = partial(partly_sent.check_others, ends=cache(lambda: kafka.ends(topic)))
            return select_objects(self.ledger, self._source(), params, verified, check)
        if self.spec.generator is None:
            raise ValueError(f"records of {self.spec.source} are sent by another operator")
        moment = context.get("logical_date") or datetime.now(UTC)
        generated = GeneratorSource.from_params(self.spec.generator, context["run_id"], params, moment)
        return without_verified([generated.document], None if params.get("verify_again") else verified)
