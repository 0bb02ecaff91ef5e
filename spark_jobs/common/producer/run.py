"""A bounded producer: the sources of a plan, once, to the topic, however often it is started.

Which rows a source has, and in which order, follows from the source alone, and an attempt first reads from
the topic which of them an earlier one sent, so a retry sends the rest. What a zombie sends on top of that,
the consumer recognises (``repeats``). How rows are made is for ``source_objects`` and ``source_generated``.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.io.kafka import topic_offsets
from sluice.model.spec import platform as platforms
from sluice.model.spec import stream as streams
from sluice.model.spec.platform import Platform
from sluice.model.spec.stream import StreamSpec
from sluice.model.verification.deduplication import LoadedRows, loaded_from
from spark_jobs.common.kafka import keys
from spark_jobs.common.lake import deduplicate
from spark_jobs.common.producer.objects import read_json
from spark_jobs.common.spark import session
from spark_jobs.common.spark.process import log_to_stderr

log = logging.getLogger(__name__)

SINK = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.compression.type": "zstd",
    "kafka.batch.size": str(512 * 1024),
    "kafka.linger.ms": "20",
    # Long enough for a broker's restart; what still fails fails the attempt, and the next one resumes.
    "kafka.delivery.timeout.ms": "300000",
    "kafka.request.timeout.ms": "30000",
}


@dataclass(frozen=True)
class Plan:
    """What one run is still to send, as the ledger pinned it: each source as it stands there."""

    sources: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Plan:
        return cls(tuple(source for source in document["sources"] if not source["produced"]))

    @property
    def partition_count(self) -> int:
        """The most that a source has."""
        return max(source["partition_count"] for source in self.sources)

    @property
    def begin(self) -> dict[str, dict[int, int]]:
        """Source id -> partition -> the offset at or behind which its rows are."""
        return {
            source["source_id"]: {int(p): offset for p, offset in source["begin"].items()}
            for source in self.sources
        }


@dataclass(frozen=True)
class Job:
    """What a source's rows are made with. ``sent``: those of them that the topic holds already."""

    spark: SparkSession
    spec: StreamSpec
    platform: Platform
    plan: Plan
    sent: LoadedRows


# The rows of a plan's sources, in frames that are sent one after the other: with `source_id`, `row`, `lane`,
# `seq`, the record's `value`, and perhaps its `headers`. Each frame is asked for when the one before is sent.
Rows = Callable[[Job], Iterator[DataFrame]]


def main(name: str, rows: Rows, options: Sequence[str]) -> int:
    """``--plan s3://…/plan.json``: send what the plan names. Returns the exit code; raises on failure."""
    arguments = argparse.ArgumentParser(description=f"Send the sources of a plan to the topic of {name}.")
    arguments.add_argument("--plan", required=True, help="the s3:// address of the run's plan.json")
    given = arguments.parse_args(options)
    log_to_stderr()
    spec, platform = streams.load(name), platforms.load("producer")
    plan = Plan.of(read_json(platform, given.plan))
    log.info("%d sources to send to %s", len(plan.sources), spec.topic.name)
    if plan.sources:
        spark = session.start(f"sluice {name} producer", platform, plan.partition_count)
        produce(spark, spec, platform, plan, rows)
        spark.stop()
    return 0


def produce(spark: SparkSession, spec: StreamSpec, platform: Platform, plan: Plan, rows: Rows) -> None:
    """Send the plan's rows that the topic does not hold yet."""
    # Spark's older path to the Kafka sink loses what is observed on the way (Observation.get never returns).
    spark.conf.set("spark.sql.sources.useV1SourceList", "")
    sent = sent_rows(spark, spec, platform, plan)
    options = _kafka(platform, spec) | SINK
    for frame in rows(Job(spark, spec, platform, plan, sent)):
        # Left out by the numbers of those that are there: a join would scatter the rows, and out of their
        # order no file's bounds would tell which of them it holds.
        rest = frame.where(~_is_sent(sent))
        headers = [F.col("headers")] if "headers" in frame.columns else []
        rest.select(
            keys.key().alias("key"), F.col("value"), F.col("target_partition").alias("partition"), *headers
        ).write.format("kafka").options(**options).mode("append").save()


def _is_sent(sent: LoadedRows) -> Column:
    return reduce(
        Column.__or__,
        (
            (F.col("source_id") == source)
            & (F.col("target_partition") == target_partition)
            & deduplicate.in_ranges(F.col("sequence"), sent[source][target_partition])
            for source in sorted(sent.sources)
            for target_partition in sent[source].partitions
        ),
        F.lit(False),
    )


def sent_rows(spark: SparkSession, spec: StreamSpec, platform: Platform, plan: Plan) -> LoadedRows:
    """Source id -> lane -> the ``sequence`` that the topic holds already.

    Looked for from the offsets at which the sources were first planned; what retention deleted since then
    is sent again, and the consumer knows it from the table.
    """
    bounds = topic_offsets(platform.kafka, spec.topic.name)
    begins = plan.begin.values()
    start = {
        partition: min(max(first, min(begin.get(partition, first) for begin in begins)), after)
        for partition, (first, after) in bounds.items()
    }
    if all(start[partition] == after for partition, (_, after) in bounds.items()):
        return LoadedRows()
    log.info(
        "an earlier attempt, or another load, wrote to the topic; looking for rows that are there already"
    )
    records = (
        spark.read.format("kafka")
        .options(**{key: value for key, value in _kafka(platform, spec).items() if key != "topic"})
        .option("subscribe", spec.topic.name)
        .option("startingOffsets", _offsets_json(spec, start))
        .option("endingOffsets", _offsets_json(spec, {p: after for p, (_, after) in bounds.items()}))
        .option("failOnDataLoss", "true")
        .load()
        .select(
            "key",
            F.col("partition").alias("_kafka_partition"),
            F.col("offset").alias("_kafka_offset"),
        )
    )
    ours = keys.with_identity(records).where(F.col("_source_id").isin(sorted(plan.begin)))
    found = loaded_from(deduplicate.runs(ours))
    for source, partition_count in found.sources.items():
        log.info(
            "%d rows of source %s are on the topic already: %s",
            partition_count.count,
            source,
            partition_count,
        )
    return found


def _kafka(platform: Platform, spec: StreamSpec) -> dict[str, str]:
    return {"topic": spec.topic.name} | {
        f"kafka.{key}": value for key, value in platform.kafka.java().items()
    }


def _offsets_json(spec: StreamSpec, offsets: dict[int, int]) -> str:
    return json.dumps({spec.topic.name: {str(partition): offset for partition, offset in offsets.items()}})
