"""Row diff of two frames, by all values: each row once, or equal rows counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from sluice.core.error_codes import ErrorCode

OFFSET_COLUMNS = ("_kafka_partition", "_kafka_offset")
_HASH = "values_hash"


class RowsDiffer(RuntimeError):
    """A rewrite changed rows."""

    code = ErrorCode.ROWS_DIFFER


@dataclass(frozen=True)
class RowDiff:
    """``rows``: of the first frame. ``wrong``: number of rows (by the columns that name them, or by their
    values) that are not as often in each frame as they must be, or not with the same values; ``example`` the
    first of them."""

    rows: int
    wrong: int
    example: str = ""

    @property
    def is_same(self) -> bool:
        return self.wrong == 0

    def message(self) -> str:
        if self.is_same:
            return f"{self.rows} rows, the same, each once"
        return f"{self.wrong} rows are missing, duplicated or have other values: {self.example}"


def compare(before: DataFrame, after: DataFrame, unique: Sequence[str] = OFFSET_COLUMNS) -> RowDiff:
    """Compare frames with the same columns, in one shuffle of at most 28 bytes a row, by a 64-bit hash of the
    values (nulls included).

    ``unique``: integer columns that name a row, which must be in each frame once. Without any, as for rows
    without offsets, each combination of values must be in both frames equally often.
    """
    sides = _side(before, unique, 1, 0).unionAll(_side(after, unique, 0, 1))
    names = list(unique) or [_HASH]
    pairs = sides.groupBy(*names).agg(
        F.sum("before").alias("before"),
        F.sum("after").alias("after"),
        (F.min(_HASH) != F.max(_HASH)).alias("changed"),
    )
    wrong = F.col("before") != F.col("after")
    if unique:
        wrong = wrong | (F.col("before") != 1) | F.col("changed")
    totals = pairs.agg(
        F.coalesce(F.sum("before"), F.lit(0)).alias("rows"),
        F.count_if(wrong).alias("wrong"),
        F.min(F.when(wrong, F.struct(*names, "before", "after"))).alias("first"),
    ).first()
    assert totals is not None
    return RowDiff(int(totals["rows"]), int(totals["wrong"]), _describe(names, totals["first"]))


def _side(frame: DataFrame, unique: Sequence[str], before: int, after: int) -> DataFrame:
    # xxhash64 skips nulls.
    values = [
        value
        for field in frame.schema.fields
        for column in [F.col(f"`{field.name}`")]
        for value in (column.isNull(), _hashable(column, field.dataType))
    ]
    return frame.select(
        *unique,
        F.xxhash64(*values).alias(_HASH),
        F.lit(before).alias("before"),
        F.lit(after).alias("after"),
    )


def _hashable(column: Column, kind: DataType) -> Column:
    """The column with each map as its sorted entries, at any depth: Spark hashes no map, since equal ones may
    have other orders."""
    if not _has_map(kind):
        return column
    if isinstance(kind, MapType):
        values = kind.valueType
        return F.transform(
            F.array_sort(F.map_keys(column)),
            lambda key: F.struct(key, _hashable(F.element_at(column, key), values).alias("value")),
        )
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda element: _hashable(element, kind.elementType))
    assert isinstance(kind, StructType)
    members = [_hashable(column[field.name], field.dataType).alias(field.name) for field in kind.fields]
    return F.when(column.isNotNull(), F.struct(*members))


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType) or (isinstance(kind, ArrayType) and _has_map(kind.elementType))


def _describe(names: Sequence[str], first: Sequence[int] | None) -> str:
    if first is None:
        return ""
    *values, before, after = first
    found = "other values" if before == after == 1 else f"{before} rows before and {after}"
    pairs = zip(names, values, strict=True)
    named = " ".join(f"{name.removeprefix('_kafka_')} {value}" for name, value in pairs)
    return f"{named} has {found} after the rewrite"
