"""What a message has, read by either: Google's library, or :mod:`.wire`, the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

# Types of the wire: https://protobuf.dev/programming-guides/encoding/
VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)


@dataclass(frozen=True)
class UnknownField:
    """A field that the schema does not have, or the entry of a map that the map cannot have. ``data``: a
    number, bytes, or of a group what is in it."""

    number: int
    wire_type: int
    data: int | bytes | tuple[UnknownField, ...]


class WrittenAgain(Exception):
    """Google's library kept an entry of a map as an unknown field, which it wrote again by itself: with its
    fields in another order, or without those that came twice. Or it kept a field of the number 0, which is
    none."""


@dataclass
class ReadMessage:
    """A message of the reference. ``fields``: number -> the value, of each field that is set, as ListFields
    of Google's library has them; ``unknown``: in the order of the wire."""

    fields: dict[int, Any] = field(default_factory=dict)
    unknown: list[UnknownField] = field(default_factory=list)


# Google's classes have no common type of values.
AnyMessage: TypeAlias = Message | ReadMessage


def fields_of(message: AnyMessage) -> dict[int, Any]:
    """Number -> the value, of each field that is set: a repeated one as a sequence, a map as a mapping."""
    if isinstance(message, ReadMessage):
        return message.fields
    # By its class: a field may have the name of a method.
    return {found.number: value for found, value in type(message).ListFields(message)}


def sorted_keys(values: Mapping[Any, Any]) -> list[Any]:
    """The keys of a map, which has no order on the wire; those that are no UTF-8, which are bytes, last."""
    return sorted(values, key=lambda key: (isinstance(key, bytes), key))


def unknown_of(message: AnyMessage) -> list[UnknownField]:
    """Raises WrittenAgain for a message of Google's library."""
    if isinstance(message, ReadMessage):
        return message.unknown
    found = list(_unknown(UnknownFieldSet(message)))
    if found:
        fields = type(message).DESCRIPTOR.fields_by_number
        # The library takes the number 0 in a message without fields, and there only.
        if any(
            not one.number or (one.wire_type == BYTES and _is_map(fields.get(one.number))) for one in found
        ):
            raise WrittenAgain
    return found


def _is_map(field: FieldDescriptor | None) -> bool:
    return field is not None and field.message_type is not None and field.message_type.GetOptions().map_entry


def _unknown(found: UnknownFieldSet) -> Iterator[UnknownField]:
    for one in found:
        is_group = one.wire_type == GROUP
        yield UnknownField(
            one.field_number, one.wire_type, tuple(_unknown(one.data)) if is_group else one.data
        )
