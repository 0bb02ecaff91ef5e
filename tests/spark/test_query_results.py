"""Queries on the edges: of windows, of days, of the watermark, and of a clock that is put forward."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.sections.query import Query, TimeWindow
from sluice.config.sections.sink import Sink
from spark_jobs.common.queries.aggregate import early, late, results

SINKS = [Sink("console")]
WINDOWS = Query(SINKS, ["zipcode"], {"hits": "count"}, "hittime", TimeWindow(10, 5, 2), 10)
DAYS = Query(
    SINKS,
    ["zipcode"],
    {"hits": "count", "users": "distinct user_id", "isps": "distinct isp"},
    "hittime",
    TimeWindow(1440, 1440),
    10,
)
ZIPCODES = Query(SINKS, ["zipcode"], {"hits": "count"}, mode="complete")


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def hits(spark: SparkSession, *rows: tuple[str, str, str, str], arrived: str = "") -> DataFrame:
    """zipcode, moment (UTC), user and ISP of each, which came to Kafka at its own time or at ``arrived``."""
    made = [(z, seconds(at), user, isp, 0, n) for n, (z, at, user, isp) in enumerate(rows)]
    columns = (
        "zipcode STRING, at BIGINT, user_id STRING, isp STRING, _kafka_partition INT, _kafka_offset BIGINT"
    )
    frame = spark.createDataFrame(made, columns)
    came = F.lit(seconds(arrived)) if arrived else F.col("at")
    timed = frame.withColumn("hittime", F.timestamp_seconds("at"))
    return timed.withColumn("_kafka_timestamp", F.timestamp_seconds(came)).drop("at")


EDGES = [
    "2026-03-01T10:02:00", "2026-03-01T10:01:59", "2026-03-01T10:06:59", "2026-03-01T10:07:00",
    # Over midnight, over a year, in a leap day.
    "2026-03-01T23:59:59", "2026-03-02T00:00:00", "2025-12-31T23:58:00", "2028-02-29T23:57:00",
    # As New York's and Berlin's clocks are put forward, and back.
    "2026-03-08T06:59:59", "2026-03-08T07:00:00", "2026-11-01T05:30:00", "2026-11-01T06:30:00",
    "2026-03-29T00:59:59", "2026-03-29T01:00:00", "2026-10-25T00:30:00", "2026-10-25T01:30:00",
    "1970-01-01T00:00:00", "1969-12-31T23:59:59",
]  # fmt: skip


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_spark_and_the_validation_put_a_hit_into_the_same_windows(
    spark: SparkSession, configure: Callable[[dict[str, str]], None], zone: str
) -> None:
    """Whatever the session's zone is: a job's is UTC, and a window is of moments, not of a wall clock's."""
    configure({"spark.sql.session.timeZone": zone})
    given = hits(spark, *((at, at, "u", "i") for at in EDGES))
    assert WINDOWS.window is not None
    found = results(given, WINDOWS).select("zipcode", F.unix_seconds("window_start"), "hits").collect()
    assert sorted((row[0], row[1], row[2]) for row in found) == sorted(
        (at, start, 1) for at in EDGES for start in WINDOWS.window.starts(seconds(at))
    )


def test_a_day_ends_at_midnight_and_counts_different_values(spark: SparkSession) -> None:
    given = hits(
        spark,
        ("1", "2026-03-08T23:59:59", "ann", "x"),
        ("1", "2026-03-08T00:00:00", "bob", "x"),
        ("1", "2026-03-08T12:00:00", "ann", "y"),
        ("1", "2026-03-09T00:00:00", "ann", "x"),
    )
    rows = results(given, DAYS).orderBy("window_start").select("hits", "users", "isps").collect()
    assert [tuple(row) for row in rows] == [(3, 2, 2), (1, 1, 1)]


def test_without_windows_all_that_ever_came_is_counted(spark: SparkSession) -> None:
    given = hits(spark, *((zipcode, EDGES[0], "u", "i") for zipcode in ("1", "2", "1")))
    assert sorted(tuple(row) for row in results(given, ZIPCODES).collect()) == [("1", 2), ("2", 1)]


def test_a_window_that_ends_at_the_watermark_is_final(spark: SparkSession) -> None:
    """A hit that is late by exactly the watermark misses the window that it ends."""
    given = hits(
        spark,
        ("1", "2026-03-01T10:11:59", "u", "i"),
        ("1", "2026-03-01T10:12:00", "u", "i"),
        ("1", "2026-03-01T10:01:59", "u", "i"),
    )
    watermark = seconds("2026-03-01T10:12:00") * 1000
    found = late(given, WINDOWS, watermark).select("_kafka_offset", F.unix_seconds("window_start")).collect()
    starts = {at: seconds(f"2026-03-01T{at}:00") for at in ("09:52", "09:57", "10:02")}
    assert sorted((row[0], row[1]) for row in found) == [
        (0, starts["10:02"]),
        (2, starts["09:52"]),
        (2, starts["09:57"]),
    ]
    earlier = late(given, WINDOWS, watermark - 1).select("_kafka_offset").collect()
    assert sorted(row[0] for row in earlier) == [2, 2]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_what_is_dated_ahead_by_more_than_the_watermark_is_in_no_window(
    spark: SparkSession, configure: Callable[[dict[str, str]], None], zone: str
) -> None:
    """Also over the hour that a clock is put forward: minutes are minutes."""
    configure({"spark.sql.session.timeZone": zone})
    given = hits(
        spark,
        ("in time", "2026-03-08T07:05:00", "u", "i"),
        ("a second more", "2026-03-08T07:05:01", "u", "i"),
        ("a day", "2026-03-09T06:55:00", "u", "i"),
        arrived="2026-03-08T06:55:00",
    )
    unknown = given.withColumn("_kafka_timestamp", F.lit(None).cast("timestamp")).where("zipcode = 'in time'")
    timeless = given.withColumn("hittime", F.lit(None).cast("timestamp")).where("zipcode = 'in time'")
    renamed = unknown.withColumns({"zipcode": F.lit("unknown"), "_kafka_offset": F.lit(9).cast("long")})
    everything = given.union(renamed).union(timeless)
    found = results(everything, WINDOWS).select("zipcode", "hits").distinct().collect()
    assert [tuple(row) for row in found] == [("in time", 1)]
    assert sorted(row[0] for row in early(everything, WINDOWS).select("zipcode").collect()) == [
        "a day", "a second more", "unknown",
    ]  # fmt: skip
    watermark = seconds("2026-03-10T00:00:00") * 1000
    both = late(everything, WINDOWS, watermark).select("_kafka_offset").distinct().collect()
    assert [row[0] for row in both] == [0], "only the one in time; an early row is not late as well"
