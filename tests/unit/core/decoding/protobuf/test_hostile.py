"""Schemas and records that are made to mislead or to stop a reader: each is refused, with the place."""

from __future__ import annotations

import time

import pytest

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.reader import MessageReader
from sluice.core.decoding.protobuf.schema import NotCompiled, UnsupportedMessage, descriptor_of
from sluice.core.decoding.protobuf.types import MAX_LEVELS
from tests.support.protobuf import schema, table
from tests.support.raising import raising

HEAD = 'syntax = "proto3";'
IMPORTS = "".join(
    f'import "google/protobuf/{name}.proto";' for name in ("duration", "struct", "timestamp", "wrappers")
)
# As field 1 of a message: a message with the field 23.
OTHERS = b"\x0a\x03\xb8\x01\x05"


def reader(text: str, name: str = "T", as_text: tuple[str, ...] = ()) -> MessageReader:
    found = table(text, name, as_text)
    return MessageReader(found.descriptor, found.type, "_unknown_fields")


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Timestamp", "string seconds = 1; int32 nanos = 2;"),
        ("Timestamp", "int64 seconds = 2; int32 nanos = 1;"),
        ("Timestamp", "repeated int64 seconds = 1; int32 nanos = 2;"),
        ("Duration", "int64 seconds = 1;"),
        ("Int64Value", "uint64 value = 1;"),
        ("Int64Value", "string text = 2;"),
        ("StringValue", "bytes value = 1;"),
        ("Struct", "int32 size = 5;"),
        ("Struct", "map<string, string> fields = 1;"),
        ("Value", "string string_value = 3;"),
        ("ListValue", "repeated string values = 1;"),
        ("Any", "bytes value = 2;"),
    ],
)
def test_a_message_with_the_name_of_googles_is_no_schema(name: str, fields: str) -> None:
    text = f"{HEAD} package google.protobuf; message T {{ {name} a = 1; }} message {name} {{ {fields} }}"
    with raising(NotCompiled, f"google.protobuf.{name}"):
        schema(text)


def test_googles_own_file_may_be_registered() -> None:
    text = f"{HEAD} package google.protobuf; message Timestamp {{ int64 seconds = 1; int32 nanos = 2; }}"
    assert schema(text).names == ["google.protobuf.Timestamp"]


@pytest.mark.parametrize(
    "name", ["Timestamp", "Duration", "Struct", "Value", "ListValue", "Int64Value", "StringValue"]
)
def test_fields_that_googles_messages_lack_are_not_left_out(name: str) -> None:
    text = f"{HEAD} {IMPORTS} message T {{ google.protobuf.{name} a = 1; }}"
    for each in (reader(text), reader(text, as_text=("a",))):
        for read in (each.value, each.reference):
            with raising(Malformed, f"google.protobuf.{name}", "field 23"):
                read(OTHERS)


@pytest.mark.parametrize("levels", [MAX_LEVELS, MAX_LEVELS + 1, 1_000, 5_000])
def test_messages_of_many_messages(levels: int) -> None:
    """Message 0 is the outermost one."""
    inner = "".join(f"message M{one} {{ M{one + 1} m = 1; }} " for one in range(levels - 1))
    text = f"{HEAD} message T {{ int32 id = 1; M0 m = 2; }} {inner} message M{levels - 1} {{ int32 x = 1; }}"
    # As a part of records that the table lacks.
    own = table(f"{HEAD} message T {{ int32 id = 1; }}").type
    if levels < 1_000:
        found = MessageReader(schema(text).message("T"), own, "_unknown_fields").value(b"\x08\x05\x12\x00")
        assert found["id"] == 5
    else:
        with raising(UnsupportedMessage, "T has more messages inside of each other"):
            MessageReader(schema(text).message("T"), own, "_unknown_fields")
    if levels < MAX_LEVELS:
        assert table(text, "M0").type.fields
        return
    with raising(UnsupportedMessage, ".".join(["m"] * MAX_LEVELS), f"{MAX_LEVELS} messages", "json_fields"):
        TableMessage(schema(text))
    assert TableMessage(schema(text), as_text=["m"]).type.fields


def test_a_text_of_blanks_is_read_at_once() -> None:
    begin = time.process_time()
    assert descriptor_of(" " * 40_000 + ";") is None
    assert descriptor_of("\n" * 40_000) is None
    assert time.process_time() - begin < 2
