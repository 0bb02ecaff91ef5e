"""The results, late rows and early rows of a declared query."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from sluice.clients.kafka.query_progress import EARLY_ROWS, LEFT_OUT
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.sections.query import ARRIVAL, Query, TimeWindow
from sluice.core.queries.result import WINDOW

_WINDOW = "_window"


def results(rows: DataFrame, query: Query) -> DataFrame:
    """The groups of those ``rows`` that match ``where``: the columns of ``group_by``, ``window_start``, the
    aggregates. Without aggregates, the matching rows.

    Over a stream Spark keeps state: the groups, and the distinct values of each; with a window, until the
    watermark has passed its end. ``distinct`` ignores null. With a window, rows that are :func:`early` are
    left out, and their number is the metric EARLY_ROWS of the observation LEFT_OUT.
    """
    rows = _matching(rows, query)
    if not query.aggregates:
        return rows
    if query.window is None:
        grouped = rows.groupBy(*query.group_by)
    else:
        # Before the watermark: one row dated ahead would make all rows after it late.
        observed = rows.observe(LEFT_OUT, F.count_if(_is_early(query)).alias(EARLY_ROWS))
        on_time = observed.where(~_is_early(query))
        with_watermark = on_time.withWatermark(query.event_time, f"{query.watermark_minutes} minutes")
        grouped = with_watermark.groupBy(*query.group_by, _window(query.event_time, query.window))
    aggregated = grouped.agg(*(_aggregate(query, name).alias(name) for name in query.aggregates))
    start = [F.col(_WINDOW)["start"].alias(WINDOW)] if query.window else []
    return aggregated.select(*query.group_by, *start, *query.aggregates)


def state_types(columns: StructType, query: Query) -> dict[str, str]:
    """Column -> its type, of those ``columns`` whose values Spark keeps for the query."""
    if not query.aggregates:
        return {}
    kept = [*query.group_by, *query.distinct.values(), *([query.event_time] if query.window else [])]
    return {column: columns[column].dataType.simpleString() for column in kept}


def source(spark: SparkSession, table: str) -> DataFrame:
    """The rows of the stream's ``table``, as it grows, with the columns that it has now."""
    # At a change, Iceberg's source throws, or skips it. A batch that reads past one is refused.
    skip = {f"streaming-skip-{kind}-snapshots": "true" for kind in ("overwrite", "delete")}
    return spark.readStream.format("iceberg").options(**skip).load(f"{CATALOG}.{table}")


def stream(rows: DataFrame, query: Query, label: str, checkpoint_uri: str) -> DataStreamWriter:
    """The results over the :func:`source` ``rows``, for a streaming query ``label``."""
    return (
        results(rows, query)
        .writeStream.queryName(label)
        .outputMode(query.mode)
        .option("checkpointLocation", checkpoint_uri)
        .trigger(processingTime=f"{query.trigger_seconds} seconds")
    )


def late(rows: DataFrame, query: Query, watermark_ms: int) -> DataFrame:
    """The rows that Spark drops at this watermark (ms since 1970), with ``window_start`` and their offset; a
    row once for each window that it is late for. A window that ends exactly at the watermark is final."""
    assert query.window is not None
    length = query.window.size_minutes * 60_000
    # Redundant, but Iceberg prunes files by it: most batches have no late rows.
    before = F.col(query.event_time) < F.timestamp_millis(F.lit(watermark_ms))
    behind = _matching(rows, query).where(before & ~_is_early(query))
    windowed = behind.withColumn(_WINDOW, _window(query.event_time, query.window))
    return windowed.where(F.unix_millis(F.col(_WINDOW)["start"]) + length <= watermark_ms).select(
        F.col(_WINDOW)["start"].alias(WINDOW), "_kafka_partition", "_kafka_offset"
    )


def early(rows: DataFrame, query: Query) -> DataFrame:
    """The rows that are in no window because their event time is more than ``watermark_minutes`` after their
    arrival, or their arrival is unknown."""
    assert query.window is not None
    return _matching(rows, query).where(_is_early(query))


def _is_early(query: Query) -> Column:
    """Never null; false without an event time, which is in no window anyway."""
    newest = F.col(ARRIVAL) + F.expr(f"INTERVAL {query.watermark_minutes} MINUTES")
    is_on_time = F.coalesce(F.col(query.event_time) <= newest, F.lit(False))
    return F.col(query.event_time).isNotNull() & ~is_on_time


def _matching(rows: DataFrame, query: Query) -> DataFrame:
    for column, values in query.where.items():
        rows = rows.where(F.col(column).isin(values))
    return rows


def _window(at: str, windows: TimeWindow) -> Column:
    return F.window(
        at,
        f"{windows.size_minutes} minutes",
        f"{windows.slide_minutes} minutes",
        f"{windows.offset_minutes} minutes",
    ).alias(_WINDOW)


def _aggregate(query: Query, name: str) -> Column:
    distinct = query.distinct.get(name)
    if distinct is None:
        return F.count(F.lit(1))
    # Exact, unlike approx_count_distinct, which Spark offers for streams.
    return F.size(F.collect_set(distinct)).cast("bigint")
