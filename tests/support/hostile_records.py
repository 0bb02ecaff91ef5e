"""Records that others send: bodies and headers of the taxi's schema, and edits of a Wikipedia event."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from typing import Any

import fastavro

from spark_jobs.common.kafka.avro import AvroSchema

TRIP: dict[str, Any] = {
    "VendorID": 1,
    "tpep_pickup_datetime": 1_518_066_457_000_000,
    "tpep_dropoff_datetime": 1_518_066_980_000_000,
    "trip_distance": 1.5,
    "PULocationID": 79,
    "DOLocationID": 162,
    **dict.fromkeys(
        (
            "fare_amount", "extra", "mta_tax", "tip_amount", "tolls_amount", "improvement_surcharge",
            "total_amount",
        ),
        2.0,
    ),
}  # fmt: skip
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
Headers = list[tuple[str, str | bytes | None]]


def body(schema: AvroSchema, record: Mapping[str, Any] = TRIP, **given: Any) -> bytes:
    """Written by another Avro library than the one that reads it; ``given``: other values."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema.parsed), {**record, **given})
    return out.getvalue()


def zigzag(number: int) -> bytes:
    number, out = (number << 1) ^ (number >> 63), b""
    while True:
        byte, number = number & 0x7F, number >> 7
        out += bytes([byte | 0x80]) if number else bytes([byte])
        if not number:
            return out


def block(pairs: Mapping[bytes, bytes], *, is_sized: bool) -> bytes:
    """A block of a map of texts; with its size as Go writes it, or not."""
    entries = b"".join(zigzag(len(k)) + k + zigzag(len(v)) + v for k, v in pairs.items())
    return zigzag(-len(pairs)) + zigzag(len(entries)) + entries if is_sized else zigzag(len(pairs)) + entries


def with_map(trip: bytes, *blocks: bytes) -> bytes:
    """A trip without ``other_columns``, its last field, with the map of these blocks."""
    return trip[:-1] + zigzag(1) + b"".join(blocks) + zigzag(0)


