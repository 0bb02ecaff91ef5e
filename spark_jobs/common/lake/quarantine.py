"""What could not be carried: kept with its bytes, its place and the reason, never dropped."""

from __future__ import annotations

import numpy
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.model.spec.platform import CATALOG
from sluice.model.spec.stream import StreamSpec
from sluice.model.verification.ranges import IntervalSet, OffsetRanges

COLUMNS = (
    "stage",
    "reason",
    "_kafka_partition",
    "_kafka_offset",
    "_kafka_timestamp",
    "key",
    "value",
    "object",
    "line",
    "_source_id",
    "_source_row",
    "quarantined_at",
)


def quarantine_records(
    spark: SparkSession, spec: StreamSpec, bad: DataFrame, ranges: OffsetRanges
) -> OffsetRanges:
    """Put a batch's bad records into the quarantine; returns their coordinates.

    A record that an earlier try of the same offsets put there is not put there again. ``bad`` has the
    coordinates, ``key``, ``value``, identity and ``reason``.
    """
    named = bad.select(
        F.lit("consumer").alias("stage"),
        "reason",
        "_kafka_partition",
        "_kafka_offset",
        "_kafka_timestamp",
        "key",
        "value",
        F.lit(None).cast("string").alias("object"),
        F.lit(None).cast("bigint").alias("line"),
        "_source_id",
        "_source_row",
        F.current_timestamp().alias("quarantined_at"),
    )
    lowest = min(pairs.pairs()[0][0] for pairs in ranges.partitions.values())
    there = spark.table(f"{CATALOG}.{spec.quarantine_table}").where(
        (F.col("stage") == "consumer") & (F.col("_kafka_offset") >= lowest)
    )
    _append_new(spec, named, there, ["_kafka_partition", "_kafka_offset"])
    pairs = named.select("_kafka_partition", "_kafka_offset").toArrow()
    partitions, offsets = (column.to_numpy() for column in pairs.columns)
    return OffsetRanges(
        {
            int(partition): IntervalSet.of_values(offsets[partitions == partition].tolist())
            for partition in numpy.unique(partitions)
        }
    )


def quarantine_rows(spark: SparkSession, spec: StreamSpec, bad: DataFrame) -> None:
    """Put source rows that the producer refused into the quarantine, each once however often it is tried.

    ``bad`` has ``object``, ``source_id``, ``row``, ``line``, ``text`` and ``reason``.
    """
    named = bad.select(
        F.lit("producer").alias("stage"),
        "reason",
        F.lit(None).cast("int").alias("_kafka_partition"),
        F.lit(None).cast("bigint").alias("_kafka_offset"),
        F.lit(None).cast("timestamp").alias("_kafka_timestamp"),
        F.lit(None).cast("binary").alias("key"),
        F.col("text").cast("binary").alias("value"),
        "object",
        "line",
        F.col("source_id").alias("_source_id"),
        F.col("row").alias("_source_row"),
        F.current_timestamp().alias("quarantined_at"),
    )
    there = spark.table(f"{CATALOG}.{spec.quarantine_table}").where(F.col("stage") == "producer")
    _append_new(spec, named, there, ["_source_id", "_source_row"])


def _append_new(spec: StreamSpec, rows: DataFrame, there: DataFrame, identity: list[str]) -> None:
    new = rows.join(there.select(identity), identity, "left_anti").select(*COLUMNS)
    new.coalesce(1).writeTo(f"{CATALOG}.{spec.quarantine_table}").append()
