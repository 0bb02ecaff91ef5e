"""Columns and expressions of Spark that it has no function for."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.core.offsets.ranges import IntervalSet, OffsetRanges

# Columns of offset_masks. A joined table may have any columns but those of this prefix (names.OURS).
_PARTITION, _BLOCK, _MASK = "_sluice_partition", "_sluice_block", "_sluice_mask"
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


def offset_masks(spark: SparkSession, offsets: OffsetRanges) -> DataFrame:
    """These offsets, 64 of them to a row, for a join with :func:`is_at`: partition, block (the first of the
    64, divided by 64) and mask, a bit for each. A row for each offset would not fit into memory: a load of
    some million records that is scattered over the topic has as many."""
    pairs = [(p, start, until) for p, ranges in offsets.partitions.items() for start, until in ranges]
    ranges = spark.createDataFrame(pairs, f"{_PARTITION} int, start long, until long")
    blocks = ranges.select("*", F.explode(F.expr("sequence(start >> 6, (until - 1) >> 6)")).alias(_BLOCK))
    low = F.expr(f"cast(greatest(start - {_BLOCK} * 64, 0) as int)")
    above = F.expr(f"cast(64 - least(until - {_BLOCK} * 64, 64) as int)")
    bits = blocks.select(_PARTITION, _BLOCK, low.alias("low"), above.alias("above"))
    mask = F.expr("shiftleft(-1L, low) & shiftrightunsigned(-1L, above)")
    masks = bits.groupBy(_PARTITION, _BLOCK).agg(F.bit_or(mask).alias(_MASK))
    return F.broadcast(masks)


def is_at(partition: str, offset: str) -> Column:
    """Whether the record of these columns is in a row of :func:`offset_masks`."""
    value = F.col(offset)
    return (
        (F.col(_PARTITION) == F.col(partition))
        & (F.col(_BLOCK) == F.shiftright(value, 6))
        & (F.bit_get(_MASK, value.bitwiseAND(63).cast("int")) == 1)
    )


def date_time(text: Column) -> Column:
    """The timestamp of a date and time with its offset from UTC (ISO 8601); null for any other text."""
    return F.when(text.rlike(_DATE_TIME), text.try_cast("timestamp"))
