"""Duplicate rows of a batch: detected and flagged."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.offsets.quarantine import DUPLICATE
from spark_jobs.common.spark.columns import in_ranges


def _sequence() -> Column:
    return (F.col("_kafka_offset") - F.col("_source_base_offset")).alias("sequence")


def flag_duplicates(rows: DataFrame, loaded: LoadedRows, sources: set[str]) -> DataFrame:
    """Give a ``reason`` to every good row of ``sources`` that is already in the published table (``loaded``)
    or at a lower offset of this batch.

    Duplicates are joined by broadcast, so rows stay in their tasks, one per topic partition.
    """
    identity = Window.partitionBy("_kafka_partition", "_source_id", "sequence").orderBy("_kafka_offset")
    candidates = rows.where(F.col("_source_id").isin(sorted(sources)) & F.col("reason").isNull()).select(
        "_kafka_partition", "_kafka_offset", "_source_id", _sequence()
    )
    published = is_loaded(loaded, sources, "_source_id", "_kafka_partition")
    earlier = F.lag("_kafka_offset").over(identity)
    duplicate = F.when(published, F.lit(f"{DUPLICATE} this row of its source is in the table already")).when(
        earlier.isNotNull(),
        F.concat(F.lit(f"{DUPLICATE} this row is also at offset "), earlier.cast("string")),
    )
    duplicates = (
        candidates.withColumn("duplicate", duplicate)
        .where(F.col("duplicate").isNotNull())
        .select("_kafka_partition", "_kafka_offset", "duplicate")
    )
    joined = rows.join(F.broadcast(duplicates), ["_kafka_partition", "_kafka_offset"], "left")
    return joined.withColumn("reason", F.coalesce("reason", "duplicate")).drop("duplicate")


def flag_removed(rows: DataFrame, removed: Iterable[tuple[str, int]]) -> DataFrame:
    """Give a ``reason`` to every good row that a change removed on purpose: ``removed`` has (source id, row
    number)."""
    names = ["_source_id", "_source_row"]
    gone = rows.sparkSession.createDataFrame(sorted(removed), "_source_id string, _source_row bigint")
    marked = rows.join(F.broadcast(gone.withColumn("gone", F.lit(True))), names, "left")
    why = F.when(F.col("gone"), F.lit(f"{DUPLICATE} a change removed this row of its source"))
    return marked.withColumn("reason", F.coalesce("reason", why)).select(*rows.columns)


def is_loaded(loaded: LoadedRows, sources: Iterable[str], source: str, partition: str) -> Column:
    """Whether the row with this ``sequence`` and these columns is one of ``sources`` in ``loaded``."""
    return reduce(
        Column.__or__,
        (
            (F.col(source) == source_id) & (F.col(partition) == number) & in_ranges(F.col("sequence"), ranges)
            for source_id in sorted(sources)
            for number, ranges in loaded[source_id].partitions.items()
        ),
        F.lit(False),
    )
