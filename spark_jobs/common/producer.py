"""A bounded producer: the objects of a plan, once, to the topic, however often it is started.

The order and identity of the rows follow from the objects alone, and an attempt first reads from the topic
which of its rows an earlier one sent, so a retry sends the rest. What a zombie sends on top of that, the
consumer recognises (``repeats``).
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from sluice.model import platform as platforms
from sluice.model import stream as streams
from sluice.model.platform import Platform
from sluice.model.stream import StreamSpec
from spark_jobs.common import identity, session, tables
from spark_jobs.common.avro import AvroSchema, Schemas, encode, schema_headers
from spark_jobs.common.objects import SourceObject, header_line, read_json, read_lines
from spark_jobs.common.process import log_to_stderr
from spark_jobs.common.quarantine import quarantine_rows
from spark_jobs.common.topic import watermarks

log = logging.getLogger(__name__)

# lines, header line, schema, where (for messages) -> lines with `record` and `reason`
Parse = Callable[[SparkSession, DataFrame, str, AvroSchema, str], DataFrame]

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
    """What one run is to send, as the ledger pinned it. ``begin``: source id -> partition -> offset."""

    sources: tuple[SourceObject, ...]
    begin: dict[str, dict[int, int]]

    @classmethod
    def of(cls, document: dict[str, Any]) -> Plan:
        pending = [source for source in document["sources"] if not source["produced"]]
        names = ("source_id", "bucket", "key", "version_id", "lanes")
        return cls(
            tuple(SourceObject(**{name: source[name] for name in names}) for source in pending),
            {s["source_id"]: {int(p): int(o) for p, o in s["begin"].items()} for s in pending},
        )


def main(name: str, parse: Parse) -> int:
    """``--plan s3://…/plan.json``: send what the plan names. Returns the exit code; raises on failure."""
    arguments = argparse.ArgumentParser(description=f"Send the objects of a plan to the topic of {name}.")
    arguments.add_argument("--plan", required=True, help="the s3:// address of the run's plan.json")
    given = arguments.parse_args()
    log_to_stderr()
    spec, platform = streams.load(name), platforms.load("producer")
    plan = Plan.of(read_json(platform, given.plan))
    log.info("%d objects to send to %s", len(plan.sources), spec.topic.name)
    if plan.sources:
        lanes = max(source.lanes for source in plan.sources)
        spark = session.start(f"sluice {name} producer", platform, lanes)
        produce(spark, spec, platform, plan, parse)
        spark.stop()
    return 0


def produce(spark: SparkSession, spec: StreamSpec, platform: Platform, plan: Plan, parse: Parse) -> None:
    """Send the plan's rows that the topic does not hold yet, and quarantine those that are malformed."""
    # Spark's older path to the Kafka sink loses what is observed on the way (Observation.get never returns).
    spark.conf.set("spark.sql.sources.useV1SourceList", "")
    schema = Schemas.load(spec.schema_file).current
    by_header: dict[str, list[SourceObject]] = {}
    for source in plan.sources:
        by_header.setdefault(header_line(platform, source), []).append(source)
    parsed = reduce(
        DataFrame.unionByName,
        (
            parse(spark, read_lines(spark, group), header, schema, group[0].uri)
            for header, group in by_header.items()
        ),
    )
    counted = Observation()
    observed = parsed.observe(
        counted,
        F.count(F.lit(1)).alias("rows"),
        F.count("reason").alias("malformed"),
    )
    good = identity.with_lane_and_seq(observed.where(F.col("reason").isNull()))
    already = sent_rows(spark, spec, platform, plan)
    if already is not None:
        # The join scatters the lanes; out of their order, no file's bounds would tell which rows it holds.
        good = (
            good.join(already, ["source_id", "lane", "seq"], "left_anti")
            .repartition("source_id", "lane")
            .sortWithinPartitions("source_id", "lane", "seq")
        )
    good.select(
        identity.key().alias("key"),
        encode(F.col("record"), schema).alias("value"),
        F.col("lane").alias("partition"),
        schema_headers(schema).alias("headers"),
    ).write.format("kafka").options(**_kafka(platform, spec), **SINK).mode("append").save()
    rows_read, malformed = counted.get["rows"], counted.get["malformed"]
    log.info("read %d rows, %d of them malformed", rows_read, malformed)
    if malformed:
        tables.ensure_quarantine(spark, spec)
        quarantine_rows(spark, spec, parsed.where(F.col("reason").isNotNull()))


def sent_rows(spark: SparkSession, spec: StreamSpec, platform: Platform, plan: Plan) -> DataFrame | None:
    """The identities (source_id, lane, seq) that the topic holds already, or None where it can hold none.

    Looked for from the offsets at which the sources were first planned; what retention deleted since then
    is sent again, and the consumer knows it from the table.
    """
    bounds = watermarks(platform.kafka, spec.topic.name)
    begins = plan.begin.values()
    start = {
        partition: min(max(first, min(begin.get(partition, first) for begin in begins)), after)
        for partition, (first, after) in bounds.items()
    }
    if all(start[partition] == after for partition, (_, after) in bounds.items()):
        return None
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
    return (
        identity.with_identity(records)
        .where(F.col("_source_id").isin(sorted(plan.begin)))
        .select(
            F.col("_source_id").alias("source_id"),
            F.col("_kafka_partition").alias("lane"),
            (F.col("_kafka_offset") - F.col("_source_base")).alias("seq"),
        )
    )


def _kafka(platform: Platform, spec: StreamSpec) -> dict[str, str]:
    return {"topic": spec.topic.name} | {
        f"kafka.{key}": value for key, value in platform.kafka.java().items()
    }


def _offsets_json(spec: StreamSpec, offsets: dict[int, int]) -> str:
    return json.dumps({spec.topic.name: {str(partition): offset for partition, offset in offsets.items()}})
