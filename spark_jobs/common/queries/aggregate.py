"""What a declared query makes of a stream's rows. Pure: frames in, frames out, the same for any batch."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.model.spec.query import WINDOW, Query, TimeWindow

_WINDOW = "_window"


def results(rows: DataFrame, query: Query) -> DataFrame:
    """The groups of ``rows`` (of the stream's table) with their measures: the columns of ``by``,
    ``window_start``, the measures. Without measures, the rows as they are. Only rows that match ``where``.

    Of a stream it keeps state: the groups, and of a ``distinct`` measure the different values of each group;
    with a window, until the watermark has passed its end. Null is no value that ``distinct`` counts.
    """
    rows = _matching(rows, query)
    if not query.aggregates:
        return rows
    if query.window is None:
        grouped = rows.groupBy(*query.group_by)
    else:
        marked = rows.withWatermark(query.event_time, f"{query.watermark_minutes} minutes")
        grouped = marked.groupBy(*query.group_by, _window(query.event_time, query.window))
    counted = grouped.agg(*(_measure(query, name).alias(name) for name in query.aggregates))
    start = [F.col(_WINDOW)["start"].alias(WINDOW)] if query.window else []
    return counted.select(*query.group_by, *start, *query.aggregates)


def late(rows: DataFrame, query: Query, watermark_ms: int) -> DataFrame:
    """What Spark leaves out of ``rows`` because their windows ended at this watermark (ms since 1970) or
    before: the coordinates, and ``window_start``; a row once for each such window.

    A window that ends exactly at the watermark is final: Spark keeps its state no longer.
    """
    assert query.window is not None
    length = query.window.size_minutes * 60_000
    # Says nothing that the rest does not, but in words that Iceberg finds files by: most batches have none.
    early = _matching(rows, query).where(F.col(query.event_time) < F.timestamp_millis(F.lit(watermark_ms)))
    placed = early.withColumn(_WINDOW, _window(query.event_time, query.window))
    return placed.where(F.unix_millis(F.col(_WINDOW)["start"]) + length <= watermark_ms).select(
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


def _measure(query: Query, name: str) -> Column:
    distinct = query.distinct.get(name)
    if distinct is None:
        return F.count(F.lit(1))
    # Exact: what Spark offers for streams, approx_count_distinct, is some percent off.
    return F.size(F.collect_set(distinct)).cast("bigint")
