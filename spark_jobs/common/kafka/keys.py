"""Keys of results in Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_TEXT_BY_CAST = (StringType, ByteType, ShortType, IntegerType, LongType, DateType)
# No text is escaped to this.
_NULL = "\\N"


def key_text(schema: StructType, columns: Sequence[str]) -> Column:
    """The key of these columns as text, never null: as ``sluice.core.queries.result.key_text`` of a row.

    Raises TypeError for a column whose text differs in Spark and Python.
    """
    parts = [F.coalesce(_escaped(key_part(schema, column)), F.lit(_NULL)) for column in columns]
    return F.concat_ws("|", *parts)


def key_part(schema: StructType, column: str) -> Column:
    """One column of a key as text, not escaped, null if it is null. Raises TypeError as :func:`key_text`."""
    kind: DataType = schema[column].dataType
    value = F.col(column)
    if isinstance(kind, TimestampType):
        # By arithmetic: formatting is in the session's time zone.
        seconds = F.unix_seconds(value)
        value = F.lit("1970-01-01").cast("timestamp_ntz") + F.make_dt_interval(secs=seconds)
        return _timestamp(value)
    if isinstance(kind, TimestampNTZType):
        return _timestamp(value)
    if isinstance(kind, BooleanType):
        return F.when(value, F.lit("True")).when(~value, F.lit("False"))
    if isinstance(kind, _TEXT_BY_CAST):
        return value.cast("string")
    raise TypeError(
        f"column {column!r} is {kind.simpleString()}, which cannot be a key: Spark and Python write it "
        "differently. Fix: group by text, whole numbers, dates or timestamps"
    )


def _timestamp(value: Column) -> Column:
    # 2024-01-31 23:59:59.5, whatever the time zone.
    return F.concat(F.translate(F.substring(value.cast("string"), 1, 19), " ", "T"), F.lit("Z"))


def _escaped(part: Column) -> Column:
    backslash, bar = F.lit("\\"), F.lit("|")
    return F.replace(F.replace(part, backslash, F.lit("\\\\")), bar, F.lit("\\|"))
