"""What a message's fields are in a row, and what of it the table lacks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sluice.core.decoding.decoder import TOMBSTONE, Malformed
from sluice.core.decoding.protobuf.decoder import ProtobufDecoder
from sluice.core.decoding.protobuf.reader import MessageReader
from sluice.core.decoding.protobuf.schema import UnsupportedMessage
from sluice.core.decoding.protobuf.types import type_of
from tests.support.protobuf import OLD, RECURSIVE, SHOP, message_class, proto3, table
from tests.support.raising import raising

ORDERS = table(SHOP, "shop.Order")
ORDER = message_class(ORDERS.descriptor)
WELL_KNOWN = "".join(
    f'import "google/protobuf/{one}.proto"; ' for one in ("timestamp", "duration", "any", "wrappers")
)


def read(body: bytes, decoder: ProtobufDecoder | None = None) -> Any:
    """The row or the reason, by both readers."""
    used = decoder or ProtobufDecoder(ORDERS, "_unknown_fields")
    found = used.decode(pa.array([body], pa.binary()), pa.array([[]]))
    row: Any = found.reasons[0].as_py() or found.columns.to_pylist()[0]
    try:
        reference: Any = used.reference(body, ())
    except Malformed as error:
        reference = str(error)
    assert row == reference
    return row


def resolved(writer: str, reader: str, values: Mapping[str, Any]) -> Any:
    """A message ``A`` of one schema in the columns of another one's."""
    source, target = (proto3(WELL_KNOWN + text).message("shop.A") for text in (writer, reader))
    found = MessageReader(source, type_of(target), "rest")
    body = message_class(source)(**values).SerializeToString()
    assert found.value(body) == found.reference(body)
    return found.value(body)


def test_what_is_not_set_is_null_where_a_sender_can_leave_it_out() -> None:
    row = read(b"")
    null = {name for name, value in row.items() if value is None}
    assert null == {
        *("main", "card", "cash", "voucher", "points", "at", "took", "note", "big", "payload", "ping"),
        "_unknown_fields",
    }
    assert (row["id"], row["number"], row["state"], row["items"], row["flags"]) == ("", 0, "NEW", [], [])
    set_to_zero = ORDER(card="", points=0, main={}, note={}, at={}, ping={}).SerializeToString()
    row = read(set_to_zero)
    assert (row["card"], row["points"], row["note"], row["ping"]) == ("", 0, "", "{}")
    assert row["at"] == datetime(1970, 1, 1, tzinfo=UTC)
    assert row["main"] == {"sku": "", "count": 0, "price": None, "tags": []}
    assert read(ORDER(card="x", cash=False).SerializeToString())["card"] is None


def test_a_default_of_the_schema_is_null_as_it_was_not_sent() -> None:
    old = ProtobufDecoder(table(OLD, "old.Node", RECURSIVE), "rest")
    assert read(b"\x08\1", old)["kind"] is None
    assert read(b"\x08\1\x18\1", old)["kind"] == "ONE"


def test_numbers_of_enums_that_have_no_name() -> None:
    assert read(ORDER(state=7, states=[-1, 9]).SerializeToString())["states"] == ["LOST", "9"]
    # A closed enum has no other values: the field is not set, and what came is kept.
    row = read(b"\x08\1\x18\7\x22\2\1\7", ProtobufDecoder(table(OLD, "old.Node", RECURSIVE), "rest"))
    assert (row["kind"], row["kinds"]) == (None, ["ONE"])
    assert row["rest"] == '{"3":{"varint":7},"4":{"varint":7}}'


