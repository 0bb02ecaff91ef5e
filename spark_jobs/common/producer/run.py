"""A bounded producer: send each row of a plan's sources to the topic once.

Rows and their order depend on the source alone. An attempt reads from the topic the rows that an earlier one
sent, and sends the rest; the consumer flags duplicates of a zombie.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.clients.s3.requests import connect, read_json
from sluice.config import platform as platforms
from sluice.config import streams
from sluice.config.platform import Platform
from sluice.config.sending_rules import SendingRules, changed_message
from sluice.config.stream import SourceType, StreamSpec
from sluice.core.error_codes import ErrorCode
from sluice.core.offsets.deduplication import LoadedRows
from spark_jobs.common.kafka import keys
from spark_jobs.common.lake import deduplicate
from spark_jobs.common.producer.sent import sent_rows
from spark_jobs.common.spark import session
from spark_jobs.common.spark.process import log_to_stderr

log = logging.getLogger(__name__)

SINK = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.compression.type": "zstd",
    "kafka.linger.ms": "20",
    # Longer than a broker's restart; a failure after it fails the attempt, and the next one resumes.
    "kafka.delivery.timeout.ms": "300000",
    "kafka.request.timeout.ms": "30000",
}


# A job that reads objects.
OBJECTS = {"spark.python.daemon.module": "spark_jobs.common.producer.daemon"}
BATCH_BYTES = 512 * 1024


def sink(rules: SendingRules) -> dict[str, str]:
    """The options of Spark's Kafka sink but for the connection."""
    return SINK | {
        "kafka.batch.size": str(min(BATCH_BYTES, rules.max_message_bytes)),
        "kafka.max.request.size": str(rules.max_message_bytes),
    }


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
    """The input of :data:`Rows`: the ``plan`` of a load of the stream ``spec``. ``platform``: of the role
    producer; ``spark``: this process's; ``sent``: the rows on the topic."""

    spark: SparkSession
    spec: StreamSpec
    platform: Platform
    plan: Plan
    sent: LoadedRows


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


# The rows of a plan's sources, in frames that are sent in turn: `source_id`, `row`, `target_partition`,
# `sequence`, the record's `value`, optionally its `headers`.
Rows = Callable[[Job], Iterator[DataFrame]]


def main(name: str, rows: Rows, options: Sequence[str]) -> int:
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
        produce(spark, spec, platform, plan, rows)
    return 0


def produce(spark: SparkSession, spec: StreamSpec, platform: Platform, plan: Plan, rows: Rows) -> None:
    """Send the plan's rows that are not on the topic."""
    # With Spark's older path to the Kafka sink, Observation.get never returns.
    spark.conf.set("spark.sql.sources.useV1SourceList", "")
    sent = sent_rows(spark, spec, platform, plan.start_offsets)
    options = session.kafka_options(platform.kafka) | sink(plan.rules) | {"topic": spec.topic.name}
    for frame in rows(Job(spark, spec, platform, plan, sent)):
        # A join would change the rows' order, and no file's bounds would be conclusive.
        rest = frame.where(~deduplicate.is_loaded(sent, sent.sources, "source_id", "target_partition"))
        headers = [F.col("headers")] if "headers" in frame.columns else []
        rest.select(
            keys.key(plan.withheld).alias("key"),
            F.col("value"),
            F.col("target_partition").alias("partition"),
            *headers,
        ).write.format("kafka").options(**options).mode("append").save()
