"""One way to add columns that are computed once."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def computed(frame: DataFrame, **columns: Column) -> DataFrame:
    """``frame`` with more columns, each computed once for every row.

    After ``withColumn`` the optimizer puts a column's whole expression in place of every mention of it, in
    every filter too: a row would be decoded once for each of its fields, and the generated code outgrows
    what Java compiles. It does not look through a generator, so the columns come out of one.
    """
    made = F.struct(*[column.alias(name) for name, column in columns.items()])
    return frame.select("*", F.inline(F.array(made)))
