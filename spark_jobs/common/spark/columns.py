"""Columns and expressions of Spark that it has no function for."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.model.verification.ranges import IntervalSet, OffsetRanges

# \z, because $ also matches before a final line break.
_DATE_TIME = r"\A\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\z"


def computed(frame: DataFrame, **columns: Column) -> DataFrame:
    """Add columns that are computed once per row.

    After ``withColumn`` the optimizer copies a column's expression to every use of it: a row would be decoded
    once per field, and the generated code exceeds what Java compiles. It does not optimize across a
    generator such as ``inline``.
    """
    struct = F.struct(*[column.alias(name) for name, column in columns.items()])
    return frame.select("*", F.inline(F.array(struct)))


def in_ranges(column: Column, ranges: IntervalSet) -> Column:
    """Whether a whole number is in one of them."""
    return reduce(
        Column.__or__, ((column >= start) & (column < until) for start, until in ranges), F.lit(False)
    )


def offsets_frame(
    spark: SparkSession, offsets: OffsetRanges, partition: str = "partition", offset: str = "offset"
) -> DataFrame:
    """A row for each of the offsets, with these two columns."""
    pairs = [(p, start, until) for p, ranges in offsets.partitions.items() for start, until in ranges]
    ranges = spark.createDataFrame(pairs, f"`{partition}` int, start long, until long")
    each = F.explode(F.sequence(F.col("start"), F.col("until") - 1))
    return ranges.select(partition, each.alias(offset))


def date_time(text: Column) -> Column:
    """The timestamp of a date and time with its offset from UTC (ISO 8601); null for any other text."""
    return F.when(text.rlike(_DATE_TIME), text.try_cast("timestamp"))
