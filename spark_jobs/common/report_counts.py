"""Counts per window, as frames: of new rows, what of them is late, and together with what was counted."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common.report_lateness import Found
from spark_jobs.common.report_source import Edge

COORDINATES = ("_kafka_partition", "_kafka_offset", "_kafka_timestamp")
WINDOW = ("window_start", "window_end")
_EDGES = "partition INT, bucket BIGINT, start BIGINT, until BIGINT, batch INT"


def numbered(spark: SparkSession, rows: DataFrame, bits: int, edges: Sequence[Edge]) -> DataFrame:
    """``rows`` with the number of their ``batch``; null for those that are of none."""
    pieces = [(edge.partition, edge.bucket, edge.start, edge.until, edge.batch) for edge in edges]
    known = F.broadcast(spark.createDataFrame(pieces, _EDGES))
    offset = F.col("_kafka_offset")
    place = (
        (F.col("_kafka_partition") == F.col("partition"))
        & (F.shiftright(offset, bits) == F.col("bucket"))
        & (offset >= F.col("start"))
        & (offset < F.col("until"))
    )
    return rows.join(known, place, "left").drop("partition", "bucket", "start", "until")


def per_window(rows: DataFrame, minutes: int, keys: Collection[str]) -> DataFrame:
    """Per batch, window and ``keys``: how many rows count, and the newest ``at`` and arrival of all of them.

    ``rows`` has ``batch``, ``at``, ``counts``, ``_kafka_timestamp`` and the keys.
    """
    window = F.window("at", f"{minutes} minutes")
    placed = rows.withColumns({"window_start": window["start"], "window_end": window["end"]})
    return placed.groupBy("batch", *WINDOW, *keys).agg(
        F.sum(F.col("counts").cast("bigint")).alias("counted"),
        F.max("at").alias("newest"),
        F.max("_kafka_timestamp").alias("arrived"),
    )


def found(counts: DataFrame) -> list[Found]:
    """The outline of :func:`per_window`'s frame; runs it."""
    outline = counts.groupBy("batch", *(F.unix_millis(name).alias(name) for name in WINDOW)).agg(
        F.unix_millis(F.max("newest")).alias("newest"),
        F.unix_millis(F.max("arrived")).alias("arrived"),
        F.sum("counted").alias("counted"),
    )
    return [Found(**row.asDict()) for row in outline.collect()]


def told_apart(
    spark: SparkSession, counts: DataFrame, late: Collection[tuple[int, int]], keys: Collection[str]
) -> DataFrame:
    """``edits`` and ``late`` per window and ``keys``, of those windows in which something counts."""
    rows = counts.where(F.col("counted") > 0)
    if late:
        marked = spark.createDataFrame(
            [(batch, start, True) for batch, start in late], "batch INT, window_ms BIGINT, is_late BOOLEAN"
        )
        rows = rows.withColumn("window_ms", F.unix_millis("window_start")).join(
            F.broadcast(marked), ["batch", "window_ms"], "left"
        )
    else:
        rows = rows.withColumn("is_late", F.lit(None).cast("boolean"))
    is_late = F.coalesce("is_late", F.lit(False))
    return rows.select(
        *WINDOW,
        *keys,
        F.when(is_late, 0).otherwise(F.col("counted")).alias("edits"),
        F.when(is_late, F.col("counted")).otherwise(0).alias("late"),
    )


def summed(frames: Sequence[DataFrame], keys: Collection[str]) -> DataFrame:
    """One row per window and ``keys``."""
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionByName(frame)
    return together.groupBy(*WINDOW, *keys).agg(F.sum("edits").alias("edits"), F.sum("late").alias("late"))
