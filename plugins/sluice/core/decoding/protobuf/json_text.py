"""Messages and their fields as the text of JSON, as the other formats' unknown fields have it.

Of a message each field that is set, and each without presence, as a reader of its schema has them; then
fields that its schema does not have, by their numbers.
"""

from __future__ import annotations

import binascii
import json
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from sluice.core.decoding.avro.unknown.json_values import joined
from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.protobuf.messages import (
    BYTES,
    FIXED32,
    FIXED64,
    GROUP,
    VARINT,
    AnyMessage,
    UnknownField,
    fields_of,
    sorted_keys,
    unknown_of,
)
from sluice.core.decoding.protobuf.types import (
    LENGTH_OF_TIME,
    LIST_VALUE,
    STRUCT,
    TIMESTAMP,
    VALUE,
    WRAPPERS,
    is_map,
)
from sluice.core.decoding.protobuf.well_known import length_of, only_its_own, time_of, time_text

_WIRE_NAMES = {VARINT: "varint", FIXED64: "fixed64", FIXED32: "fixed32", BYTES: "bytes", GROUP: "group"}


def message_text(descriptor: Descriptor, message: AnyMessage) -> str:
    """Raises Malformed for a text that is no UTF-8, and a time that is none."""
    special = _SPECIAL.get(descriptor.full_name)
    if special is not None:
        only_its_own(message, descriptor.full_name, f"a {descriptor.name}")
        return special(message, descriptor)
    return joined([*members_of(descriptor.fields, message), *unknown_members(message)])


def members_of(fields: Iterable[FieldDescriptor], message: AnyMessage) -> list[tuple[str, str]]:
    """Name and JSON text of the fields that a message has."""
    values = fields_of(message)
    found = []
    for field in fields:
        if field.number in values:
            found.append((field.name, field_text(field, values[field.number])))
        elif field.is_repeated or not field.has_presence:
            found.append((field.name, field_text(field, _unset(field))))
    return found


def unknown_members(message: AnyMessage) -> list[tuple[str, str]]:
    """The fields that the schema of a message does not have, by their numbers: ``{"17":{"varint":5}}``, and
    a list of several. Raises WrittenAgain."""
    found: dict[int, list[str]] = {}
    for one in unknown_of(message):
        found.setdefault(one.number, []).append(_unknown_text(one))
    return [
        (str(number), texts[0] if len(texts) == 1 else f"[{','.join(texts)}]")
        for number, texts in sorted(found.items())
    ]


def field_text(field: FieldDescriptor, value: Any) -> str:
    """A field's value, with all of its elements or entries."""
    if is_map(field):
        item = field.message_type.fields_by_number[2]
        return joined((_key_text(one), single_text(item, value[one])) for one in sorted_keys(value))
    if field.is_repeated:
        return f"[{','.join(single_text(field, one) for one in value)}]"
    return single_text(field, value)


def single_text(field: FieldDescriptor, value: Any) -> str:
    """One value of a field."""
    if field.message_type is not None:
        return message_text(field.message_type, value)
    return scalar_text(field, value)


def scalar_text(field: FieldDescriptor, value: Any) -> str:
    if field.enum_type is not None:
        names = {one.number: one.name for one in reversed(field.enum_type.values)}
        return _text(names.get(value) or str(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        if field.type == FieldDescriptor.TYPE_STRING:
            raise Malformed(f"{field.name} is not UTF-8")
        return f'"{binascii.b2a_base64(value, newline=False).decode()}"'
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _number(value, is_double=field.type == FieldDescriptor.TYPE_DOUBLE)
    return str(value)


def _unset(field: FieldDescriptor) -> Any:
    return ({} if is_map(field) else []) if field.is_repeated else field.default_value


def _key_text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, bytes):
        raise Malformed("a key of a map is not UTF-8")
    return str(key)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _number(value: float, *, is_double: bool) -> str:
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    # The shortest text of 32 bits, which is no text of the same number in 64.
    return repr(value) if is_double else str(np.float32(value))


def _unknown_text(one: UnknownField) -> str:
    if isinstance(one.data, int):
        text = str(one.data)
    elif isinstance(one.data, bytes):
        text = f'"{binascii.b2a_base64(one.data, newline=False).decode()}"'
    else:
        text = f"[{','.join(joined([(str(part.number), _unknown_text(part))]) for part in one.data)}]"
    return joined([(_WIRE_NAMES[one.wire_type], text)])


def _time(message: AnyMessage, descriptor: Descriptor) -> str:
    return f'"{time_text(time_of(message, "a Timestamp"))}"'


def _length(message: AnyMessage, descriptor: Descriptor) -> str:
    return f'"{Decimal(length_of(message, "a Duration")).scaleb(-9):f}"'


def _wrapped(message: AnyMessage, descriptor: Descriptor) -> str:
    field = descriptor.fields_by_number[1]
    return scalar_text(field, fields_of(message).get(1, field.default_value))


def _struct(message: AnyMessage, descriptor: Descriptor) -> str:
    return field_text(descriptor.fields_by_number[1], fields_of(message).get(1, {}))


def _list(message: AnyMessage, descriptor: Descriptor) -> str:
    return field_text(descriptor.fields_by_number[1], fields_of(message).get(1, []))


def _value(message: AnyMessage, descriptor: Descriptor) -> str:
    # A oneof: null_value, number_value, string_value, bool_value, struct_value, list_value.
    for number, value in fields_of(message).items():
        return "null" if number == 1 else single_text(descriptor.fields_by_number[number], value)
    return "null"


_SPECIAL: dict[str, Callable[[AnyMessage, Descriptor], str]] = {
    TIMESTAMP: _time,
    LENGTH_OF_TIME: _length,
    STRUCT: _struct,
    LIST_VALUE: _list,
    VALUE: _value,
    **dict.fromkeys(WRAPPERS, _wrapped),
}
