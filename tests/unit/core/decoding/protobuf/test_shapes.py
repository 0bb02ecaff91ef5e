"""Shapes of schemas: each message is read exactly, compared with the fields that Google's library gives, or
the schema is refused with the path."""

from __future__ import annotations

import base64
import json
import math
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import Error, MessageToDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.config.reading.protoc import compiled
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.reader import MessageReader
from sluice.core.decoding.protobuf.schema import NotCompiled, ProtobufSchema, UnsupportedMessage
from sluice.core.decoding.protobuf.types import Type
from tests.support.protobuf import messages
from tests.support.protobuf_shapes import SHAPES, Shape
from tests.support.raising import raising
from tests.unit.core.decoding.protobuf.test_both_ways import check

ACCEPTED = [name for name, shape in SHAPES.items() if not shape.refused]
_GOOGLE = "google.protobuf."


def table(shape: Shape) -> TableMessage:
    content = compiled(dict(shape.files) | {"schema.proto": shape.text}, "schema.proto")
    schema = ProtobufSchema(content, "schema.proto")
    name = next(one for one in schema.names if one.split(".")[-1] == "T")
    return TableMessage(schema, name, recursive_as_text=shape.recursive)


def value_of(message: Any, field: FieldDescriptor, kind: Type) -> Any:
    """What a column has, by the fields of Google's library."""
    if field.has_presence and not message.HasField(field.name):
        return None
    found = getattr(message, field.name)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        of_value = entry.fields_by_number[2]
        if kind.kind == "json":
            return {str(key): as_json(of_value, found[key]) for key in found}
        return [(key, single(of_value, found[key], kind.inner)) for key in sorted(found)]
    if field.is_repeated:
        if kind.kind == "json":
            return [as_json(field, one) for one in found]
        return [single(field, one, kind.inner) for one in found]
    return as_json(field, found) if kind.kind == "json" else single(field, found, kind)


def single(field: FieldDescriptor, found: Any, kind: Type) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(found)
        return known.name if known else str(found)
    if kind.kind == "struct":
        fields = found.DESCRIPTOR.fields_by_name
        return {one.name: value_of(found, fields[one.name], one.type) for one in kind.fields}
    if kind.kind == "timestamp":
        whole = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=found.seconds)
        return whole + timedelta(microseconds=found.nanos // 1000)
    if kind.kind == "duration":
        return Decimal(found.seconds) + Decimal(found.nanos).scaleb(-9)
    if kind.kind == "json":
        return as_json(field, found)
    plain = found.value if field.message_type is not None else found
    return Decimal(plain) if kind.kind == "ulong" else plain


def as_json(field: FieldDescriptor, found: Any) -> Any:
    """What a text of JSON has."""
    message = field.message_type
    if message is None:
        return found
    if message.full_name in (f"{_GOOGLE}Struct", f"{_GOOGLE}Value", f"{_GOOGLE}ListValue"):
        return MessageToDict(found)
    if message.full_name == f"{_GOOGLE}Any":
        return {"type_url": found.type_url, "value": base64.b64encode(found.value).decode()}
    read: dict[str, Any] = {}
    for one in message.fields:
        if one.has_presence and not found.HasField(one.name):
            continue
        value = getattr(found, one.name)
        if one.message_type is not None and one.message_type.GetOptions().map_entry:
            of_value = one.message_type.fields_by_number[2]
            read[one.name] = {key: as_json(of_value, value[key]) for key in value}
        elif one.is_repeated:
            read[one.name] = [as_json(one, each) for each in value]
        else:
            read[one.name] = as_json(one, value)
    return read


def texts_read(value: Any, kind: Type) -> Any:
    """A value with its texts of JSON read."""
    if value is None:
        return None
    if kind.kind == "json":
        return json.loads(value)
    if kind.kind == "struct":
        return {one.name: texts_read(value[one.name], one.type) for one in kind.fields}
    if kind.kind == "list":
        return [texts_read(one, kind.inner) for one in value]
    if kind.kind == "map":
        return [(key, texts_read(one, kind.inner)) for key, one in value]
    return value


def plain(value: Any) -> Any:
    """NaN is not equal to itself, and 0.0 is equal to -0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def is_sent(message: Any) -> bool:
    """A sender sets required fields, and values that are some."""
    if not message.IsInitialized():
        return False
    try:
        MessageToDict(message)
    except (ValueError, Error, TypeError) as error:
        # An Any has the address of a type that is not known here, a mask the names of fields that are none.
        return any(word in str(error) for word in ("type_url", "Any", "FieldMask"))
    return True


def test_there_are_as_many_as_public_tests_have() -> None:
    assert len(SHAPES) >= 30


@pytest.mark.parametrize("name", ACCEPTED)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_shape_is_read_exactly(name: str, data: st.DataObject) -> None:
    made = table(SHAPES[name])
    reader = MessageReader(made.descriptor, made.type, "_rest")
    message = data.draw(messages(made.descriptor).filter(is_sent))
    found = check(reader, message.SerializeToString(deterministic=True))
    assert isinstance(found, dict), found
    expected = {
        one.name: value_of(message, made.descriptor.fields_by_name[one.name], one.type)
        for one in made.type.fields
    }
    row = pa.array([{key: found[key] for key in expected}], made.type.arrow).to_pylist()[0]
    assert plain(texts_read(row, made.type)) == plain(expected)


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in ACCEPTED])
def test_a_shape_that_no_table_has_is_refused_with_its_place(name: str) -> None:
    shape = SHAPES[name]
    with raising(ValueError, *shape.refused) as found:
        table(shape)
    assert isinstance(found.value, NotCompiled | UnsupportedMessage)


def test_fields_with_the_names_of_the_librarys_methods_are_read() -> None:
    made = table(Shape("message T { int32 ListFields = 1; int32 DESCRIPTOR = 2; string FromString = 3; }"))
    reader = MessageReader(made.descriptor, made.type, "_rest")
    row = {"ListFields": 5, "DESCRIPTOR": 6, "FromString": "a"}
    known = b"\x08\x05\x10\x06\x1a\x01a"
    assert check(reader, known) == {**row, "_rest": None}
    assert check(reader, known + b"\x20\x07") == {**row, "_rest": '{"4":{"varint":7}}'}
