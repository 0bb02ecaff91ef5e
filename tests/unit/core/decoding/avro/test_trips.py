"""Avro bodies of a stream: what is written is read, what is not a record is named and never guessed at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from sluice.config import streams
from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.record_batches.records import SCHEMA
from spark_jobs.common.kafka.avro import AvroSchema, Schemas
from tests.support.hostile_records import TRIP, body


@pytest.fixture
def schemas() -> Schemas:
    return Schemas.load(streams.load("nyc_taxi"))


def read(
    schemas: Schemas, values: Sequence[bytes | None], header: str | None = None
) -> list[tuple[str | None, dict[str, Any]]]:
    """The reason and the columns of each."""
    decoder = AvroDecoder(schemas.current.text, tuple(one.text for one in schemas.earlier))
    headers = [[{"key": b"avro-schema", "value": header.encode()}] if header else []] * len(values)
    found = decoder.decode(pa.array(values, pa.binary()), pa.array(headers, SCHEMA.field("headers").type))
    return list(zip(found.reasons.to_pylist(), found.columns.to_pylist(), strict=True))


def test_what_is_no_record_is_named(schemas: Schemas) -> None:
    good = body(schemas.current, TRIP)
    values = [good, b"garbage", b"", None, good[:-1], good + b"\x00", b"\x02\x04" * 60]
    reasons = [reason for reason, _ in read(schemas, values)]
    assert reasons[0] is None
    assert reasons[3] == "the record has no value (a tombstone)"
    said = (
        str(reason).startswith("not an Avro body of Trip")
        for n, reason in enumerate(reasons)
        if n not in (0, 3)
    )
    assert all(said)


# Nulls and zeros up to store_and_fwd_flag, a string of 2,147,483,639 bytes that are not there.
TOO_LONG = bytes(4) + bytes(8) + b"\x00" + b"\x02" + b"\xee\xff\xff\xff\x0f"
# In other_columns: a map of as many entries.
TOO_MANY = bytes(4) + bytes(8) + bytes(5) + bytes(8 * 7) + bytes(2) + b"\x02" + b"\xee\xff\xff\xff\x0f"


def test_a_record_that_names_a_length_beyond_memory_is_malformed_like_any_other(schemas: Schemas) -> None:
    assert len(TOO_LONG) == 19
    good = body(schemas.current, TRIP)
    first, *others, last = (reason for reason, _ in read(schemas, [good, TOO_LONG, TOO_MANY, good]))
    assert (first, last) == (None, None)
    assert all(str(reason).startswith("not an Avro body of Trip") for reason in others)


def test_what_the_reader_would_change_is_malformed() -> None:
    """Java's reader cuts a number that is too large for an int, and keeps the last of a map's equal keys."""
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
    found = read(Schemas(AvroSchema(text), ()), bodies)
    beyond = (
        "not an Avro body of Framed: a value is beyond its type, or a map's key is there twice or not UTF-8"
    )
    behind = "not an Avro body of Framed: 1 bytes are behind the body of Framed"
    assert [reason for reason, _ in found] == [None, beyond, beyond, beyond, behind]


def test_a_body_that_begins_as_a_wire_format_would_may_be_one_of_the_stream() -> None:
    numbers = [{"name": name, "type": ["null", "int"]} for name in ("a", "b")]
    texts = [{"name": "c", "type": "int"}, {"name": "text", "type": "string"}]
    nulls = AvroSchema(json.dumps({"type": "record", "name": "T", "fields": [*numbers, *texts]}))
    # Two nulls, 300, "abc".
    good = b"\0\0\xd8\x04\x06abc"
    framed = "not an Avro body of T: starts with 00 and a schema id (14156806): Confluent's wire format"
    found = read(Schemas(nulls), [good, good[:-1], good + b"x", b"\0\0\0\x01\x07" + b"\xff" * 9])
    assert [reason for reason, _ in found] == [
        None,
        f"{framed}; or it ends before its last field does",
        f"{framed}; or 1 bytes are behind the body of T",
        "not an Avro body of T: starts with 00 and a schema id (263): Confluent's wire format",
    ]
    plain = AvroSchema(json.dumps({"type": "record", "name": "T", "fields": texts}))
    # -2, and no character.
    ((reason, _),) = read(Schemas(plain), [b"\x03\x00x"])
    glue = "starts with 03 00: the wire format of AWS Glue's schema registry"
    assert reason == f"not an Avro body of T: {glue}; or 1 bytes are behind the body of T"


def test_an_earlier_schemas_records_are_read_with_it(schemas: Schemas) -> None:
    parsed = schemas.current.parsed
    parsed["fields"] = [f for f in parsed["fields"] if f["name"] not in ("other_columns", "airport_fee")]
    earlier = AvroSchema(json.dumps(parsed))
    written = body(earlier, TRIP)
    both = Schemas(schemas.current, (earlier,))
    ((reason, row),) = read(both, [written], earlier.fingerprint)
    assert (reason, row["VendorID"], row["airport_fee"]) == (None, 1, None)
    ((longer, _),) = read(both, [written + b"\x00"], earlier.fingerprint)
    assert longer == "not an Avro body of Trip: 1 bytes are behind the body of Trip"
    beyond = b"\x02\x82\x80\x80\x80\x20" + written[2:]
    assert written[:2] == b"\x02\x02"
    ((large, _),) = read(both, [beyond], earlier.fingerprint)
    assert "a value is beyond its type" in str(large), "its reader would cut it to 1"
    ((unnamed, _),) = read(both, [written])
    assert unnamed == "not an Avro body of Trip: it ends before its last field does"
    ((unknown, _),) = read(schemas, [written], earlier.fingerprint)
    assert unknown == f"written with an Avro schema that is unknown: {earlier.fingerprint}"


@pytest.mark.parametrize("field", ["VendorID", "passenger_count", "congestion_surcharge", "airport_fee"])
def test_what_may_be_missing_has_a_default(field: str, schemas: Schemas) -> None:
    (found,) = [f for f in schemas.current.parsed["fields"] if f["name"] == field]
    assert found["type"][0] == "null"
    assert found["default"] is None
    assert field not in schemas.current.required
