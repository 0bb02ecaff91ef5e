"""Protobuf schemas of tests, compiled, and random messages of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from sluice.config.reading.protoc import compiled
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.schema import ProtobufSchema

SHOP = """
syntax = "proto3";
package shop;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum State { NEW = 0; PAID = 1; LOST = -1; }
message Item { string sku = 1; int32 count = 2; optional double price = 3; map<string, sint64> tags = 4; }
message Order {
  string id = 1;
  uint64 number = 2;
  uint32 small = 3;
  State state = 4;
  repeated State states = 5;
  bytes raw = 6;
  Item main = 7;
  repeated Item items = 8;
  map<int32, Item> by_number = 9;
  oneof pay { string card = 10; bool cash = 11; Item voucher = 12; }
  optional int64 points = 13;
  google.protobuf.Timestamp at = 14;
  google.protobuf.Duration took = 15;
  google.protobuf.StringValue note = 16;
  google.protobuf.UInt64Value big = 17;
  google.protobuf.Struct payload = 18;
  google.protobuf.Empty ping = 20;
  repeated google.protobuf.Timestamp times = 21;
  float ratio = 22;
  double amount = 23;
  bool is_gift = 24;
  sint32 change = 25;
  sfixed64 fixed = 26;
  fixed32 bits = 27;
  map<string, State> by_name = 28;
  repeated google.protobuf.Value extras = 29;
  map<bool, bytes> flags = 30;
  repeated uint64 parts = 31 [packed = false];
  repeated float ratios = 32;
}
"""
# Closed enums, groups, texts that may be any bytes, required fields, and a message in itself.
OLD = """
syntax = "proto2";
package old;
enum Kind { NONE = 0; ONE = 1; TWO = 2; }
message Node {
  required int32 id = 1;
  optional string name = 2;
  optional Kind kind = 3 [default = TWO];
  repeated Kind kinds = 4 [packed = true];
  repeated group Part = 5 { optional sint32 size = 1; repeated string words = 2; }
  map<string, Kind> by_name = 6;
  optional Node next = 7;
  map<int64, Node> children = 8;
  oneof one { Node left = 9; string word = 10; bytes raw = 11; }
  optional bool flag = 12;
  optional fixed64 bits = 13;
  repeated double numbers = 14;
  extensions 100 to 199;
}
extend Node { optional int32 more = 100; }
"""
RECURSIVE = ("next", "children", "left")


@lru_cache
def schema(text: str) -> ProtobufSchema:
    return ProtobufSchema(compiled({"schema.proto": text}, "schema.proto"), "schema.proto")


def proto3(body: str) -> ProtobufSchema:
    """A schema of the package ``shop``."""
    return schema(f'syntax = "proto3"; package shop; {body}')


def table(text: str, name: str = "", as_text: tuple[str, ...] = ()) -> TableMessage:
    return TableMessage(schema(text), name, as_text)


def message_class(descriptor: Descriptor) -> Any:
    return GetMessageClass(descriptor)


_WHOLE = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_GOOGLE = "google.protobuf."


def messages(descriptor: Descriptor, depth: int = 3) -> st.SearchStrategy[Any]:
    """Random messages with the fields that Google's library takes."""
    if descriptor.full_name == f"{_GOOGLE}Timestamp":
        parts = {
            "seconds": st.integers(-62_135_596_800, 253_402_300_799),
            "nanos": st.integers(0, 999_999_999),
        }
    elif descriptor.full_name == f"{_GOOGLE}Duration":
        parts = {"seconds": st.integers(0, 315_576_000_000), "nanos": st.integers(0, 999_999_999)}
    else:
        parts = {
            field.name: _values(field, depth - 1) for field in descriptor.fields if depth or _is_flat(field)
        }
    return st.fixed_dictionaries({}, optional=parts).map(lambda found: _made(descriptor, found))


def _is_flat(field: FieldDescriptor) -> bool:
    return field.message_type is None


def _made(descriptor: Descriptor, values: Mapping[str, Any]) -> Any:
    found = GetMessageClass(descriptor)()
    for name, value in values.items():
        field = descriptor.fields_by_name[name]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill(getattr(found, name), field, value)
        elif field.is_repeated:
            getattr(found, name).extend(value)
        elif field.message_type is not None:
            getattr(found, name).CopyFrom(value)
        else:
            setattr(found, name, value)
    return found


def _fill(into: Any, field: FieldDescriptor, values: Mapping[Any, Any]) -> None:
    for key, value in values.items():
        if field.message_type.fields_by_number[2].message_type is not None:
            into[key].CopyFrom(value)
        else:
            into[key] = value


def _values(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        key, value = (kind.fields_by_number[number] for number in (1, 2))
        return st.dictionaries(_single(key, depth), _single(value, depth), max_size=3)
    return st.lists(_single(field, depth), max_size=3) if field.is_repeated else _single(field, depth)


def _single(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return messages(field.message_type, max(depth, 0))
    if field.enum_type is not None:
        known = st.sampled_from([value.number for value in field.enum_type.values])
        return known if field.enum_type.is_closed else known | st.integers(-(2**31), 2**31 - 1)
    if field.cpp_type in _WHOLE:
        return st.integers(*_WHOLE[field.cpp_type])
    if field.type == FieldDescriptor.TYPE_STRING:
        return st.text(max_size=8)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=8)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    return st.floats(width=32 if field.type == FieldDescriptor.TYPE_FLOAT else 64)
