"""What is parsed column by column against Spark's parser, on texts that parsers read in different ways."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
)

from sluice.config.sections.csv import Csv
from sluice.config.sending_rules import SendingRules
from spark_jobs.common.kafka.avro import AvroSchema
from spark_jobs.common.producer import csv
from spark_jobs.common.producer.lines import Lines
from spark_jobs.common.producer.objects import LINE_SCHEMA, encoded_rest
from spark_jobs.common.producer.usual_rows import Column, Layout

FORMATS = ("yyyy-MM-dd HH:mm:ss", "MM/dd/yyyy hh:mm:ss a", "dd.MM.yyyy'T'HH:mm:ss", "yyyyMMdd")
RECORD = (
    StructType()
    .add("number", DoubleType())
    .add("int", IntegerType())
    .add("long", LongType())
    .add("text", StringType())
    .add("time", TimestampNTZType())
    .add("rest", MapType(StringType(), StringType()))
)
WIDTH = 7
LAYOUT = Layout(
    WIDTH,
    (
        Column("number", "double", 0, False),
        Column("int", "integer", 1, False),
        Column("long", "long", 2, False),
        Column("text", "string", 3, True),
        Column("time", "timestamp_ntz", 4, False),
        Column("rest", "map", None, False),
    ),
    "rest",
    (("x.y", 5), ("z", 6)),
    FORMATS,
)
GOOD = ["-1.5", "2.0", "3", "a b", "2018-02-08 05:07:37", "", "q"]


def line(position: int, text: str) -> str:
    return ",".join([*GOOD[:position], text, *GOOD[position + 1 :]])


def check(spark: SparkSession, texts: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
    """Assert that Spark's parser reads the usual ones of the lines into the same records; returns them."""
    lines = sorted({text for text in texts if text.strip() and "\n" not in text})
    usual, records = LAYOUT.usual(Lines("".join(f"{text}\n" for text in lines).encode()))
    rows = [("a" * 16, "x", 1, row, row, text, False, False) for row, text in enumerate(lines)]
    parsed = csv.parse(spark.createDataFrame(rows, LINE_SCHEMA).coalesce(1), LAYOUT, RECORD)
    by_spark = parsed.orderBy("row").select("reason", "record").toArrow()
    reasons, expected = by_spark["reason"].to_pylist(), by_spark["record"].combine_chunks()
    found = [
        (lines[row], record) for row, record in zip(usual.nonzero()[0], records.to_pylist(), strict=True)
    ]
    wanted = [
        # Spark's others have times that Python has not.
        (lines[row], reasons[row], repr(expected[row].as_py()))
        for row in map(int, usual.nonzero()[0])
    ]
    assert [(text, None, repr(record)) for text, record in found] == wanted
    return found


def usual_texts(found: Sequence[tuple[str, Any]], position: int) -> set[str]:
    return {text.split(",")[position] for text, _ in found}


@pytest.mark.parametrize("position", [0, 1, 2])
def test_numbers(position: int, spark: SparkSession) -> None:
    short = map(
        "".join, itertools.chain.from_iterable(itertools.product("01.-+eEdx N", repeat=n) for n in range(4))
    )
    edges = [
        *(
            "2147483647",
            "-2147483647",
            "-2147483648",
            "2147483648",
            "2147483647.0",
            "1.0000001",
            "1.0000000001",
        ),
        *(
            "0.9999999",
            "9007199254740993",
            "9223372036854775807",
            "1e308",
            "1e309",
            "-1e309",
            "5e-324",
            "1e-400",
        ),
        *(
            "4.9e-324",
            "2.2250738585072011e-308",
            "0.1000000000000000055511151231257827",
            "1.7976931348623159e308",
        ),
        *(
            "NaN",
            "nan",
            "Infinity",
            "inf",
            "-inf",
            "0x1p3",
            "1_000",
            "\u0661",
            "1\u00a0",
            "1e00000000001",
            "1e+5",
        ),
        *("-0", "-0.0", "00012", "1.", ".5", "1e", "  7  ", "7\t", "\t7", "1e5f", "123456789.123456789"),
        *("0e38", "0e39", "-0e99", "+0e50", "0.0e45", "00000000e99"),
    ]
    generator = random.Random(position)  # noqa: S311
    doubles = [repr(generator.uniform(-1, 1) * 10 ** generator.randint(-300, 300)) for _ in range(500)]
    cents = [f"{generator.randint(-99999, 99999) / 100:.2f}" for _ in range(500)]
    found = check(spark, [line(position, text) for text in [*short, *edges, *doubles, *cents]])
    seen = usual_texts(found, position)
    assert {"", "0", "-1", "10"} <= seen
    assert {"1.0", " 1 ", "2147483647", "-0"} - seen == set()
    assert ({"0.1", "1e1", *cents} <= seen) is (position == 0)


