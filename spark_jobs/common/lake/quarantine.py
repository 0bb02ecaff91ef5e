"""Rejected records in the quarantine table: raw bytes, origin and reason."""

from __future__ import annotations

import numpy
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.model.spec.platform import CATALOG
from sluice.model.spec.stream import StreamSpec
from sluice.model.verification.ranges import IntervalSet, OffsetRanges


def quarantine_records(
    spark: SparkSession, spec: StreamSpec, bad: DataFrame, ranges: OffsetRanges
) -> OffsetRanges:
    """Quarantine a batch's rejected records, each once over all attempts; return their offsets.

    ``bad`` has record offsets, ``key``, ``value``, source columns and ``reason``.
    """
    lowest = min(pairs.pairs()[0][0] for pairs in ranges.partitions.values())
    identity = ["_kafka_partition", "_kafka_offset"]
    columns = [*identity, "_kafka_timestamp", "key", "value", "_source_id", "_source_row", "reason"]
    _append_new(spark, spec, bad.select(*columns), "consumer", identity, F.col("_kafka_offset") >= lowest)
    partitions, offsets = (column.to_numpy() for column in bad.select(*identity).toArrow().columns)
    return OffsetRanges(
        {
            int(partition): IntervalSet.of_values(offsets[partitions == partition].tolist())
            for partition in numpy.unique(partitions)
        }
    )


def quarantine_rows(spark: SparkSession, spec: StreamSpec, bad: DataFrame) -> None:
    """Quarantine source rows that the producer rejected, each once over all attempts.

    ``bad`` has ``object``, ``source_id``, ``row``, ``line``, ``text`` and ``reason``.
    """
    rows = bad.select(
        F.col("text").cast("binary").alias("value"),
        "object",
        "line",
        F.col("source_id").alias("_source_id"),
        F.col("row").alias("_source_row"),
        "reason",
    )
    _append_new(spark, spec, rows, "producer", ["_source_id", "_source_row"], F.lit(True))


def _append_new(
    spark: SparkSession, spec: StreamSpec, rows: DataFrame, stage: str, identity: list[str], within: Column
) -> None:
    # Columns missing in ``rows`` are null.
    table = spark.table(f"{CATALOG}.{spec.quarantine_table}")
    existing = table.where((F.col("stage") == stage) & within).select(identity)
    staged = rows.withColumns({"stage": F.lit(stage), "quarantined_at": F.current_timestamp()})
    new = staged.join(existing, identity, "left_anti").select(
        *(
            F.col(field.name)
            if field.name in staged.columns
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in table.schema
        )
    )
    new.coalesce(1).writeTo(f"{CATALOG}.{spec.quarantine_table}").append()