def cases(schema: AvroSchema) -> list[tuple[str, bytes, Headers, str | None]]:
    """Name, value, headers, and the reason (None: it is a row)."""
    plain = body(schema)
    named = body(schema, other_columns={"k": "vv"})
    flag = body(schema, store_and_fwd_flag="ZZ")
    no = "not an Avro body of Trip: "
    twice = f"{no}a value is beyond its type, or a map's key is there twice or not UTF-8"
    pickup = "tpep_pickup_datetime is a time beyond the years 1 to 9999: "
    sized, two = {b"k": b"v", b"k2": b"v2"}, ({b"z": b"1"}, {b"a": b"2", b"m": b"3"})

    def at(micros: int) -> bytes:
        return body(schema, tpep_pickup_datetime=micros)

    return [
        ("a map in a sized block", with_map(plain, block(sized, is_sized=True)), [], None),
        ("a map in two blocks", with_map(plain, *(block(one, is_sized=False) for one in two)), [], None),
        ("a map in two sized blocks", with_map(plain, *(block(one, is_sized=True) for one in two)), [], None),
        (
            "a map in another order",
            with_map(plain, block({b"%d" % n: b"v" for n in range(40, 0, -1)}, is_sized=False)),
            [],
            None,
        ),
        ("a key in two sized blocks", with_map(plain, *[block({b"k": b"v"}, is_sized=True)] * 2), [], twice),
        (
            "a number beyond its type beside a sized block",
            with_map(plain, block(sized, is_sized=True)).replace(zigzag(79), zigzag(79 + 2**33), 1),
            [],
            twice,
        ),
        (
            "Confluent's wire format",
            b"\0" + struct.pack(">I", 7) + plain,
            [],
            f"{no}starts with 00 and a schema id (7): Confluent's wire format",
        ),
        (
            "Confluent's wire format, another schema",
            b"\0" + struct.pack(">I", 100_042) + b"\x02\x06abc",
            [],
            f"{no}starts with 00 and a schema id (100042): Confluent's wire format",
        ),
        (
            "one object",
            b"\xc3\x01" + bytes(8) + plain,
            [],
            f"{no}starts with C3 01: Avro's single-object encoding",
        ),
        ("gzip", b"\x1f\x8b\x08\0" + plain, [], f"{no}starts with 1F 8B: gzip"),
        ("JSON", b'{"VendorID": 1}', [], f"{no}it seems to be JSON"),
        ("Latin-1", flag.replace(b"ZZ", b"N\xd1"), [], "store_and_fwd_flag is not UTF-8"),
        ("half a surrogate pair", body(schema, store_and_fwd_flag="ZZZ").replace(b"ZZZ", b"\xed\xa0\x80"), [],
         "store_and_fwd_flag is not UTF-8"),
        ("Latin-1 in a key", named.replace(b"k", b"\xd1"), [], twice),
        ("Latin-1 in a value", named.replace(b"vv", b"v\xd1"), [], "a value of other_columns is not UTF-8"),
        (
            "a character cut between key and value",
            with_map(plain, block({b"\xc3": b"\xb1"}, is_sized=False)),
            [],
            twice,
        ),
        ("nanoseconds", at(1_518_066_457_000_000_000), [], f"{pickup}+50075-08-11 14:56:40"),
        ("the least long", at(LONG_MIN), [], f"{pickup}-290308-12-21 19:59:05.224192"),
        ("the largest long", at(LONG_MAX), [], f"{pickup}+294247-01-10 04:00:54.775807"),
        ("the first microsecond", at(FIRST_MICROS), [], None),
        ("one before it", at(FIRST_MICROS - 1), [], f"{pickup}0000-12-31 23:59:59.999999"),
        ("the last microsecond", at(LAST_MICROS), [], None),
        ("one behind it", at(LAST_MICROS + 1), [], f"{pickup}+10000-01-01 00:00:00"),
        (
            "a fingerprint that is not UTF-8",
            plain,
            [("avro-schema", b"\xff\x00\xfe")],
            "written with an Avro schema that is unknown: X'FF00FE'",
        ),
        (
            "a fingerprint with control characters",
            plain,
            [("avro-schema", b"a\x00b\x1b[31m\xe2\x80\xae\xf0\x9f\x91\xa9")],
            "written with an Avro schema that is unknown: a\\u0000b\\u001b[31m\\u202e\N{WOMAN}",
        ),
        ("a byte behind", plain + b"\0", [], f"{no}1 bytes are behind the body of Trip"),
        ("a cut body", plain[:-3], [], f"{no}it ends before its last field does"),
        ("no byte", b"", [], f"{no}it is empty"),
        ("garbage", b"garbage", [], "not an Avro body of Trip"),
    ]  # fmt: skip


# Edits of a valid event's text: name, text to replace, its replacement, and the reason (None: it is a row).
HALF = "a text has half of a surrogate pair (an escape of D800 to DFFF alone)"
EVENTS: list[tuple[str, str, str, str | None]] = [
    ("a lone surrogate in a text", '"comment": "edited"', '"comment": "abc\\ud800def"', HALF),
    ("a low one", '"comment": "edited"', '"comment": "abc\\uDC00"', HALF),
    ("two high ones", '"comment": "edited"', '"comment": "\\ud83d\\ud83d\\ude00"', HALF),
    ("in the wrong order", '"comment": "edited"', '"comment": "\\ude00\\ud83d"', HALF),
    ("a backslash between", '"comment": "edited"', '"comment": "\\ud83d\\\\\\ude00"', HALF),
    ("a pair", '"comment": "edited"', '"comment": "\\ud83d\\ude00"', None),
    ("no escape at all", '"comment": "edited"', '"comment": "\\\\ud800"', None),
    ("a lone surrogate in the id", '"id": "63d9586d-899f-4d33-b8a7-52739781b3fc"', '"id": "\\udc00"', HALF),
    ("in log_params", '"wiki":', '"log_params": {"a": "\\ud800"}, "wiki":', HALF),
]
