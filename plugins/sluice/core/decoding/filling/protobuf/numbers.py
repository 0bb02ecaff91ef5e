"""Fields that were kept by their numbers, as no schema of theirs had them: read again by one that has.

A record without a registry names no schema, so it is read with the stream's as it is by now. What was kept is
all that the wire had of such a field, but for its place among the other fields.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from google.protobuf.descriptor import Descriptor

from sluice.core.decoding.avro.types import without_times
from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.filling.from_json import Members, NotWritten, Undecided, read, written
from sluice.core.decoding.filling.merging import HAS_A_VALUE
from sluice.core.decoding.protobuf.lacking import Lacking, lacking
from sluice.core.decoding.protobuf.messages import BYTES, END_GROUP, FIXED32, FIXED64, GROUP, VARINT
from sluice.core.decoding.protobuf.types import Type
from sluice.core.decoding.protobuf.values import Convert, row_of
from sluice.core.decoding.protobuf.wire import WireReader

Row: TypeAlias = Mapping[str, Any]
ONEOF = "another field of its oneof has a value, and it is not known which came last"
OTHER_BYTES = "its bytes are no value of the field of its number"
_WIRE_TYPES = {"varint": VARINT, "fixed64": FIXED64, "fixed32": FIXED32, "bytes": BYTES, "group": GROUP}
_FORMATS = {FIXED64: "<Q", FIXED32: "<I"}


def is_number(name: str) -> bool:
    """Whether a member is of a field without a name: no name begins with a digit."""
    return name[:1].isdecimal()


class Numbers:
    """Reads fields of one schema's messages."""

    def __init__(self) -> None:
        # By the message and the identity of the row, which the caller keeps.
        self._tools: dict[tuple[str, int], tuple[WireReader, Convert, Lacking]] = {}

    def read(
        self, message: Descriptor, reader: Type, number: int, given: Mapping[int, Any], present: Row
    ) -> tuple[str, Any, list[tuple[str, str]]] | None:
        """The column of a field of ``message``, its value, and what is left as members; None if the message
        has no value of such a field. ``given``: what was kept of all numbers; ``present``: the columns of
        ``reader``. Raises NotWritten for what is no field, Undecided with the reason why it stays."""
        source = message.fields_by_number.get(number)
        if source is None:
            return None
        column = next(one for one in reader.fields if one.name == source.name)
        wire, row, rest = self._tools_of(message, reader)
        try:
            found = wire.read(_bytes(number, given[number]))
            if number not in found.fields:
                # It has another type of the wire, or a value that a closed enum lacks.
                return None
            if present.get(column.name) is not None:
                raise Undecided(HAS_A_VALUE)
            oneof = source.containing_oneof
            others = [one for one in oneof.fields if one.number != number] if oneof is not None else []
            if any(one.number in given or present.get(one.name) is not None for one in others):
                raise Undecided(ONEOF)
            new, left = as_numbers(column.type.arrow, row(found)[column.name]), rest(found)
        except Malformed as error:
            raise Undecided(OTHER_BYTES) from error
        members = [(name, written(one)) for name, one in read(left)] if left is not None else []
        return column.name, new, members

    def _tools_of(self, message: Descriptor, reader: Type) -> tuple[WireReader, Convert, Lacking]:
        key = message.full_name, id(reader)
        if key not in self._tools:
            self._tools[key] = WireReader(message), row_of(message, reader), lacking(message, reader)
        return self._tools[key]


def as_numbers(kind: pa.DataType, value: Any) -> Any:
    """A value as a decoder gives it, with its times as numbers."""
    return pa.array([value], kind).cast(without_times(kind))[0].as_py()


def _bytes(number: int, value: Any) -> bytes:
    """What the wire had of all fields of a number."""
    return b"".join(_field(number, one) for one in (value if isinstance(value, list) else [value]))


def _field(number: int, value: Any) -> bytes:
    if not isinstance(value, Members) or len(value) != 1:
        raise NotWritten
    ((name, data),) = value
    wire_type = _WIRE_TYPES.get(name)
    if wire_type is None:
        raise NotWritten
    begin = _varint(number << 3 | wire_type)
    try:
        if wire_type == VARINT:
            return begin + _varint(data)
        if wire_type == BYTES:
            content = binascii.a2b_base64(data, strict_mode=True)
            return begin + _varint(len(content)) + content
        if wire_type in _FORMATS:
            return begin + struct.pack(_FORMATS[wire_type], data)
        return begin + _parts(data) + _varint(number << 3 | END_GROUP)
    except (TypeError, ValueError, struct.error) as error:
        raise NotWritten from error


def _parts(data: Sequence[Any]) -> bytes:
    return b"".join(_field(int(name), one) for part in data for name, one in part)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