def test_times(spark: SparkSession) -> None:
    generator = random.Random(1)  # noqa: S311
    good = [
        "2018-02-08 05:07:37",
        "02/08/2018 12:07:37 AM",
        "08.02.2018T05:07:37",
        "20200229",
        "0001-01-01 00:00:00",
    ]
    other = [
        "2019-02-29 00:00:00",
        "1900-02-29 00:00:00",
        "2000-02-29 23:59:59",
        "0000-01-01 00:00:00",
        "2018-13-01 00:00:00",
    ]
    other += [
        "2018-12-31 24:00:00",
        "2018-12-31 23:60:00",
        "2018-12-31 23:59:60",
        "02/08/2018 00:07:37 AM",
        "02/08/2018 13:07:37 PM",
    ]
    other += [
        "02/08/2018 12:07:37 pm",
        "+2018-02-08 05:07:37",
        "12018-02-08 05:07:37",
        "2018-2-8 5:7:37",
        "2018-02- 8 05:07:37",
    ]
    other += [
        "2018-02-08T05:07:37",
        " 2018-02-08 05:07:37 ",
        "2018-02-08 05:07:37Z",
        "9999-12-31 23:59:59",
        "02/30/2018 01:00:00 AM",
    ]
    changed = []
    for text in (*good, *other):
        for _ in range(150):
            chars = list(text)
            for _ in range(generator.randint(1, 2)):
                chars[generator.randrange(len(chars))] = generator.choice("0123456789-/:. TAPMam+\u0661")
            changed.append("".join(chars))
    seen = usual_texts(check(spark, [line(4, text) for text in (*good, *other, *changed)]), 4)
    assert {*good, "2000-02-29 23:59:59", "9999-12-31 23:59:59"} <= seen
    assert "2019-02-29 00:00:00" not in seen


def test_quotes_escapes_columns_and_characters(spark: SparkSession) -> None:
    generator = random.Random(2)  # noqa: S311
    pieces = [
        '"',
        '""',
        "\\",
        '\\"',
        ",",
        "a",
        " ",
        "\t",
        "\r",
        "\0",
        "\ufeff",
        "ä",
        "𝄞",
        "\u00a0",
        "\x0b",
        "'",
        "#",
        "é\u0301",
    ]
    texts = [
        line(position, "".join(generator.choices(pieces, k=generator.randint(0, 4))))
        for position in (0, 3, 5, 6)
        for _ in range(700)
    ]
    whole = [
        "".join(generator.choices([*pieces, *GOOD, ","], k=generator.randint(1, 14))) for _ in range(1500)
    ]
    starts = [piece + line(0, "1") for piece in pieces]
    counts = [",".join(GOOD[:n]) for n in range(1, WIDTH)] + [",".join([*GOOD, "x"]), ",".join([*GOOD, ""])]
    found = check(
        spark, [*texts, *whole, *starts, *counts, ",".join(GOOD), line(3, ""), line(3, "x" * 70_000)]
    )
    seen = usual_texts(found, 3)
    assert {"a b", "ä", "\\", "'"} <= seen
    assert "" not in seen
    assert {"x.y": "𝄞", "z": "q"} in [dict(record["rest"] or ()) for _, record in found]


OTHER_PATTERNS = (
    "yyyy-MM-dd HH:mm:ss.SSS",
    " yyyy-MM-dd",
    "yyyy-M-d",
    "yyyy-MM-dd'+'",
    "yy-MM-dd",
    "MMM dd yyyy",
    "HH:mm:ss",
    "yyyy-MM-dd HH",
)


@pytest.mark.parametrize("pattern", OTHER_PATTERNS)
def test_other_patterns_are_left_to_spark(pattern: str, spark: SparkSession) -> None:
    layout = Layout(1, (Column("time", "timestamp_ntz", 0, False),), "", (), (pattern, *FORMATS))
    usual, _ = layout.usual(Lines(b"2018-02-08 05:07:37\n"))
    assert not usual.any()


def test_a_text_that_is_no_symbol_of_an_enum_is_an_error_of_its_row_alone(spark: SparkSession) -> None:
    """Spark's Avro writer would fail the whole job, without the row's name."""
    flag = {"type": "enum", "name": "Flag", "symbols": ["Y", "N"]}
    fields = [{"name": "flag", "type": ["null", flag]}, {"name": "again", "type": "x.Flag"}]
    schema = AvroSchema(json.dumps({"type": "record", "name": "R", "namespace": "x", "fields": fields}))
    record = schema.struct(spark)
    layout = csv.layout("flag,again", schema, record, Csv(), "x")
    texts = ["Y,N", "X,Y", ",Y", "N,y"]
    usual, _ = layout.usual(Lines("".join(f"{text}\n" for text in texts).encode()))
    assert usual.tolist() == [True, False, True, False]
    rows = [("a" * 16, "x", 1, row, row, text, False, False) for row, text in enumerate(texts)]
    parsed = csv.parse(spark.createDataFrame(rows, LINE_SCHEMA).coalesce(1), layout, record)
    encoded = encoded_rest(parsed, schema, SendingRules(1_000_000, "")).orderBy("row").collect()
    assert [row["reason"] for row in encoded] == [
        None,
        "column flag: 'X' is not one of Y, N",
        None,
        "column again: 'y' is not one of Y, N",
    ]
    assert [row["value"] is None for row in encoded] == [False, True, False, True]


@pytest.mark.parametrize("extra", [0, 1])
def test_a_row_is_too_large_by_the_bytes_of_its_record_alone(extra: int, spark: SparkSession) -> None:
    """At the limit, a byte behind it: which rows are usual is no matter."""
    schema = AvroSchema('{"type": "record", "name": "R", "fields": [{"name": "text", "type": "string"}]}')
    record, rules = schema.struct(spark), SendingRules(3_000, "")
    # Two bytes of its length.
    text = "ä" + "x" * (rules.max_value_bytes - 4 + extra)
    layout = csv.layout("text", schema, record, Csv(), "x", rules.max_value_bytes)
    usual, _ = layout.usual(Lines(f"{text}\n{'y' * layout.max_line}\n".encode()))
    assert usual.tolist() == [False, True]
    rows = spark.createDataFrame([("a" * 16, "x", 1, 0, 0, text, False, False)], LINE_SCHEMA)
    (found,) = encoded_rest(csv.parse(rows, layout, record), schema, rules).collect()
    assert len(found["value"]) == rules.max_value_bytes + extra
    assert bool(found["reason"]) == bool(extra)
    if extra:
        assert str(len(found["value"])) in found["reason"]
