"""Records of an earlier schema, by Avro's rules of schema resolution, and what they do not allow."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.decoding.avro.types import UnsupportedSchema
from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import Malformed
from tests.support.avro_bodies import decoded, fields
from tests.support.hostile_records import zigzag
from tests.support.raising import raising

Answer = tuple[list[dict[str, Any]], list[str | None]]
INNER = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}
WIDER = {
    "type": "record",
    "name": "other.I",
    "fields": [{"name": "y", "type": "string", "default": "z"}, {"name": "x", "type": ["null", "long"]}],
}
AB = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
CA = {"type": "enum", "name": "E", "symbols": ["C", "A"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
DIGITS = {"type": "bytes", "logicalType": "decimal", "precision": 4}


def logical(name: str, kind: str = "long", **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


MILLIS, MICROS = logical("timestamp-millis"), logical("timestamp-micros")
CONNECT = {"type": "long", "connect.name": "io.debezium.time.Timestamp"}
# As Confluent's converter has one without digits.
JDBC = {**DIGITS, "precision": 64, "scale": 2}
# The earlier type, the current one, bodies and their values.
USUAL: list[tuple[Any, Any, list[tuple[bytes, Any]]]] = [
    ("int", "long", [(zigzag(-(2**31)), -(2**31))]),
    ("int", "float", [(zigzag(2**24), 16_777_216.0), (zigzag(-(2**24)), -16_777_216.0)]),
    ("int", "double", [(b"\x02", 1.0)]),
    ("long", "float", [(zigzag(3), 3.0)]),
    ("long", "double", [(zigzag(2**53), 2.0**53), (zigzag(-(2**53)), -(2.0**53))]),
    ({"type": "array", "items": ["null", "long"]}, {"type": "array", "items": ["null", "double"]},
     [(b"\x04\x00\x02\x04\x00", [None, 2.0])]),
    ("float", "double", [(b"\x00\x00\x80\x3f", 1.0)]),
    ("string", "bytes", [(b"\x02x", b"x")]),
    ("int", ["null", "int"], [(b"\x02", 1)]),
    (["null", "int"], ["long", "null"], [(b"\x02\x02", 1), (b"\x00", None)]),
    (["int"], ["null", "int"], [(b"\x00\x02", 1)]),
    (INNER, WIDER, [(b"\x02", {"y": "z", "x": 1})]),
    (["null", INNER], [WIDER, "null"], [(b"\x00", None), (b"\x02\x02", {"y": "z", "x": 1})]),
    ({"type": "array", "items": INNER}, {"type": "array", "items": WIDER},
     [(b"\x04\x02\x04\x00", [{"y": "z", "x": 1}, {"y": "z", "x": 2}]), (b"\x00", [])]),
    ({"type": "map", "values": "int"}, {"type": "map", "values": ["null", "double"]},
     [(b"\x02\x02k\x02\x00", [("k", 1.0)])]),
    (CA, {**AB, "symbols": ["A", "B", "C"]}, [(b"\x00", "C"), (b"\x02", "A")]),
    (FIXED, {**FIXED, "name": "G", "aliases": ["F"]}, [(b"xy", b"xy")]),
    (AB, "string", [(b"\x00", "A"), (b"\x02", "B")]),
    (["null", AB], ["null", "string"], [(b"\x00", None), (b"\x02\x02", "B")]),
    (DIGITS, {**DIGITS, "precision": 9}, [(b"\x02\xff", -1)]),
    ({**DIGITS, "precision": 9}, DIGITS, [(b"\x04\x27\x0f", 9_999), (b"\x04\xd8\xf1", -9_999)]),
    (["null", JDBC], ["null", {**JDBC, "precision": 10}], [(b"\x02\x02\x05", Decimal("0.05"))]),
    ({**FIXED, **logical("decimal", "fixed", precision=3)}, DIGITS, [(b"\x00\x05", 5)]),
    (MILLIS, MICROS, [(b"\x02", datetime(1970, 1, 1, 0, 0, 0, 1_000, UTC))]),
    # A column without a logical type has the number that was sent.
    (MICROS, "long", [(b"\x02", 1)]),
    (logical("date", "int"), "long", [(b"\x02", 1)]),
    (logical("time-micros"), "long", [(b"\x02", 1)]),
    (CONNECT, "long", [(b"\x02", 1)]),
]  # fmt: skip
UNUSUAL: list[tuple[Any, Any, list[tuple[bytes, Any]]]] = [
    ("bytes", "string", [(b"\x02x", "x"), (b"\x02\xff", ValueError)]),
    (AB, {**CA, "default": "C"}, [(b"\x00", "A"), (b"\x02", "C")]),
    (AB, CA, [(b"\x00", "A"), (b"\x02", ValueError)]),
    (["null", "int"], "int", [(b"\x02\x02", 1), (b"\x00", ValueError)]),
    ("int", ["string", "int"], [(b"\x02", {"member0": None, "member1": 1})]),
    # The exact type before one that it may be promoted to, unlike fastavro.
    ("bytes", ["string", "bytes"], [(b"\x02\xff", {"member0": None, "member1": b"\xff"})]),
    (["null", "string", "int"], ["null", "int"],
     [(b"\x00", None), (b"\x04\x02", 1), (b"\x02\x00", ValueError)]),
    # Equal names in other namespaces: the whole name before the last part of it.
    ({**FIXED, "name": "o.F"}, [{**FIXED, "name": "n.F"}, {**FIXED, "name": "o.F"}],
     [(b"xy", {"member0": None, "member1": b"xy"})]),
    (["int", "long"], "long", [(b"\x00\x02", 1), (b"\x02\x02", 1)]),
    (["int", "string"], ["null", "string", "long"],
     [(b"\x00\x02", {"member0": None, "member1": 1}), (b"\x02\x02x", {"member0": "x", "member1": None})]),
    (MILLIS, MICROS, [(zigzag(2**60), OverflowError)]),
    (MILLIS, "long", [(b"\x02", 1)]),
    (DIGITS, "bytes", [(b"\x02\x05", b"\x05")]),
    ({**DIGITS, "precision": 9}, DIGITS, [(b"\x04\x27\x10", ValueError), (b"\x04\x27\x0f", 9_999)]),
    (JDBC, {**JDBC, "precision": 38}, [(b"\x22" + b"\x7f" * 17, ValueError)]),
    ("int", "float", [(zigzag(2**24 + 1), ValueError), (zigzag(2**24 + 2), 2.0**24 + 2)]),
    ("long", "float", [(zigzag(2**60 + 2**36 + 1), ValueError), (zigzag(-(2**63)), -(2.0**63))]),
    ("long", "double", [(zigzag(2**53 + 1), ValueError), (zigzag(2**63 - 1), ValueError),
                        (zigzag(-(2**63)), -(2.0**63))]),
]  # fmt: skip


def both(decoder: AvroDecoder, bodies: list[bytes]) -> Answer:
    """Rows and reasons of bodies of the earlier schema, which the reference gives, too."""
    header = decoder.fingerprints[-1].encode()
    rows, reasons = decoded(decoder, [*bodies], header)
    for body, row, reason in zip(bodies, rows, reasons, strict=True):
        if reason is None:
            assert decoder.reference(body, [(b"avro-schema", header)]) == row
        else:
            with raising(Malformed, reason):
                decoder.reference(body, [(b"avro-schema", header)])
    return rows, reasons


@pytest.mark.parametrize(("earlier", "current", "cases"), USUAL + UNUSUAL)
def test_a_value_is_read_as_one_of_the_current_type(
    earlier: Any, current: Any, cases: list[tuple[bytes, Any]]
) -> None:
    decoder = AvroDecoder(fields(current), (fields(earlier, "int"),))
    rows, reasons = both(decoder, [body + b"\x00" for body, _ in cases])
    for (_, value), row, reason in zip(cases, rows, reasons, strict=True):
        if value is ValueError:
            assert (reason or "").startswith("written with an earlier Avro schema: ")
        elif value is OverflowError:
            assert (reason or "").startswith("not an Avro body of T: a value is beyond its type")
        else:
            assert (reason, row) == (None, {"a": value})


@pytest.mark.parametrize(("earlier", "current", "cases"), USUAL)
def test_a_usual_change_is_not_left_to_the_reference(
    earlier: Any, current: Any, cases: list[tuple[bytes, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = AvroDecoder(fields(current), (fields(earlier, "int"),))
    monkeypatch.setattr(Writer, "value", None)
    decoded(decoder, [body + b"\x00" for body, _ in cases], decoder.fingerprints[-1].encode())


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        (["null", "int"], None, None),
        ("int", 7, 7),
        ("double", 1, 1.0),
        ("bytes", "\u00ff", b"\xff"),
        (["string", "int"], "x", {"member0": "x", "member1": None}),
        (INNER, {"x": 3}, {"x": 3}),
        ({**INNER, "fields": [{"name": "x", "type": "int", "default": 4}]}, {}, {"x": 4}),
        ({"type": "array", "items": "float"}, [1], [1.0]),
        ({"type": "map", "values": "string"}, {"k": "v"}, [("k", "v")]),
        (AB, "B", "B"),
        (DIGITS, "\u0001\u0000", 256),
    ],
)
def test_a_new_field_has_its_default(kind: Any, default: Any, value: Any) -> None:
    current = json.loads(fields("int", kind))
    current["fields"][1]["default"] = default
    decoder = AvroDecoder(json.dumps(current), (fields("int"),))
    assert both(decoder, [b"\x02", b"\x04"])[0] == [{"a": 1, "b": value}, {"a": 2, "b": value}]


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", 2**31),
        ("bytes", "\u0100"),
        (INNER, {}),
        (INNER, {"x": "1"}),
        (AB, "C"),
        (FIXED, "abc"),
        (DIGITS, "abc"),
        ({"type": "long", "logicalType": "timestamp-millis"}, 2**60),
    ],
)
def test_a_default_that_is_none_is_refused(kind: Any, default: Any) -> None:
    current = json.loads(fields("int", kind))
    current["fields"][1]["default"] = default
    with raising(UnsupportedSchema, "b is new, and its default is none of its values"):
        AvroDecoder(json.dumps(current), (fields("int"),))


def test_fields_move_go_and_have_other_names() -> None:
    current = json.loads(fields("string", "int"))
    current["fields"] = [
        {"name": "c", "type": "string"},
        {"name": "b", "type": "int"},
        {"name": "new", "aliases": ["other", "a"], "type": "long"},
    ]
    decoder = AvroDecoder(
        json.dumps(current), (fields("int", "int", "string", {"type": "array", "items": "int"}),)
    )
    rows, reasons = both(decoder, [b"\x02\x04\x02x\x02\x02\x00", b"\x02\x04\x02x\x02\x02\x00\x00", b"\x02"])
    assert rows[0] == {"c": "x", "b": 2, "new": 1}
    assert reasons[0] is None
    assert all("not an Avro body of T" in (reason or "") for reason in reasons[1:])


@pytest.mark.parametrize(
    ("earlier", "current", "words"),
    [
        ("string", "int", "a is int, and was string"),
        ("long", "int", "a is int, and was long"),
        (INNER, {**INNER, "fields": [{"name": "z", "type": "int"}]}, "a.z is new, and has no default"),
        (FIXED, {**FIXED, "size": 3}, "a has another size or name"),
        (AB, {**AB, "name": "Z"}, "a is the enum Z, and was E"),
        (["string", "bytes"], "int", "a is int, and was string; a is int, and was bytes"),
        ("string", ["null", "int"], "a is int, and was string"),
        (["null", "string"], "int", "a is int, and was string"),
        ("int", ["null", "string", "bytes"], "a is one of null, string, bytes, and was int"),
        ("string", ["null", AB], "a is the enum E, and was string"),
        # The number would be another time, or another decimal.
        ("long", MICROS, "a is timestamp-micros, and was long: declare it BIGINT"),
        (CONNECT, ["null", MICROS], "and was long (io.debezium.time.Timestamp): declare it BIGINT"),
        (logical("timestamp-nanos"), MICROS, "and was long (timestamp-nanos): declare it BIGINT"),
        ({"type": "long", "connect.name": 'x"\n'}, MICROS, "and was long: declare it BIGINT"),
        (logical("time-micros"), MICROS, "and was long (time-micros): declare it BIGINT"),
        ("int", MICROS, "a is timestamp-micros, and was int: declare it INT"),
        (logical("date", "int"), MICROS, "a is timestamp-micros, and was date: declare it DATE"),
        (logical("time-millis", "int"), logical("date", "int"), "a is date, and was int (time-millis)"),
        (MICROS, MILLIS, "a is timestamp-millis, and was timestamp-micros: declare it TIMESTAMP"),
        (["int", MILLIS], MICROS, "and was long (timestamp-millis): declare it BIGINT"),
        ("bytes", DIGITS, "a is decimal(4, 0), and was bytes: declare it BINARY"),
        (logical("big-decimal", "bytes"), DIGITS, "and was bytes (big-decimal): declare it BINARY"),
        (JDBC, DIGITS, "a is decimal(4, 0), and was decimal(64, 2): declare it DECIMAL(38, 2)"),
        ({**JDBC, "scale": 127}, JDBC | {"precision": 9}, "and was bytes (decimal(64, 127))"),
        (DIGITS, "string", "a is string, and was decimal(4, 0): declare it DECIMAL(4, 0)"),
        (logical("big-decimal", "bytes"), "string", "a is string, and was bytes (big-decimal)"),
    ],
)
def test_an_earlier_schema_of_which_no_record_can_be_read_is_refused(
    earlier: Any, current: Any, words: str
) -> None:
    with raising(UnsupportedSchema, words):
        AvroDecoder(fields(current), (fields(earlier),))
