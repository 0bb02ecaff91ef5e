"""What a message has that the table's columns lack, as the text of a JSON object.

Fields that the table does not have, parts of fields that it has, fields that the writer's schema does not
have either (by their numbers), and the nanoseconds of times, which a column of microseconds lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from sluice.core.decoding.avro.unknown.json_values import joined
from sluice.core.decoding.protobuf.json_text import members_of, single_text, unknown_members
from sluice.core.decoding.protobuf.messages import fields_of, sorted_keys
from sluice.core.decoding.protobuf.types import Type, is_map, scalar_kind
from sluice.core.decoding.protobuf.well_known import time_of

# From a value of a field to the JSON text of what is lacking of it; None if nothing is.
Lacking = Callable[[Any], str | None]


def lacking(writer: Descriptor, reader: Type) -> Lacking:
    """From a message to what ``reader`` lacks of it. Writer and reader fit together, as ``row_of`` checks."""
    columns = [(field.source(writer), field.type) for field in reader.fields]
    known = {source.number: kind for source, kind in columns if source is not None}
    others = [field for field in writer.fields if field.number not in known]
    parts: list[tuple[str, int, Lacking]] = []
    for field in writer.fields:
        part = _of_field(field, known[field.number]) if field.number in known else None
        if part is not None:
            parts.append((field.name, field.number, part))

    def text(message: Any) -> str | None:
        members = members_of(others, message)
        if parts:
            values = fields_of(message)
            members += [
                (name, found)
                for name, number, part in parts
                if number in values and (found := part(values[number])) is not None
            ]
        members += unknown_members(message)
        return joined(members) if members else None

    return text


def _of_field(field: FieldDescriptor, reader: Type) -> Lacking | None:
    """None if the table lacks nothing of it, whatever it has."""
    if is_map(field):
        return _of_map(field.message_type.fields_by_number[2], reader) if reader.kind == "map" else None
    if reader.kind != "list":
        return _of_one(field, reader)
    item = _of_one(field, reader.inner)
    if item is None:
        return None

    def of_list(values: Any) -> str | None:
        found = [item(one) for one in values]
        return f"[{','.join(text or 'null' for text in found)}]" if any(found) else None

    return of_list


def _of_map(field: FieldDescriptor, reader: Type) -> Lacking | None:
    item = _of_one(field, reader.inner)
    if item is None:
        return None

    def of_map(values: Any) -> str | None:
        found = [(key, text) for key in sorted_keys(values) if (text := item(values[key])) is not None]
        return joined((_name(key), text) for key, text in found) if found else None

    return of_map


def _name(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _of_one(field: FieldDescriptor, reader: Type) -> Lacking | None:
    if reader.kind == "struct":
        return lacking(field.message_type, reader)
    if scalar_kind(field) == "timestamp" == reader.kind:
        return lambda message: single_text(field, message) if time_of(message, field.name) % 1000 else None
    return None
