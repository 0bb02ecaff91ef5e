"""Are the rows of two frames the same, and each there once? By their coordinates and all of their values."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.model.error_codes import ErrorCode

OFFSET_COLUMNS = ("_kafka_partition", "_kafka_offset")


class RowsDiffer(RuntimeError):
    """Rows are not what they were."""

    code = ErrorCode.ROWS_DIFFER


@dataclass(frozen=True)
class RowDiff:
    """``rows``: of the first frame. ``wrong``: how many coordinates are not once in each frame with the same
    values; ``example`` is the first of them, in words."""

    rows: int
    wrong: int
    example: str = ""

    @property
    def is_same(self) -> bool:
        return self.wrong == 0

    def message(self) -> str:
        if self.is_same:
            return f"{self.rows} rows, the same, each once"
        return f"{self.wrong} coordinates are not there once with the same values: {self.example}"


def compare(before: DataFrame, after: DataFrame) -> RowDiff:
    """Both have the same columns, among them the coordinates. One shuffle of 28 bytes a row; the values are
    compared by a hash of 64 bits a row, in which a null counts, and where it is."""
    sides = _side(before, after.columns, 1, 0).unionAll(_side(after, after.columns, 0, 1))
    pairs = sides.groupBy(*OFFSET_COLUMNS).agg(
        F.sum("before").alias("before"),
        F.sum("after").alias("after"),
        (F.min("content") != F.max("content")).alias("changed"),
    )
    wrong = (F.col("before") != 1) | (F.col("after") != 1) | F.col("changed")
    found = pairs.agg(
        F.coalesce(F.sum("before"), F.lit(0)).alias("rows"),
        F.count_if(wrong).alias("wrong"),
        F.min(F.when(wrong, F.struct(*OFFSET_COLUMNS, "before", "after"))).alias("first"),
    ).first()
    assert found is not None
    return RowDiff(int(found["rows"]), int(found["wrong"]), _words(found["first"]))


def _side(frame: DataFrame, columns: list[str], before: int, after: int) -> DataFrame:
    # Alone, a null would not count.
    parts = [part for name in columns for part in (F.col(f"`{name}`").isNull(), F.col(f"`{name}`"))]
    return frame.select(
        *OFFSET_COLUMNS,
        F.xxhash64(*parts).alias("content"),
        F.lit(before).alias("before"),
        F.lit(after).alias("after"),
    )


def _words(first: tuple[int, int, int, int] | None) -> str:
    if first is None:
        return ""
    partition, offset, before, after = first
    place = f"partition {partition} offset {offset}"
    if before == after == 1:
        return f"{place} has other values"
    return f"{place} was there {before} times and would be {after} times"
