"""Rows as the documentation describes them, of Google's own JSON of the same messages."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict

from sluice.core.decoding.protobuf.types import WRAPPERS

_GOOGLE = "google.protobuf."


def expected(message: Any) -> dict[str, Any]:
    """The row of a message; of columns that are texts of JSON what is in them."""
    said = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    return row(message.DESCRIPTOR.fields, said)


def row(fields: Iterable[FieldDescriptor], found: dict[str, Any]) -> dict[str, Any]:
    return {field.name: value_of(field, found.get(field.name)) for field in fields}


def value_of(field: FieldDescriptor, found: Any) -> Any:
    if found is None:
        return None
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_number[number] for number in (1, 2))
        entries = [(_key(key, name), single(value, one)) for name, one in found.items()]
        return sorted(entries, key=lambda entry: entry[0])
    return [single(field, one) for one in found] if field.is_repeated else single(field, found)


def _key(field: FieldDescriptor, text: str) -> Any:
    if field.type == FieldDescriptor.TYPE_BOOL:
        return text == "true"
    return text if field.type == FieldDescriptor.TYPE_STRING else int(text)


def single(field: FieldDescriptor, found: Any) -> Any:
    kind = field.message_type
    if kind is None:
        return scalar(field, found)
    if kind.full_name in WRAPPERS:
        return scalar(kind.fields_by_number[1], found)
    if kind.full_name == f"{_GOOGLE}Timestamp":
        seconds, _, rest = found.removesuffix("Z").partition(".")
        whole = datetime.strptime(seconds, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
        return whole.replace(microsecond=int(f"{rest:0<6}"[:6]))
    if kind.full_name == f"{_GOOGLE}Duration":
        return Decimal(found.removesuffix("s"))
    if kind.full_name in (f"{_GOOGLE}Struct", f"{_GOOGLE}Value", f"{_GOOGLE}Empty"):
        return found
    return row(kind.fields, found)


def scalar(field: FieldDescriptor, found: Any) -> Any:
    if field.enum_type is not None:
        return str(found)
    if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64):
        return Decimal(found)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64decode(found)
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return float(found)
    if field.type == FieldDescriptor.TYPE_FLOAT:
        return struct.unpack("<f", struct.pack("<f", float(found)))[0]
    return found if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BOOL) else int(found)
