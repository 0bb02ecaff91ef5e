"""Who a row is, and which rows came before."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.core.offsets.deduplication import LoadedRows, Run, possible_duplicates
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.kafka import keys as identity
from spark_jobs.common.lake import deduplicate

A, B = "a" * 16, "b" * 16


def records(spark: SparkSession, keys: list[bytes | None], partition: int = 0, first: int = 100) -> DataFrame:
    rows = [(partition, first + n, key, None) for n, key in enumerate(keys)]
    frame = spark.createDataFrame(
        rows, "_kafka_partition int, _kafka_offset bigint, key binary, reason string"
    )
    return identity.with_identity(frame)


def keys(source: str, sequences: range | list[int]) -> list[bytes | None]:
    return [f"{source}:{sequence * 10}:{sequence}".encode() for sequence in sequences]


def test_foreign_keys_are_no_identity(spark: SparkSession) -> None:
    foreign = [
        None,
        b"",
        b"ride-1",
        *(f"{A}:{rest}".encode() for rest in ("1", "70:7\n", "70:7:7", f"{10**18}:7")),
    ]
    own = [f"{A}:70:7".encode(), f"{A}:{10**18 - 1}:{10**18 - 2}".encode()]
    frame = records(spark, [*foreign, *own]).orderBy("_kafka_offset")
    found = [(r._source_id, r._source_row, r._source_base_offset) for r in frame.collect()]
    assert found == [(None, None, None)] * 7 + [(A, 70, 100), (A, 10**18 - 1, 110 - 10**18)]


def test_a_record_that_is_withheld_says_so_in_its_key_and_is_the_same_row(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(A, 70, 7), (B, 80, 8)], "source_id string, row bigint, sequence bigint")
    found = [bytes(r.key).decode() for r in frame.select(identity.key({B}).alias("key")).collect()]
    assert found == [f"{A}:70:7", f"{B}!80:8"]
    foreign = [f"{'x' * 16}!80:8", "0123456789abcdef!8", "ride-567890123456!"]
    sent = records(spark, [text.encode() for text in (*found, *foreign)]).withColumn(
        "withheld", identity.is_withheld()
    )
    by_offset = {r._kafka_offset: (r._source_id, r._source_row, r.withheld) for r in sent.collect()}
    assert by_offset == {
        100: (A, 70, False),
        101: (B, 80, True),
        **dict.fromkeys((102, 103, 104), (None, None, False)),
    }


def named(frame: DataFrame, seen: LoadedRows) -> dict[int, str]:
    possible = possible_duplicates(seen, deduplicate.runs(frame))
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


def test_mixed_producers_are_as_many_runs_as_there_are_gaps(spark: SparkSession) -> None:
    mixed = [key for pair in zip(keys(A, range(50)), keys(B, range(100, 150)), strict=True) for key in pair]
    runs = deduplicate.runs(records(spark, [*mixed, *keys(A, [60, 61]), None]))
    assert runs == [Run(A, 0, 0, 50, 50), Run(A, 0, 60, 62, 2), Run(B, 0, 100, 150, 50)]
    assert possible_duplicates(LoadedRows(), runs) == set()


def test_a_row_sent_twice_shows_in_its_run(spark: SparkSession) -> None:
    assert deduplicate.runs(records(spark, keys(A, [0, 1, 1, 2]))) == [Run(A, 0, 0, 3, 4)]
