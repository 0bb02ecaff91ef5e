"""Avro bodies: what is written is read, what is not a record is named and never guessed at."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from local.services import streams as stream_programs
from spark_jobs.common.kafka.avro import AvroSchema, Schemas, decoded
from spark_jobs.common.kafka.keys import with_identity
from tests.support.hostile_records import TRIP, body
from tests.support.services import Services


def read(
    spark: SparkSession, schemas: Schemas, values: Sequence[bytes | None], header: str | None = None
) -> list[Row]:
    headers = [("avro-schema", header.encode())] if header else None
    rows = [(number, value, headers) for number, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "n int, value binary, headers array<struct<key:string,value:binary>>")
    return decoded(frame, schemas).select("n", "record", "reason").orderBy("n").collect()


def test_another_librarys_body_is_read_and_spark_writes_the_same_bytes(
    spark: SparkSession, schemas: Schemas
) -> None:
    written = body(schemas.current, TRIP)
    (row,) = read(spark, schemas, [written])
    assert row.reason is None
    assert (row.record.VendorID, row.record.trip_distance, row.record.passenger_count) == (1, 1.5, None)
    frame = spark.createDataFrame([row.record], schemas.current.struct(spark))
    (encoded,) = frame.select(to_avro(F.struct("*"), schemas.current.text)).collect()
    assert bytes(encoded[0]) == written


def test_what_is_no_record_is_named(spark: SparkSession, schemas: Schemas) -> None:
    good = body(schemas.current, TRIP)
    values = [good, b"garbage", b"", None, good[:-1], good + b"\x00", b"\x02\x04" * 60]
    reasons = [row.reason for row in read(spark, schemas, values)]
    assert reasons[0] is None
    assert reasons[3] == "the record has no value (a tombstone)"
    said = (
        reason.startswith("not an Avro body of Trip") for n, reason in enumerate(reasons) if n not in (0, 3)
    )
    assert all(said)


# Nulls and zeros up to store_and_fwd_flag, a string of 2,147,483,639 bytes that are not there.
TOO_LONG = bytes(4) + bytes(8) + b"\x00" + b"\x02" + b"\xee\xff\xff\xff\x0f"
# In other_columns: a map of as many entries.
TOO_MANY = bytes(4) + bytes(8) + bytes(5) + bytes(8 * 7) + bytes(2) + b"\x02" + b"\xee\xff\xff\xff\x0f"
# As each job does. Without the limits the JVM ends, which no test of the shared session should risk.
JOB = """
import sys
from sluice.config import platform, streams
from spark_jobs.common.kafka.avro import Schemas, decoded
from spark_jobs.common.spark import session

spark = session.start("avro", platform.load("consumer"), 1)
schemas = Schemas.load(streams.load("nyc_taxi"))
rows = [(n, bytes.fromhex(value), None) for n, value in enumerate(sys.argv[1:])]
frame = spark.createDataFrame(rows, "n int, value binary, headers array<struct<key:string,value:binary>>")
for row in decoded(frame, schemas).select("n", "reason").orderBy("n").collect():
    print("reason", row.reason)
