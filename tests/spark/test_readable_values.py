"""What ``core.decoding`` accepts Spark reads, and its reasons are those of Spark's expressions."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.core.decoding import texts, wire_formats
from sluice.core.decoding.identity import identity
from sluice.core.decoding.readable import readable_times, unreadable
from spark_jobs.common.consumer import readable
from spark_jobs.common.kafka import wire_formats as spark_wire_formats
from spark_jobs.common.kafka.keys import is_withheld, with_identity
from spark_jobs.common.spark import texts as spark_texts
from tests.support.column_values import records, same

DAY = 86_400_000_000
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
_numbers = count()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(columns=records(time_of_day=False))
def test_spark_reads_what_is_accepted(columns: pa.RecordBatch, spark: SparkSession, tmp_path: Path) -> None:
    assert unreadable(columns) == {}
    path = tmp_path / f"{next(_numbers)}.parquet"
    pq.write_table(pa.Table.from_batches([columns]), path)
    found = spark.read.parquet(str(path)).toArrow()
    assert same(found.to_pylist(), columns.to_pylist())


def nested(seed: int) -> pa.RecordBatch:
    """Dates, times and texts in each place of a record, some of them beyond what can be read."""
    chosen = random.Random(seed)  # noqa: S311
    size = 40

    def numbers(kind: pa.DataType, first: int, last: int) -> pa.Array:
        edge = [first, last, first - 1, last + 1, 0, 1, -1, None]
        far = [2**31 - 1, -(2**31)] if pa.types.is_date32(kind) else [2**62, -(2**62), first - DAY * 800_000]
        found = [chosen.choice(edge if chosen.random() < 0.9 else far) for _ in range(size)]
        return pa.array(found, pa.int32() if pa.types.is_date32(kind) else pa.int64()).view(kind)

    def some_texts() -> pa.Array:
        values = [chosen.choice([b"a", "é".encode(), b"", None, b"\xff", b"\xc3"]) for _ in range(size)]
        raw = pa.array(values, pa.binary())
        return pa.Array.from_buffers(pa.string(), size, raw.buffers())

    dates = numbers(pa.date32(), FIRST_DAY, LAST_DAY)
    local = numbers(pa.timestamp("us"), FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1)
    times = numbers(pa.timestamp("us", tz="UTC"), (FIRST_DAY + 1) * DAY, LAST_DAY * DAY - 1)
    pair = pa.StructArray.from_arrays([local, some_texts()], ["time", "text"])
    halved = pa.array([n // 2 for n in range(size + 1)], pa.int32())
    keys = pa.array([str(n).encode() for n in range(size)], pa.binary()).cast(pa.string())
    columns = {
        "d": dates,
        "s": pair,
        "t": times,
        "x": some_texts(),
        "l": pa.ListArray.from_arrays(halved, times),
        "p": pa.ListArray.from_arrays(halved, pair),
        "m": pa.MapArray.from_arrays(halved, keys, some_texts()),
    }
    return pa.record_batch(columns)


@pytest.mark.parametrize("seed", range(3))
def test_reasons_are_those_of_spark(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    columns = nested(seed)
    path = tmp_path / "values.parquet"
    numbered = pa.Table.from_batches([columns]).append_column("n", pa.array(range(columns.num_rows)))
    pq.write_table(numbered, path)
    frame = spark.read.parquet(str(path))
    record = F.struct(*columns.schema.names)
    kind = StructType([frame.schema[name] for name in columns.schema.names])
    wrong, why = readable.unreadable(record, kind)
    found = frame.select("n", F.when(wrong, why).alias("why")).toArrow().to_pylist()
    expected = {row["n"]: row["why"] for row in found if row["why"] is not None}
    assert len(expected) > 10
    assert unreadable(columns) == expected


def test_texts_and_frames_are_those_of_spark(spark: SparkSession) -> None:
    chosen = random.Random(1)  # noqa: S311
    characters = "a \n\0\u00a0é\u202e\u2028\ufeff\ue000\U000e0001😀\uffff\u3000"
    values = [
        b"",
        *(bytes(chosen.choices(range(256), k=chosen.randrange(1, 9))) for _ in range(200)),
        *("".join(chosen.choices(characters, k=chosen.randrange(1, 9))).encode() for _ in range(200)),
        *(b"\0\0" + bytes(chosen.choices([0, 0, 1, 255], k=chosen.randrange(1, 6))) for _ in range(100)),
        *(
            prefix + more
            for prefix in (b"\xc3\x01", b"Obj\x01", b"\x03\0", b"\x03\5", b"\x1f\x8b", b"(\xb5/\xfd")
            for more in (b"", b"x")
        ),
        *(b"a" * length for length in (99, 100, 101, 999, 1000, 1001)),
        b"a" * 99 + "é".encode(),
        ("é" * 1001).encode(),
        b"\xff" * 1001,
    ]
    frame = spark.createDataFrame(list(enumerate(values)), "n int, value binary")
    value = F.col("value")

    def by_spark(one: Column) -> list[str | None]:
        found = frame.select("n", one.alias("text")).toArrow().sort_by("n")
        return list(found["text"].to_pylist())

    assert [texts.text_of(one) for one in values] == by_spark(spark_texts.text_of(value))
    assert [texts.quoted(one) for one in values] == by_spark(spark_texts.quoted(value))
    assert [wire_formats.wire_format(one) for one in values] == by_spark(
        spark_wire_formats.wire_format(value)
    )
    shown = by_spark(spark_texts.printable(value.cast("string")))
    assert [texts.printable(one.decode(errors="replace")) for one in values] == shown


def test_identity_is_that_of_spark(spark: SparkSession) -> None:
    source = "0123456789abcdef"
    keys = [
        None,
        b"",
        *(
            f"{source}{text}".encode()
            for text in (":1:2", "!1:2", "?1:2", ":01:00", ":1:2\n", ":1:2\r", ":1", "::2", ":1:")
        ),
        *(
            f"{source}:{'9' * row}:{'8' * sequence}".encode()
            for row in (1, 8, 18, 19)
            for sequence in (1, 9, 18, 19)
        ),
        f"{source.upper()}:1:2".encode(),
        source.encode() + b":1:\xff",
        source.encode() + b":1:2\xff",
        f"{source}:1:٢".encode(),
    ]
    frame = spark.createDataFrame(
        [(n, key, 0) for n, key in enumerate(keys)], "n int, key binary, _kafka_offset long"
    )
    rows = with_identity(frame).withColumn("withheld", is_withheld()).toArrow().sort_by("n")
    found = identity(pa.array(keys, pa.binary()))
    assert found.source_ids.to_pylist() == rows["_source_id"].to_pylist()
    assert found.rows.to_pylist() == rows["_source_row"].to_pylist()
    assert pc.negate(found.sequences).to_pylist() == rows["_source_base_offset"].to_pylist()
    assert found.withheld.to_pylist() == [bool(one) for one in rows["withheld"].to_pylist()]


def test_times_in_kafka_are_those_of_spark(spark: SparkSession) -> None:
    first, last = (FIRST_DAY + 1) * DAY // 1000, LAST_DAY * DAY // 1000 - 1
    times = [0, -1, first, last, first - 1, last + 1, first - 10**13, last + 10**13]
    frame = spark.createDataFrame(list(enumerate(times)), "n int, ms long").select(
        "n", F.timestamp_millis("ms").alias("time")
    )
    rows = (
        frame.select(
            "n",
            readable.is_readable_time(F.col("time")).alias("ok"),
            F.col("time").cast("string").alias("text"),
        )
        .toArrow()
        .sort_by("n")
        .to_pylist()
    )
    _, reasons = readable_times(pa.array(times))
    assert reasons == {
        row["n"]: f"its timestamp in Kafka is beyond what can be read: {row['text']}"
        for row in rows
        if not row["ok"]
    }
