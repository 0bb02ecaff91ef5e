"""Row diff of two frames, by record offsets and all values."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.model.error_codes import ErrorCode

OFFSET_COLUMNS = ("_kafka_partition", "_kafka_offset")


class RowsDiffer(RuntimeError):
    """A rewrite changed rows."""

    code = ErrorCode.ROWS_DIFFER


@dataclass(frozen=True)
class RowDiff:
    """``rows``: of the first frame. ``wrong``: number of offsets not once in each frame with the same
    values, ``example`` the first of them."""

    rows: int
    wrong: int
    example: str = ""

    @property
    def is_same(self) -> bool:
        return self.wrong == 0

    def message(self) -> str:
        if self.is_same:
            return f"{self.rows} rows, the same, each once"
        return f"{self.wrong} offsets are missing, duplicated or have other values: {self.example}"


def compare(before: DataFrame, after: DataFrame) -> RowDiff:
    """Compare frames with the same columns, in one shuffle of 28 bytes a row, by a 64-bit hash of the values
    (nulls included)."""
    sides = _side(before, after.columns, 1, 0).unionAll(_side(after, after.columns, 0, 1))
    pairs = sides.groupBy(*OFFSET_COLUMNS).agg(
        F.sum("before").alias("before"),
        F.sum("after").alias("after"),
        (F.min("content") != F.max("content")).alias("changed"),
    )
    wrong = (F.col("before") != 1) | (F.col("after") != 1) | F.col("changed")
    totals = pairs.agg(
        F.coalesce(F.sum("before"), F.lit(0)).alias("rows"),
        F.count_if(wrong).alias("wrong"),
        F.min(F.when(wrong, F.struct(*OFFSET_COLUMNS, "before", "after"))).alias("first"),
    ).first()
    assert totals is not None
    return RowDiff(int(totals["rows"]), int(totals["wrong"]), _describe(totals["first"]))


def _side(frame: DataFrame, columns: list[str], before: int, after: int) -> DataFrame:
    # xxhash64 skips nulls.
    values = [value for name in columns for value in (F.col(f"`{name}`").isNull(), F.col(f"`{name}`"))]
    return frame.select(
        *OFFSET_COLUMNS,
        F.xxhash64(*values).alias("content"),
        F.lit(before).alias("before"),
        F.lit(after).alias("after"),
    )


def _describe(first: tuple[int, int, int, int] | None) -> str:
    if first is None:
        return ""
    partition, offset, before, after = first
    found = "other values" if before == after == 1 else f"{before} rows before and {after}"
    return f"partition {partition} offset {offset} has {found} after the rewrite"
