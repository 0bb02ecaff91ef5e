"""A key's text in Spark, against the one that validations make of the same values."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sluice.core.queries import result
from spark_jobs.common.kafka.keys import key_part, key_text

COLUMNS = pa.schema(
    [
        ("word", pa.string()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("whole", pa.int32()),
        ("large", pa.int64()),
        ("yes", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
    ]
)
WORDS = [
    "",
    " ",
    "10115",
    "a|b",
    "a\\",
    "\\|",
    "|",
    "||",
    "\\\\|",
    "żółć",
    "日本",
    "a\nb",
    "None",
    "0",
    "ß%s'\"",
]


def values() -> list[dict[str, Any]]:
    """Edges of each type, each null once, and what chance adds; the same with every run."""
    chance = random.Random(7)  # noqa: S311
    edges: dict[str, list[Any]] = {
        "word": [*WORDS, *("".join(chance.choices("a|\\ ", k=6)) for _ in range(200))],
        "tiny": [-128, 0, 127],
        "small": [-(2**15), 0, 2**15 - 1],
        "whole": [-(2**31), 0, 2**31 - 1],
        "large": [-(2**63), 0, 2**63 - 1, 9007199254740993],
        "yes": [True, False],
        "day": [
            date(1582, 10, 4),
            date(1582, 10, 15),
            date(1969, 12, 31),
            date(2024, 2, 29),
            date(9999, 12, 31),
        ],
    }
    moments = [
        *(
            datetime(1970, 1, 1, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC),
            datetime(1900, 1, 1, 0, 0, 1, tzinfo=UTC),
        ),
        *(
            datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
        ),
        # Where the session's clocks go forward and back.
        *(datetime(2026, 3, 29, tzinfo=UTC) + timedelta(minutes=20 * number) for number in range(12)),
        *(datetime(2026, 10, 25, tzinfo=UTC) + timedelta(minutes=20 * number) for number in range(12)),
        *(datetime(1971, 1, 1, tzinfo=UTC) + timedelta(seconds=chance.randrange(10**10)) for _ in range(100)),
    ]
    edges |= {"at": moments, "local": [at.replace(tzinfo=None) for at in moments]}
    rows = [
        {name: edges[name][number % len(edges[name])] for name in COLUMNS.names}
        for number in range(max(map(len, edges.values())))
    ]
    return rows + [rows[0] | {name: None} for name in COLUMNS.names] + [dict.fromkeys(COLUMNS.names)]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu"])
def test_spark_and_python_make_the_same_text(
    spark: SparkSession, configure: Callable[[dict[str, str]], None], zone: str
) -> None:
    rows = values()
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, COLUMNS))
    configure({"spark.sql.session.timeZone": zone})
    requests = [COLUMNS.names, COLUMNS.names[::-1], ["word"], ["word", "at"]]
    texts = [key_text(frame.schema, names) for names in requests]
    found = frame.select(F.to_json(F.array(*texts)).alias("texts")).toArrow()["texts"].to_pylist()
    for row, made in zip(rows, found, strict=True):
        assert json.loads(made) == [result.key_text([row[name] for name in names]) for names in requests]


def test_different_keys_have_different_texts(spark: SparkSession) -> None:
    pairs = [("a|b", "c"), ("a", "b|c"), ("a\\", "b"), ("a\\|b", ""), ("a", "b"), ("", "a|b"), ("a|", "b")]
    frame = spark.createDataFrame(
        pa.Table.from_pylist([dict(zip("xy", pair, strict=True)) for pair in pairs])
    )
    texts = frame.select(key_text(frame.schema, ["x", "y"]).alias("key")).toArrow()["key"].to_pylist()
    assert len(set(texts)) == len(pairs)


def test_one_part_is_not_escaped_and_null_stays_null(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.table({"word": ["a|b\\", None]}))
    part = key_part(frame.schema, "word").alias("part")
    assert frame.select(part).toArrow()["part"].to_pylist() == ["a|b\\", None]


@pytest.mark.parametrize(
    "kind", ["double", "float", "decimal(10,2)", "binary", "array<string>", "struct<a:int>"]
)
def test_what_spark_and_python_write_differently_is_no_key(spark: SparkSession, kind: str) -> None:
    schema = spark.sql(f"select cast(null as {kind}) odd").schema
    with pytest.raises(TypeError, match="'odd'"):
        key_text(schema, ["odd"])
