"""Results as a person sees them: printed, and in the session's memory."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from sluice.config.sections.query import Query, TimeWindow
from sluice.config.sections.sink import Sink
from spark_jobs.common.queries.preview import ROWS, ConsoleSink, MemorySink

CONSOLE, MEMORY = Sink("console"), Sink("memory")
COUNTS = Query([CONSOLE, MEMORY], ["zipcode"], {"hits": "count"})
WINDOWS = Query([MEMORY], ["zipcode"], {"hits": "count"}, "hittime", TimeWindow(60, 60), 10)
ROWS_ONLY = Query([MEMORY], ["zipcode"], mode="append")


def frame(spark: SparkSession, hits: dict[str, int]) -> DataFrame:
    asked = "select key zipcode, value hits from explode(from_json(:hits, 'map<string, bigint>'))"
    return spark.sql(asked, args={"hits": json.dumps(hits)})


def test_the_console_prints_each_batch_with_its_name_in_the_order_of_keys(spark: SparkSession) -> None:
    out = io.StringIO()
    sink = ConsoleSink("isp", "zipcodes", COUNTS)
    with redirect_stdout(out):
        sink.write(3, frame(spark, {"20095": 2, "10115": 41, "a rather long zipcode, not cut off": 1}))
    lines = out.getvalue().splitlines()
    assert lines[0] == "isp zipcodes, batch 3:"
    assert [line.split("|")[1].strip() for line in lines if line.startswith("|")] == [
        "zipcode",
        "10115",
        "20095",
        "a rather long zipcode, not cut off",
    ]
    with redirect_stdout(out):
        sink.write(3, frame(spark, {"10115": 41}))
    assert out.getvalue().count("batch 3:") == 2, "it knows no batch"


def test_the_console_prints_no_more_than_a_person_reads(spark: SparkSession) -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        ConsoleSink("isp", "zipcodes", COUNTS).write(0, frame(spark, {str(n): n for n in range(90)}))
    assert f"only showing top {ROWS} rows" in out.getvalue()
    assert len([line for line in out.getvalue().splitlines() if line.startswith("|")]) == ROWS + 1


def test_the_console_prints_where_output_goes_now(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    ConsoleSink("isp", "zipcodes", COUNTS).write(0, frame(spark, {"10115": 41}))
    assert "isp zipcodes, batch 0:" in capsys.readouterr().out


def test_memory_holds_the_newest_result_of_each_key(spark: SparkSession) -> None:
    sink = MemorySink("isp", "zipcodes", COUNTS)
    assert sink.view == "global_temp.isp_zipcodes"

    def seen() -> dict[str, tuple[int, int]]:
        rows = spark.table("global_temp.isp_zipcodes").collect()
        assert len({row["zipcode"] for row in rows}) == len(rows)
        return {row["zipcode"]: (row["hits"], row["version"]) for row in rows}

    sink.write(0, frame(spark, {"10115": 1, "20095": 1}))
    assert seen() == {"10115": (1, 0), "20095": (1, 0)}
    sink.write(1, frame(spark, {"10115": 5, "50667": 2}))
    assert seen() == {"10115": (5, 1), "20095": (1, 0), "50667": (2, 1)}
    sink.write(2, frame(spark, {}))
    assert len(seen()) == 3, "a batch without rows takes nothing away"


def test_memory_holds_all_rows_of_a_query_that_measures_nothing(spark: SparkSession) -> None:
    sink = MemorySink("isp", "rows", ROWS_ONLY)
    sink.write(0, frame(spark, {"10115": 1}))
    sink.write(1, frame(spark, {"10115": 1, "20095": 1}))
    view = spark.table("global_temp.isp_rows")
    assert view.columns == ["zipcode", "hits"]
    assert sorted(row["zipcode"] for row in view.collect()) == ["10115", "10115", "20095"]


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine in a time zone whose clocks go back."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def test_windows_that_the_machine_s_clock_has_twice_are_two(spark: SparkSession, berlin: None) -> None:
    starts = [datetime(2026, 10, 25, hour, tzinfo=UTC) for hour in range(3)]
    asked = (
        "select '10115' zipcode, timestamp_seconds(col) window_start, col hits "
        "from explode(from_json(:starts, 'array<bigint>'))"
    )
    given = json.dumps([int(start.timestamp()) for start in starts])
    sink = MemorySink("isp", "windows", WINDOWS)
    sink.write(0, spark.sql(asked, args={"starts": given}))
    found = (
        spark.table("global_temp.isp_windows").selectExpr("unix_seconds(window_start) at", "hits").collect()
    )
    assert sorted(row["at"] for row in found) == [int(start.timestamp()) for start in starts]
    assert all(row["at"] == row["hits"] for row in found)