def test_fields_that_the_schema_does_not_have_are_kept_by_their_numbers() -> None:
    parts = {
        "varint": b"\xa0\x06\xac\x02",
        "fixed64": b"\xa9\x06" + bytes(range(8)),
        "bytes": b"\xb2\x06\2\xff\0",
        "group": b"\xbb\x06\x08\1\x12\1a\xbc\x06",
        "fixed32": b"\xc5\x06\1\0\0\0",
        "again": b"\xa0\x06\1",
    }
    found = json.loads(read(b"".join(parts.values()))["_unknown_fields"])
    assert found == {
        "100": [{"varint": 300}, {"varint": 1}],
        "101": {"fixed64": 0x0706050403020100},
        "102": {"bytes": "/wA="},
        "103": {"group": [{"1": {"varint": 1}}, {"2": {"bytes": "YQ=="}}]},
        "104": {"fixed32": 1},
    }
    # Inside of a message at its place; an extension is one of them.
    assert read(b"\x3a\3\xf8\x06\1")["_unknown_fields"] == '{"main":{"111":{"varint":1}}}'
    old = ProtobufDecoder(table(OLD, "old.Node", RECURSIVE), "rest")
    assert read(b"\x08\1\xa0\x06\5", old)["rest"] == '{"100":{"varint":5}}'


def test_nanoseconds_beyond_a_microsecond_are_kept_as_a_text() -> None:
    order = ORDER(id="x")
    order.at.FromNanoseconds(1_700_000_000_123_456_789)
    order.times.add().FromNanoseconds(1_700_000_000_000_001_000)
    order.times.add().FromNanoseconds(-1)
    row = read(order.SerializeToString())
    assert row["at"] == datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)
    assert row["times"][1] == datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    said = '{"at":"2023-11-14T22:13:20.123456789Z","times":[null,"1969-12-31T23:59:59.999999999Z"]}'
    assert row["_unknown_fields"] == said


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"at": {"nanos": -1}}, "at is no time of the years 1 to 9999: seconds 0, nanos -1"),
        (
            {"at": {"seconds": 253_402_300_800}},
            "at is no time of the years 1 to 9999: seconds 253402300800, nanos 0",
        ),
        (
            {"times": [{}, {"nanos": 10**9}]},
            "times is no time of the years 1 to 9999: seconds 0, nanos 1000000000",
        ),
        ({"took": {"seconds": 1, "nanos": -1}}, "took is no duration: seconds 1, nanos -1"),
    ],
)
def test_times_that_are_none_are_rejected(values: dict[str, Any], reason: str) -> None:
    assert read(ORDER(**values).SerializeToString()) == reason


def test_texts_that_are_no_utf8_are_rejected_where_a_schema_allows_them() -> None:
    old = ProtobufDecoder(table(OLD, "old.Node", RECURSIVE), "rest")
    assert read(b"\x08\1\x12\1\xff", old) == "name is not UTF-8"
    assert read(b"\x08\1\x32\5\x0a\1\xff\x10\1\x32\5\x0a\1\xfe\x10\1", old) == "a key of by_name is not UTF-8"
    # In a field that is a text of JSON, and two keys of it that are texts and are none.
    entries = b"\x32\5\x0a\1\xff\x10\1\x32\5\x0a\1a\x10\1"
    assert read(b"\x08\1\x3a\x10\x08\2" + entries, old) == "a key of a map is not UTF-8"


def test_the_last_member_of_a_oneof_counts() -> None:
    card, cash, voucher = b"\x52\1a", b"\x58\1", b"\x62\3\x0a\1s"
    found = [read(body) for body in (card + cash, cash + voucher, voucher + card)]
    assert [[row["card"], row["cash"], bool(row["voucher"])] for row in found] == [
        [None, True, False],
        [None, None, True],
        ["a", None, False],
    ]


def test_maps_are_in_the_order_of_their_keys() -> None:
    row = read(ORDER(by_number={10: {}, 9: {}, -1: {}}).SerializeToString())
    assert [key for key, _ in row["by_number"]] == [-1, 9, 10]


def test_tombstones() -> None:
    found = ProtobufDecoder(ORDERS).decode(pa.array([None], pa.binary()), pa.array([[]]))
    assert found.reasons.to_pylist() == [TOMBSTONE]


