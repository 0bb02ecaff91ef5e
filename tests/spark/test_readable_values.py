"""What ``core.decoding`` accepts Spark reads, and its texts are those of Spark's expressions."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from sluice.core.decoding import texts, wire_formats
from sluice.core.decoding.readable import unreadable
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
    assert [wire_formats.wire_format(one) for one in values] == by_spark(spark_texts.wire_format(value))
    shown = by_spark(spark_texts.printable(value.cast("string")))
    assert [texts.printable(one.decode(errors="replace")) for one in values] == shown
