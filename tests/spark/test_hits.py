"""What the ISP stream makes of a record, and what its generator makes of a row's number."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from sluice.config import streams
from sluice.config.schema import parse_ddl
from sluice.config.sections.generator import Generated, parse
from spark_jobs.common.lake.tables import declared
from spark_jobs.isp_hits.generator import CORRUPTIONS, NEAR
from spark_jobs.isp_hits.generator import hits as values
from spark_jobs.isp_hits.transforms import FIELDS, hits

SPEC = streams.load("isp_hits")
# When the records came to Kafka: a minute after the hit.
CAME = datetime(2026, 11, 21, 10, 1, tzinfo=UTC)
HIT: dict[str, Any] = {
    "hit_id": "h-1",
    "hittime": "2026-11-21T10:00:00.250Z",
    "zipcode": "02139",
    "isp": "Störfix Cable",
    "ip": "100.64.0.1",
    "user_id": "02139-001",
    "url": "https://www.example.com/p/1",
    "status": 200,
    "bytes": 5_000_000_000,
}
LEFT_OUT = object()
NOT_JSON, NO_OBJECT = "not JSON, or a key is there twice", "not a JSON object"
AHEAD = "hittime is more than a day after the record came to Kafka"
NOT_A_TIME, NOT_FIVE = "hittime is not a time", "zipcode is not five digits"


def body(**given: Any) -> bytes:
    """The hit with other values; LEFT_OUT: without that key."""
    found = {name: value for name, value in (HIT | given).items() if value is not LEFT_OUT}
    return json.dumps(found, ensure_ascii=False).encode()


def raw(name: str, text: str) -> bytes:
    """The hit with that text in place of a value."""
    return body(**{name: "@"}).replace(b'"@"', text.encode())


def decoded(spark: SparkSession, *bodies: bytes | None, key: bytes | None = b"k") -> list[Row]:
    """Decode each body, in their order: `record` and `reason`."""
    rows = [(number, value, key, CAME, "isp-hits", 0) for number, value in enumerate(bodies)]
    frame = spark.createDataFrame(
        rows,
        "number int, value binary, key binary, _kafka_timestamp timestamp, _kafka_topic string, "
        "_kafka_timestamp_type int",
    )
    return hits(frame, declared(SPEC)).orderBy("number").select("record", "reason").collect()


CASES: list[tuple[bytes | None, str | None]] = [
    (body(), None),
    (None, "the record has no value (a tombstone)"),
    (b"\xff" + body(), "not UTF-8"),
    (body().replace(b"St", b"\xc3"), "not UTF-8"),
    (b"", "not JSON: it is empty"),
    *((text, NOT_JSON) for text in (b" ", body()[:-1], body() + b"x", b"{'a':1}", b"{broken", b"NaN")),
    *((text, NOT_JSON) for text in (body() + body(), body() + b"," + body(), body() + b",1]", b"[" + body())),
    (body()[:-1] + b',"isp":"again"}', NOT_JSON),
    ("\ufeff".encode() + body(), NOT_JSON),
    *((text, NO_OBJECT) for text in (b"[]", b"1", b'"hit"', b"null", b"true", b"[" + body() + b"]")),
    (b"  " + body() + b"\r\n", None),
    (b"{}", "no hit_id"),
    *((body(**{n: LEFT_OUT}), f"no {n}") for n in ("hit_id", "hittime", "zipcode", "isp", "user_id")),
    *(
        (body(**{n: v}), f"no {n}")
        for n in ("hit_id", "hittime", "zipcode", "isp", "user_id")
        for v in ("", None)
    ),
    *((body(**{n: LEFT_OUT}), None) for n in ("ip", "url", "status", "bytes")),
    *((body(**{n: None}), None) for n in ("ip", "url", "status", "bytes")),
    (body(more={"a": [1]}, Isp="x"), None),
    *((body(**{n: 5}), f"{n} is not a text") for n in FIELDS if n not in ("status", "bytes")),
    *((body(url=v), "url is not a text") for v in (True, {"a": 1}, ["x"])),
    *((body(bytes=v), "bytes is not a whole number of 64 bits") for v in ("1", 1.5, True, 2**63, [1])),
    (raw("bytes", "1e2"), "bytes is not a whole number of 64 bits"),
    (raw("bytes", "1.0"), "bytes is not a whole number of 64 bits"),
    *((body(status=v), "status is not a whole number of 32 bits") for v in (2**31, -(2**31) - 1)),
    (body(status="200"), "status is not a whole number of 64 bits"),
    *((body(status=v), None) for v in (2**31 - 1, -(2**31))),
    (body(zipcode=2139), "zipcode is not a text"),
    *((body(zipcode=v), NOT_FIVE) for v in ("2139", "021390", "0213a", " 02139", "02139\n", "٠٢١٣٩")),
    *(
        (body(hittime=v), NOT_A_TIME)
        for v in ("yesterday", "2026-11-21", "2026-11-21T10:00:00", "1795255200")
    ),
    *((body(hittime=v), NOT_A_TIME) for v in ("2026-02-30T10:00:00Z", "2026-11-21T25:00:00Z")),
    (body(hittime="2026-11-21T10:00:00Z\n"), NOT_A_TIME),
    (body(hittime="2000-12-31T23:59:59.999Z"), "hittime is before 2001"),
    (body(hittime="2001-01-01T00:00:00Z"), None),
    (body(hittime="2026-11-22T10:01:00Z"), None),
    (body(hittime="2026-11-22T10:01:01Z"), AHEAD),
    (body(hittime="2026-11-22T12:01:00+02:00"), None),
]


def test_a_record_is_a_hit_or_there_is_a_reason(spark: SparkSession) -> None:
    found = decoded(spark, *(value for value, _ in CASES))
    wrong = [
        (value, expected, row["reason"])
        for (value, expected), row in zip(CASES, found, strict=True)
        if row["reason"] != expected
    ]
    assert wrong == []


def test_every_column_of_the_schema_is_made(spark: SparkSession) -> None:
    made = [*FIELDS, "day", "kafka_topic", "kafka_key", "kafka_timestamp_type"]
    assert sorted(made) == sorted(parse_ddl(SPEC.schema_file.read_text()))
    (row,) = decoded(spark, body(hittime="2026-11-21T00:30:00.250+01:00"))
    assert row["record"].asDict() == {
        **HIT,
        "hittime": datetime(2026, 11, 20, 23, 30, 0, 250_000),  # noqa: DTZ001
        "day": date(2026, 11, 20),
        "kafka_topic": "isp-hits",
        "kafka_key": "k",
        "kafka_timestamp_type": 0,
    }


@pytest.mark.parametrize(("key", "text"), [(None, None), (b"", ""), (b"a\xffb" * 50, f"X'{'61FF62' * 50}'")])
def test_any_key_is_kept_as_text_that_tells_its_bytes(
    spark: SparkSession, key: bytes | None, text: str | None
) -> None:
    (row,) = decoded(spark, body(), key=key)
    assert (row["reason"], row["record"]["kafka_key"]) == (None, text)


def parameters(**values: Any) -> Generated:
    """Those of SOME, with other values."""
    assert SPEC.generator is not None
    return parse(SPEC.generator, {**VALUES, **values}, "x")


VALUES: dict[str, Any] = {
    "rows": 20_000,
    "seed": 7,
    "start_time": "2026-11-20T06:00:00Z",
    "duration_hours": 24,
    "zipcodes": 500,
    "late_percent": 4.0,
    "duplicate_percent": 3.0,
    "malformed_percent": 2.0,
}
SOME = parameters()


def generated(spark: SparkSession, source: Generated, first: int, until: int, tasks: int) -> DataFrame:
    return values(spark.range(first, until, 1, tasks).toDF("row"), source)


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> list[tuple[int, dict[str, Any] | None]]:
    """The rows of SOME: the hit, or None for a malformed one, as the consumer judges."""
    frame = generated(spark, SOME, 0, SOME.rows, 8).withColumns(
        {
            "_kafka_timestamp": F.lit("2026-11-21 06:00:00").cast("timestamp"),
            "_kafka_topic": F.lit("isp-hits"),
            "_kafka_timestamp_type": F.lit(0),
            "key": F.lit(b"k"),
        }
    )
    rows = hits(frame, declared(SPEC)).orderBy("row").select("row", "record", "reason").collect()
    return [(row["row"], row["record"].asDict() if row["reason"] is None else None) for row in rows]


def good(made: list[tuple[int, dict[str, Any] | None]]) -> list[tuple[int, dict[str, Any]]]:
    return [(row, hit) for row, hit in made if hit is not None]


def test_a_row_is_the_same_whatever_else_is_made(spark: SparkSession) -> None:
    few = parameters(rows=3_000)
    whole = [tuple(row) for row in generated(spark, few, 0, 3_000, 1).orderBy("row").collect()]
    parts = [tuple(row) for row in generated(spark, few, 1_000, 2_000, 7).orderBy("row").collect()]
    shuffled = values(spark.range(0, 3_000, 1, 3).toDF("row").repartition(5), few).orderBy("row").collect()
    assert parts == whole[1_000:2_000]
    assert [tuple(row) for row in shuffled] == whole
    other = generated(spark, parameters(rows=3_000, seed=8), 0, 3_000, 1).orderBy("row").collect()
    assert not {bytes(value) for _, value in whole if value} & {bytes(r.value) for r in other if r.value}


def test_shares_are_what_was_asked_for(made: list[tuple[int, dict[str, Any] | None]]) -> None:
    hits_ = good(made)
    assert [row for row, _ in made] == list(range(SOME.rows))
    assert 0.018 < 1 - len(hits_) / SOME.rows < 0.022
    first_rows: dict[str, int] = {}
    repeats = []
    for row, hit in hits_:
        if hit["hit_id"] in first_rows:
            repeats.append((row - first_rows[hit["hit_id"]], dict(made)[first_rows[hit["hit_id"]]] == hit))
        first_rows.setdefault(hit["hit_id"], row)
    assert all(id_.rpartition("-")[2] == str(row) for id_, row in first_rows.items()), (
        "none is of a malformed"
    )
    # A repeat of what is malformed, or a repeat itself, is none: a little less than was asked for.
    assert 0.025 < len(repeats) / SOME.rows < 0.031
    assert all(0 < after <= NEAR and same for after, same in repeats)
    statuses = Counter(hit["status"] for _, hit in hits_)
    asked = {200: 0.90, 304: 0.05, 404: 0.04, 500: 0.01}
    assert {status: n / len(hits_) for status, n in statuses.items()} == pytest.approx(asked, abs=0.006)


def test_few_zipcodes_and_isps_have_most_hits(made: list[tuple[int, dict[str, Any] | None]]) -> None:
    hits_ = [hit for _, hit in good(made)]
    zipcodes = [n for _, n in Counter(hit["zipcode"] for hit in hits_).most_common()]
    assert len(zipcodes) == SOME["zipcodes"]
    # ln 2 / ln 501 of them, ln 1.5 / ln 501, …
    shares = [n / len(hits_) for n in zipcodes[:3]]
    assert shares == pytest.approx([0.111, 0.065, 0.046], abs=0.006)
    assert sum(zipcodes[:50]) / len(hits_) == pytest.approx(0.63, abs=0.02)
    assert len({hit["zipcode"][0] for hit in hits_}) == 10
    isps = [n for _, n in Counter(hit["isp"] for hit in hits_).most_common()]
    assert len(isps) == SOME["isps"]
    assert 0.14 < isps[0] / len(hits_) < 0.25
    of_users: dict[str, set[tuple[str, str, str]]] = {}
    for hit in hits_:
        of_users.setdefault(hit["user_id"], set()).add((hit["zipcode"], hit["isp"], hit["ip"]))
    assert all(len(found) == 1 for found in of_users.values()), "a household has one line"


def test_hits_follow_the_day_in_order_but_for_late_ones(
    made: list[tuple[int, dict[str, Any] | None]],
) -> None:
    begin, seen, late = datetime(2026, 11, 20, 6), datetime(2026, 1, 1), 0  # noqa: DTZ001
    hours: Counter[int] = Counter()
    for _, hit in good(made):
        time = hit["hittime"]
        hours[time.hour] += 1
        behind = seen - time
        # A repeat comes up to a thousand rows after its first coming: in the night that is more than an hour.
        if behind >= timedelta(minutes=SOME["max_late_minutes"] / 2):
            late += 1
            assert behind < timedelta(minutes=SOME["max_late_minutes"] + 90)
        seen = max(seen, time)
    assert begin - timedelta(minutes=SOME["max_late_minutes"]) <= min(h["hittime"] for _, h in good(made))
    assert seen < begin + timedelta(hours=24)
    assert 0.03 < late / SOME.rows < 0.07
    assert hours[20] > 2.5 * hours[8]


def test_there_is_one_of_every_kind_of_malformed_record(spark: SparkSession) -> None:
    source = parameters(rows=500, duration_hours=1, malformed_percent=100.0, duplicate_percent=0.0)
    bodies = [row["value"] for row in generated(spark, source, 0, 500, 2).collect()]
    reasons = Counter(row["reason"] for row in decoded(spark, *bodies))
    assert None not in reasons
    assert len(reasons) == len(CORRUPTIONS)


@pytest.mark.parametrize("change", [{"zipcodes": 1, "isps": 1}, {"isps": 1_000, "zipcodes": 50_000}])
def test_the_bounds_of_the_parameters_make_hits(spark: SparkSession, change: dict[str, Any]) -> None:
    source = parameters(rows=2_000, malformed_percent=0.0, duplicate_percent=100.0, **change)
    bodies = [bytes(row["value"]) for row in generated(spark, source, 0, 2_000, 1).collect()]
    found = [json.loads(body) for body in bodies]
    assert all(len(hit["zipcode"]) == 5 for hit in found)
    assert len({hit["hit_id"] for hit in found}) == 2_000, "where all are repeats, there is none to repeat"
