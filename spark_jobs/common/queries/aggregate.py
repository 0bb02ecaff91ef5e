"""The results and late rows of a declared query. Pure."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.model.spec.query import WINDOW, Query, TimeWindow

_WINDOW = "_window"


def results(rows: DataFrame, query: Query) -> DataFrame:
    """The groups of those ``rows`` that match ``where``: the columns of ``group_by``, ``window_start``, the
    aggregates. Without aggregates, the matching rows.

    Over a stream Spark keeps state: the groups, and the distinct values of each; with a window, until the
    watermark has passed its end. ``distinct`` ignores null.
    """
    rows = _matching(rows, query)
    if not query.aggregates:
        return rows
    if query.window is None:
        grouped = rows.groupBy(*query.group_by)
    else:
        with_watermark = rows.withWatermark(query.event_time, f"{query.watermark_minutes} minutes")
        grouped = with_watermark.groupBy(*query.group_by, _window(query.event_time, query.window))
    aggregated = grouped.agg(*(_aggregate(query, name).alias(name) for name in query.aggregates))
    start = [F.col(_WINDOW)["start"].alias(WINDOW)] if query.window else []
    return aggregated.select(*query.group_by, *start, *query.aggregates)


def late(rows: DataFrame, query: Query, watermark_ms: int) -> DataFrame:
    """The rows that Spark drops at this watermark (ms since 1970), with ``window_start`` and their offset; a
    row once for each window that it is late for. A window that ends exactly at the watermark is final."""
    assert query.window is not None
    length = query.window.size_minutes * 60_000
    # Redundant, but Iceberg prunes files by it: most batches have no late rows.
    early = _matching(rows, query).where(F.col(query.event_time) < F.timestamp_millis(F.lit(watermark_ms)))
    windowed = early.withColumn(_WINDOW, _window(query.event_time, query.window))
    return windowed.where(F.unix_millis(F.col(_WINDOW)["start"]) + length <= watermark_ms).select(
        F.col(_WINDOW)["start"].alias(WINDOW), "_kafka_partition", "_kafka_offset"
    )


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
