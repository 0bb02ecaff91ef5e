"""From a message of the writer's schema to a row of the table: by the names or the numbers of fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.protobuf.json_text import field_text, single_text
from sluice.core.decoding.protobuf.messages import fields_of, sorted_keys
from sluice.core.decoding.protobuf.schema import UnsupportedMessage
from sluice.core.decoding.protobuf.types import WRAPPERS, Type, is_map, scalar_kind
from sluice.core.decoding.protobuf.well_known import length_of, only_its_own, time_of

# From a value of a field, as `fields_of` has it, to one as PyArrow takes it.
Convert = Callable[[Any], Any]
# Kinds of a table -> the kinds of a writer that are read as such, without loss.
_READ_AS = {
    "int": {"int"},
    "uint": {"int", "uint", "long"},
    "long": {"int", "uint", "long"},
    "ulong": {"int", "uint", "long", "ulong"},
    "float": {"float"},
    "double": {"float", "double", "int", "uint"},
    "bool": {"bool"},
    "string": {"string", "enum"},
    "enum": {"string", "enum"},
    "bytes": {"bytes"},
    "timestamp": {"timestamp"},
    "duration": {"duration"},
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def row_of(writer: Descriptor, reader: Type) -> Convert:
    """From a message to the columns of ``reader``. Raises UnsupportedMessage, which names the path,
    if no message of ``writer`` can be such a row; the function raises Malformed for a value that cannot be
    read."""
    return _struct(writer, reader, "")


def _struct(writer: Descriptor, reader: Type, path: str) -> Convert:
    found: list[tuple[str, int, Any, Convert]] = []
    missing: dict[str, None] = {}
    for field in reader.fields:
        source = field.source(writer)
        if source is None:
            missing[field.name] = None
            continue
        inner = f"{path}.{field.name}" if path else field.name
        convert = field_of(source, field.type, inner)
        found.append((field.name, source.number, _unset(source, convert), convert))

    def row(message: Any) -> dict[str, Any]:
        values = fields_of(message)
        made = {
            name: convert(values[number]) if number in values else unset
            for name, number, unset, convert in found
        }
        return made | missing

    return row


def _unset(source: FieldDescriptor, convert: Convert) -> Any:
    """The value of a field that is not set: null if a writer can leave it out, else what it stands for."""
    if source.is_repeated:
        return convert({} if is_map(source) else [])
    return None if source.has_presence else convert(source.default_value)


def field_of(source: FieldDescriptor, reader: Type, path: str) -> Convert:
    """From a field's value, with all of its items, to the column's. Raises as :func:`row_of`."""
    if reader.kind == "json":
        return lambda value: field_text(source, value)
    if is_map(source) or reader.kind == "map":
        return _map(source, reader, path)
    if source.is_repeated or reader.kind == "list":
        if not source.is_repeated or reader.kind != "list":
            raise _conflict(source, reader, path)
        item = single_of(source, reader.inner, path)
        return lambda values: [item(one) for one in values]
    return single_of(source, reader, path)


def _map(source: FieldDescriptor, reader: Type, path: str) -> Convert:
    if not is_map(source) or reader.kind != "map" or reader.key is None:
        raise _conflict(source, reader, path)
    of_key, of_item = (source.message_type.fields_by_number[number] for number in (1, 2))
    key = single_of(of_key, reader.key, f"a key of {path}")
    item = single_of(of_item, reader.inner, path)

    # By their keys: on the wire a map has no order.
    def entries(values: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
        return [(key(one), item(values[one])) for one in sorted_keys(values)]

    return entries


def single_of(source: FieldDescriptor, reader: Type, path: str) -> Convert:
    """From one value of a field to one of the column's. Raises as :func:`row_of`."""
    if reader.kind == "json":
        return lambda value: single_text(source, value)
    kind = scalar_kind(source)
    if kind == "struct" == reader.kind:
        return _struct(source.message_type, reader, path)
    if kind not in _READ_AS.get(reader.kind, ()):
        raise _conflict(source, reader, path)
    scalar = _scalar(source, kind, reader.kind, path)
    if source.message_type is not None and source.message_type.full_name in WRAPPERS:
        zero = source.message_type.fields_by_number[1].default_value

        def wrapped(message: Any) -> Any:
            only_its_own(message, source.message_type.full_name, path)
            return scalar(fields_of(message).get(1, zero))

        return wrapped
    return scalar


def _scalar(source: FieldDescriptor, kind: str, wanted: str, path: str) -> Convert:
    if kind == "timestamp":
        return lambda message: _EPOCH + timedelta(microseconds=time_of(message, path) // 1000)
    if kind == "duration":
        return lambda message: Decimal(length_of(message, path)).scaleb(-9)
    if kind == "enum":
        return _enum(source.enum_type)
    if wanted == "ulong":
        return Decimal
    if wanted == "double":
        return float
    if kind == "string":
        return _text(path)
    return lambda value: value


def _text(path: str) -> Convert:
    def text(value: Any) -> Any:
        # Google's library gives bytes of what is no text, where a schema allows it.
        if isinstance(value, bytes):
            raise Malformed(f"{path} is not UTF-8")
        return value

    return text


def _enum(enum: EnumDescriptor) -> Convert:
    names: dict[int, str] = {}
    for value in enum.values:
        # The first of several names of a number.
        names.setdefault(value.number, value.name)
    return lambda number: names.get(number) or str(number)


def _conflict(source: FieldDescriptor, reader: Type, path: str) -> UnsupportedMessage:
    return UnsupportedMessage(f"{path} is {words(source)}, and the table has {words_of_table(reader)}")


def words(source: FieldDescriptor) -> str:
    """A field's type for people."""
    if is_map(source):
        return "a map"
    kind = scalar_kind(source)
    one = f"message {source.message_type.full_name}" if source.message_type is not None else kind
    return f"repeated {one}" if source.is_repeated else one


def words_of_table(reader: Type) -> str:
    """A column's type for people."""
    named = {
        "struct": "a message",
        "list": "a list",
        "map": "a map",
        "enum": "an enum",
        "json": "a text of JSON",
    }
    return named.get(reader.kind, str(reader.arrow))
