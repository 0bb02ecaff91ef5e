"""Who a row is, and which rows came before."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.core.decoding import identity
from sluice.core.offsets.deduplication import LoadedRows, possible_duplicates
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.lake import deduplicate
from spark_jobs.common.lake.written.written_batch import runs_of

A, B = "a" * 16, "b" * 16


def records(spark: SparkSession, keys: list[bytes | None], partition: int = 0, first: int = 100) -> DataFrame:
    offsets = pa.array(range(first, first + len(keys)))
    own = identity.identity(pa.array(keys, pa.binary())).columns(offsets)
    columns = [pa.array([partition] * len(keys), pa.int32()), offsets, own["_source_id"].cast(pa.string())]
    rows = zip(*(one.to_pylist() for one in (*columns, own["_source_base_offset"])), strict=True)
    return spark.createDataFrame(
        [(*row, None) for row in rows],
        "_kafka_partition int, _kafka_offset bigint, _source_id string, _source_base_offset bigint, "
        "reason string",
    )


def keys(source: str, sequences: range | list[int]) -> list[bytes | None]:
    return [f"{source}:{sequence * 10}:{sequence}".encode() for sequence in sequences]


def named(frame: DataFrame, seen: LoadedRows) -> dict[int, str]:
    possible = possible_duplicates(seen, runs_of(frame.toArrow()))
    if not possible:
        return {}
    rows = deduplicate.flag_duplicates(frame, seen, possible).where(F.col("reason").isNotNull())
    return {r._kafka_offset: r.reason for r in rows.collect()}


def test_a_zombie_between_its_successors_rows_is_told_apart(spark: SparkSession) -> None:
    frame = records(spark, [*keys(A, [0, 1, 2, 1, 3, 2, 4]), None, b"x", *keys(B, range(3))])
    assert named(frame, LoadedRows()) == {
        103: "duplicate: this row is also at offset 101",
        105: "duplicate: this row is also at offset 102",
    }


def test_rows_of_the_published_table_are_told_apart(spark: SparkSession) -> None:
    seen = LoadedRows({A: OffsetRanges.of({0: [(0, 3)], 1: [(0, 50)]})})
    found = named(records(spark, keys(A, range(1, 6))), seen)
    assert found == dict.fromkeys((100, 101), "duplicate: this row of its source is in the table already")
