"""A bounded producer: send each row of a plan's sources to the topic once.

Rows and their order depend on the source alone. An attempt reads from the topic the rows that an earlier one
sent, and sends the rest; the consumer flags duplicates of a zombie.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from sluice.clients.registry.client import RegistryClient
from sluice.clients.s3.requests import connect, read_json
from sluice.config import platform as platforms
from sluice.config import streams
from sluice.config.platform import Platform
from sluice.config.sending_rules import SendingRules, changed_message
from sluice.config.stream import SourceType, StreamSpec
from sluice.core.error_codes import ErrorCode
from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.registry.framing import frame
from sluice.core.registry.subjects import Naming, subject
from spark_jobs.common.kafka.avro import Schemas
from spark_jobs.common.producer.sending import Sending
from spark_jobs.common.producer.sent import sent_rows
from spark_jobs.common.spark import session
from spark_jobs.common.spark.process import log_to_stderr

log = logging.getLogger(__name__)

# A job that reads objects; it runs no code of the stream's own.
OBJECTS = {"spark.python.daemon.module": "spark_jobs.common.producer.daemon", **session.ARROW_MEMORY}


@dataclass(frozen=True)
class Plan:
    """The pending sources of one run, as in the ledger."""

    sources: tuple[Mapping[str, Any], ...]

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Plan:
        return cls(tuple(source for source in document["sources"] if not source["produced"]))

    @property
    def partition_count(self) -> int:
        return max(source["partition_count"] for source in self.sources)

    @property
    def rules(self) -> SendingRules:
        """By which all of them are planned; see :func:`check_rules`."""
        return SendingRules.from_document(self.sources[0]["rules"])

    @property
    def withheld(self) -> frozenset[str]:
        """Ids of the sources whose records the stream does not publish, until a change does."""
        return frozenset(source["source_id"] for source in self.sources if source.get("withheld"))

    @property
    def start_offsets(self) -> dict[str, dict[int, int]]:
        """Source id -> partition -> the first offset that its rows may have."""
        return {
            source["source_id"]: {int(p): offset for p, offset in source["start_offsets"].items()}
            for source in self.sources
        }


@dataclass(frozen=True)
class Job:
    """The input of :data:`Send`: the ``plan`` of a load of the stream ``spec``. ``platform``: of the role
    producer; ``spark``: this process's; ``sent``: the rows on the topic; ``frame``: what each value begins
    with, empty without a registry."""

    spark: SparkSession
    spec: StreamSpec
    platform: Platform
    plan: Plan
    sent: LoadedRows
    frame: bytes = b""

    def sending(self) -> Sending:
        """How its rows are sent, without headers."""
        plan, topic = self.plan, self.spec.topic.name
        return Sending(self.platform.kafka, topic, plan.rules, self.sent, plan.withheld, frame=self.frame)

    def headers(self, headers: tuple[tuple[str, bytes], ...]) -> tuple[tuple[str, bytes], ...]:
        """``headers`` of its rows that name their schema, unless the frame says the same."""
        return () if self.frame else headers


class RulesChanged(RuntimeError):
    """A source was planned by other rules than those of this process, or of the plan's other sources."""

    code = ErrorCode.RULES_CHANGED


def check_rules(spec: StreamSpec, plan: Plan) -> None:
    """Raises RulesChanged. Airflow has checked the rules of its own code and of the topic's limit."""
    rules = SendingRules.of(spec, plan.rules.max_message_bytes)
    for source in plan.sources:
        if differences := rules.differences(source["rules"]):
            name = source.get("key") or f"source {source['source_id']}"
            raise RulesChanged(
                changed_message(name, differences, "use one version of Sluice and of the stream")
            )


# Sends the rows of a plan's sources that are not on the topic.
Send = Callable[[Job], None]


def main(name: str, send: Send, options: Sequence[str]) -> int:
    """Send the sources of ``--plan s3://…/plan.json``; return the exit code. Raises on failure."""
    arguments = argparse.ArgumentParser(description=f"Send the sources of a plan to the topic of {name}.")
    arguments.add_argument("--plan", required=True, help="the s3:// address of the run's plan.json")
    args = arguments.parse_args(options)
    log_to_stderr()
    spec, platform = streams.load(name), platforms.load("producer")
    plan = Plan.from_document(read_json(connect(platform.s3), args.plan))
    log.info("plan read topic=%s sources=%d", spec.topic.name, len(plan.sources))
    if plan.sources:
        check_rules(spec, plan)
        settings = OBJECTS if spec.source is SourceType.CSV else {}
        spark = session.start(f"sluice {name} producer", platform, plan.partition_count, settings)
        # Not stopped: the end of the process does it, and need not wait a second for PySpark's own servers.
        produce(spark, spec, platform, plan, send)
    return 0


def produce(spark: SparkSession, spec: StreamSpec, platform: Platform, plan: Plan, send: Send) -> None:
    """Send the plan's rows that are not on the topic."""
    # Before anything is read: a load that is not registered sends nothing.
    frame = frame_of(spec, platform)
    sent = sent_rows(spark, spec, platform, plan.start_offsets)
    send(Job(spark, spec, platform, plan, sent, frame))


def frame_of(spec: StreamSpec, platform: Platform) -> bytes:
    """What the stream's values begin with: the id of its schema, which the task provision_topic registers.
    Raises UnknownSchema if it did not, RegistryRefused or RegistryUnreachable, ConfigError without a
    registry."""
    if not spec.topic.registry:
        return b""
    with closing(RegistryClient(platform.need_registry())) as registry:
        name = subject(Naming.TOPIC, spec.topic.name)
        schema_id = registry.id_of(name, Schemas.load(spec).current.text)
    log.info("schema id=%d topic=%s", schema_id, spec.topic.name)
    return frame(schema_id)