print(spark.conf.get("spark.executor.defaultJavaOptions"))
"""


def test_a_record_that_names_a_length_beyond_memory_is_malformed_like_any_other(
    services: Services, schemas: Schemas, tmp_path: Path
) -> None:
    context, good = services.stack.context, body(schemas.current, TRIP)
    stream_programs.prepare(context)
    assert len(TOO_LONG) == 19
    done = subprocess.run(
        [context.python, "-c", JOB, *(value.hex() for value in (good, TOO_LONG, TOO_MANY, good))],
        env=context.job_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    *reasons, executors = done.stdout.splitlines() or [""]
    assert done.returncode == 0, done.stderr[-3000:]
    malformed = "reason not an Avro body of Trip"
    assert reasons[::3] == ["reason None"] * 2
    assert all(reason.startswith(malformed) for reason in reasons[1:3])
    assert "-Dorg.apache.avro.limits.string.maxLength=16777216" in executors


def test_no_record_is_left_to_an_interpreter(spark: SparkSession, schemas: Schemas) -> None:
    """Spark interprets a plan with a lambda, and Java a method of more than 8,000 bytes."""
    columns = "key binary, value binary, headers array<struct<key:string,value:binary>>, _kafka_offset bigint"
    records = spark.createDataFrame([], columns)
    rows = decoded(with_identity(records), schemas).where("reason is null").select("record.*", "_source_id")
    explain = cast("Any", spark._jvm).PythonSQLUtils.explainString
    plan, generated = (explain(rows._jdf.queryExecution(), mode) for mode in ("simple", "codegen"))
    generators = [line for line in plan.splitlines() if "Generate inline" in line]
    assert generators
    assert all("*(" in line for line in generators), plan
    assert max(map(int, re.findall(r"maxMethodCodeSize:(\d+)", generated))) < 8_000
    # The others are for the bodies whose bytes differ, without a value of theirs in the plan.
    assert plan.count("from_avro(") - plan.count("to_avro(from_avro(") == 1


def test_what_the_reader_would_change_is_malformed(spark: SparkSession) -> None:
    """Avro's reader cuts a number that is too large for an int, and keeps the last of a map's equal keys."""
    text = json.dumps(
        {
            "type": "record",
            "name": "Framed",
            "fields": [
                {"name": "number", "type": "int"},
                {"name": "flag", "type": "boolean"},
                {"name": "texts", "type": {"type": "map", "values": "string"}},
                {"name": "end", "type": {"type": "enum", "name": "End", "symbols": ["END"]}},
            ],
        }
    )
    number, flag, texts = b"\x02", b"\x01", b"\x02\x02a\x02x\x00\x00"
    bodies = [
        number + flag + texts,
        b"\x82\x80\x80\x80\x20" + flag + texts,
        number + b"\x07" + texts,
        number + flag + b"\x04\x02a\x02x\x02a\x02y\x00\x00",
        number + flag + texts + b"\x00",
    ]
    found = read(spark, Schemas(AvroSchema(text), ()), bodies)
    beyond = (
        "not an Avro body of Framed: a value is beyond its type, or a map's key is there twice or not UTF-8"
    )
    behind = "not an Avro body of Framed: 1 bytes are behind the body of Framed"
    assert [row.reason for row in found] == [None, beyond, beyond, beyond, behind]


def test_a_body_that_begins_as_a_wire_format_would_may_be_one_of_the_stream(spark: SparkSession) -> None:
    numbers = [{"name": name, "type": ["null", "int"]} for name in ("a", "b")]
    texts = [{"name": "c", "type": "int"}, {"name": "text", "type": "string"}]
    nulls = AvroSchema(json.dumps({"type": "record", "name": "T", "fields": [*numbers, *texts]}))
    # Two nulls, 300, "abc".
    good = b"\0\0\xd8\x04\x06abc"
    framed = "not an Avro body of T: starts with 00 and a schema id (14156806): Confluent's wire format"
    found = read(spark, Schemas(nulls), [good, good[:-1], good + b"x", b"\0\0\0\x01\x07" + b"\xff" * 9])
    assert [row.reason for row in found] == [
        None,
        f"{framed}; or it ends before its last field does",
        f"{framed}; or 1 bytes are behind the body of T",
        "not an Avro body of T: starts with 00 and a schema id (263): Confluent's wire format",
    ]
    plain = AvroSchema(json.dumps({"type": "record", "name": "T", "fields": texts}))
    # -2, and no character.
    (rejected,) = read(spark, Schemas(plain), [b"\x03\x00x"])
    glue = "starts with 03 00: the wire format of AWS Glue's schema registry"
    assert rejected.reason == f"not an Avro body of T: {glue}; or 1 bytes are behind the body of T"


def test_an_earlier_schemas_records_are_read_with_it(spark: SparkSession, schemas: Schemas) -> None:
    parsed = schemas.current.parsed
    parsed["fields"] = [f for f in parsed["fields"] if f["name"] not in ("other_columns", "airport_fee")]
    earlier = AvroSchema(json.dumps(parsed))
    written = body(earlier, TRIP)
    both = Schemas(schemas.current, (earlier,))
    (row,) = read(spark, both, [written], earlier.fingerprint)
    assert (row.reason, row.record.VendorID, row.record.airport_fee) == (None, 1, None)
    (longer,) = read(spark, both, [written + b"\x00"], earlier.fingerprint)
    assert longer.reason == "not an Avro body of Trip: 1 bytes are behind the body of Trip"
    beyond = b"\x02\x82\x80\x80\x80\x20" + written[2:]
    assert written[:2] == b"\x02\x02"
    (large,) = read(spark, both, [beyond], earlier.fingerprint)
    assert "a value is beyond its type" in large.reason, "its reader would cut it to 1"
    (unnamed,) = read(spark, both, [written])
    assert unnamed.reason == "not an Avro body of Trip: it ends before its last field does"
    (unknown,) = read(spark, schemas, [written], earlier.fingerprint)
    assert unknown.reason == f"written with an Avro schema that is unknown: {earlier.fingerprint}"


@pytest.mark.parametrize("field", ["VendorID", "passenger_count", "congestion_surcharge", "airport_fee"])
def test_what_may_be_missing_has_a_default(field: str, schemas: Schemas) -> None:
    (found,) = [f for f in schemas.current.parsed["fields"] if f["name"] == field]
    assert found["type"][0] == "null"
    assert found["default"] is None
    assert field not in schemas.current.required