@pytest.mark.parametrize(
    ("writer", "reader", "sent", "value"),
    [
        ("int32", "int64", -5, -5),
        ("uint32", "int64", 2**32 - 1, 2**32 - 1),
        ("int64", "uint64", -5, Decimal(-5)),
        ("float", "double", 0.5, 0.5),
        ("int32", "double", 7, 7.0),
        ("google.protobuf.Int32Value", "int64", {"value": 7}, 7),
        ("int32", "google.protobuf.Int64Value", 7, 7),
        ("optional string", "string", "", ""),
        ("E", "string", 1, "ONE"),
        ("string", "E", "TWO", "TWO"),
        ("google.protobuf.Any", "google.protobuf.Any", {"type_url": "t"}, '{"type_url":"t","value":""}'),
        ("map<string, int32>", "map<string, int64>", {"b": 1, "a": 2}, [("a", 2), ("b", 1)]),
        ("repeated int32", "repeated int64", [3, 1], [3, 1]),
    ],
)
def test_a_field_is_read_as_a_wider_type(writer: str, reader: str, sent: Any, value: Any) -> None:
    source, target = (
        f"enum E {{ ZERO = 0; ONE = 1; }} message A {{ {one} a = 1; }}" for one in (writer, reader)
    )
    assert resolved(source, target, {"a": sent}) == {"a": value, "rest": None}


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        ("int64 a = 1;", "int32 a = 1;", "a is long, and the table has int32"),
        ("double a = 1;", "float a = 1;", "a is double, and the table has float"),
        ("int64 a = 1;", "double a = 1;", "a is long, and the table has double"),
        ("bytes a = 1;", "string a = 1;", "a is bytes, and the table has string"),
        ("repeated int32 a = 1;", "int32 a = 1;", "a is repeated int, and the table has int32"),
        ("int32 a = 1;", "repeated int32 a = 1;", "a is int, and the table has a list"),
        ("map<string, int32> a = 1;", "int32 a = 1;", "a is a map, and the table has int32"),
        (
            "map<int32, int32> a = 1;",
            "map<string, int32> a = 1;",
            "a key of a is int, and the table has string",
        ),
        ("B a = 1;", "string a = 1;", "a is message shop.B, and the table has string"),
        ("string a = 1;", "B a = 1;", "a is string, and the table has a message"),
        ("repeated B a = 1;", "repeated C a = 1;", "a.b.x is string, and the table has int32"),
    ],
)
def test_other_types_are_refused_with_the_path(writer: str, reader: str, reason: str) -> None:
    more = """message B { D b = 1; } message D { string x = 1; }
        message C { E b = 1; } message E { int32 x = 1; }"""
    source, target = (f"message A {{ {one} }} {more}" for one in (writer, reader))
    with raising(UnsupportedMessage) as found:
        resolved(source, target, {})
    assert str(found.value) == reason


def test_fields_that_the_table_lacks_are_json() -> None:
    body = """message A { int64 a = 1; uint64 big = 2; float f = 3; double d = 4; bytes raw = 5; E e = 6;
        map<bool, B> m = 7; google.protobuf.Timestamp at = 8; google.protobuf.Duration took = 9;
        google.protobuf.StringValue note = 10; optional int32 unset = 11; bool is = 12;
        repeated double many = 13; }
        message B { string x = 1; } enum E { ZERO = 0; ONE = 1; }"""
    values = {
        "big": 2**64 - 1, "f": 0.1, "d": -0.0, "raw": b"\xff", "e": 1, "m": {True: {"x": 'é"'}, False: {}},
        "at": {"seconds": 1}, "took": {"seconds": -1, "nanos": -1}, "note": {}, "is": True,
        "many": [float("nan"), float("-inf"), 1e300],
    }  # fmt: skip
    said = (
        '{"big":18446744073709551615,"f":0.1,"d":-0.0,"raw":"/w==","e":"ONE",'
        '"m":{"false":{"x":""},"true":{"x":"é\\""}},"at":"1970-01-01T00:00:01.000000Z","took":"-1.000000001",'
        '"note":"","is":true,"many":["NaN","-Infinity",1e+300]}'
    )
    assert resolved(body, "message A { int64 a = 1; }", values) == {"a": 0, "rest": said}
