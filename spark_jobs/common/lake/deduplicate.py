"""Rows that were sent again: found in a batch, and told apart from their first coming."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sluice.model.verification.deduplication import LoadedRows, Run
from sluice.model.verification.ranges import IntervalSet


def runs(rows: DataFrame) -> list[Run]:
    """The runs of a batch's rows, read from the rows (three columns of them).

    However the records of several producers are mixed, there are as many runs as there are gaps in
    ``sequence``.
    """
    sequence = F.col("_kafka_offset") - F.col("_source_base_offset")
    identified = rows.where(F.col("_source_id").isNotNull()).select(
        "_source_id", "_kafka_partition", sequence.alias("sequence")
    )
    order = Window.partitionBy("_source_id", "_kafka_partition").orderBy("sequence")
    found = (
        identified.withColumn("island", F.col("sequence") - F.dense_rank().over(order))
        .groupBy("_source_id", "_kafka_partition", "island")
        .agg(F.min("sequence"), F.max("sequence") + 1, F.count("*"))
        .drop("island")
    )
    return sorted(Run(*row) for row in found.collect())


def named(rows: DataFrame, seen: LoadedRows, suspected: set[str]) -> DataFrame:
    """``rows`` with a ``reason`` on every good row of a suspected source that came before.

    Before: in the published table (``seen``), or at a lower offset of this batch. The rows stay in the
    tasks they are in (one for each partition of the topic), because what is found is joined by broadcast.
    """
    sequence = F.col("_kafka_offset") - F.col("_source_base_offset")
    identity = Window.partitionBy("_kafka_partition", "_source_id", "sequence").orderBy("_kafka_offset")
    candidates = rows.where(F.col("_source_id").isin(sorted(suspected)) & F.col("reason").isNull()).select(
        "_kafka_partition", "_kafka_offset", "_source_id", sequence.alias("sequence")
    )
    published = reduce(
        Column.__or__,
        (
            (F.col("_source_id") == source)
            & (F.col("_kafka_partition") == partition)
            & within(F.col("sequence"), ranges)
            for source in sorted(suspected)
            for partition, ranges in seen[source].partitions.items()
        ),
        F.lit(False),
    )
    earlier = F.lag("_kafka_offset").over(identity)
    duplicate = F.when(published, F.lit("duplicate: this row of its source is in the table already")).when(
        earlier.isNotNull(), F.concat(F.lit("duplicate: this row is also at offset "), earlier.cast("string"))
    )
    found = (
        candidates.withColumn("duplicate", duplicate)
        .where(F.col("duplicate").isNotNull())
        .select("_kafka_partition", "_kafka_offset", "duplicate")
    )
    joined = rows.join(F.broadcast(found), ["_kafka_partition", "_kafka_offset"], "left")
    return joined.withColumn("reason", F.coalesce("reason", "duplicate")).drop("duplicate")


def within(column: Column, ranges: IntervalSet) -> Column:
    """Whether an integer column lies in the ranges."""
    return reduce(
        Column.__or__, ((column >= start) & (column < until) for start, until in ranges), F.lit(False)
    )
