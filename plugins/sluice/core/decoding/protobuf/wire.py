"""The reference: reads the wire format by itself, and says why bytes are no message.

https://protobuf.dev/programming-guides/encoding/. It reads as Google's library does: the last of several
values of a field counts, messages are joined, and what a closed enum does not have is an unknown field.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.protobuf.messages import (
    BYTES,
    END_GROUP,
    FIXED32,
    FIXED64,
    GROUP,
    VARINT,
    ReadMessage,
    UnknownField,
)
from sluice.core.decoding.protobuf.types import is_map

# Messages inside of each other, as Google's library reads them.
MAX_DEPTH = 100
_MAX_TAG, _VARINT_BYTES, _TAG_BYTES = 2**32, 10, 5
_FIXED = {
    FieldDescriptor.TYPE_DOUBLE: "<d",
    FieldDescriptor.TYPE_FLOAT: "<f",
    FieldDescriptor.TYPE_FIXED64: "<Q",
    FieldDescriptor.TYPE_FIXED32: "<I",
    FieldDescriptor.TYPE_SFIXED64: "<q",
    FieldDescriptor.TYPE_SFIXED32: "<i",
}
_LENGTHS = {VARINT: 0, FIXED64: 8, FIXED32: 4}
_TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
_MESSAGES = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP)


class _Field:
    """How a field is read. ``others``: numbers of the members of its oneof."""

    def __init__(self, field: FieldDescriptor) -> None:
        self.name, self.number, self.type = field.name, field.number, field.type
        self.is_repeated, self.is_map = field.is_repeated, is_map(field)
        self.has_presence, self.message = field.has_presence, field.message_type
        oneof = field.containing_oneof
        members = [one.number for one in oneof.fields] if oneof is not None else []
        self.others = tuple(number for number in members if number != field.number)
        self.format = _FIXED.get(field.type, "")
        self.is_strict = field.type == FieldDescriptor.TYPE_STRING and _is_strict(field)
        self.known: frozenset[int] | None = None
        if field.enum_type is not None and field.enum_type.is_closed:
            self.known = frozenset(field.enum_type.values_by_number)
        self.default = None if self.message is not None else field.default_value

    @property
    def wire_type(self) -> int:
        if self.format:
            return FIXED64 if struct.calcsize(self.format) == 8 else FIXED32
        if self.type in _TEXTS or self.type == FieldDescriptor.TYPE_MESSAGE:
            return BYTES
        return GROUP if self.type == FieldDescriptor.TYPE_GROUP else VARINT

    @property
    def is_packable(self) -> bool:
        return self.is_repeated and self.type not in (*_TEXTS, *_MESSAGES)


def _is_strict(field: FieldDescriptor) -> bool:
    """Whether Google's library takes nothing but UTF-8 for it, which no property of a descriptor says."""
    one = bytes([0xFF])
    found = GetMessageClass(field.containing_type)()
    try:
        found.MergeFromString(_varint(field.number << 3 | BYTES) + bytes([len(one)]) + one)
    except DecodeError:
        return True
    return False


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


@dataclass(frozen=True)
class _Place:
    """Where in a record something is: for reasons. ``end``: where its bytes end."""

    path: str
    end: int
    depth: int

    def inside(self, name: str, end: int) -> _Place:
        return _Place(f"{self.path}.{name}" if self.path else name, end, self.depth + 1)


class WireReader:
    """Reads messages of one schema. For one thread."""

    def __init__(self, message: Descriptor) -> None:
        self._message, self._fields = message, dict[str, dict[int, _Field]]()
        self._data = b""

    def read(self, data: bytes) -> ReadMessage:
        """Raises Malformed with the path and the byte, counted from 1."""
        self._data = data
        found = ReadMessage()
        self._read(self._message, found, 0, _Place("", len(data), 0))
        return found

    def _fields_of(self, message: Descriptor) -> dict[int, _Field]:
        fields = self._fields.get(message.full_name)
        if fields is None:
            fields = {field.number: _Field(field) for field in message.fields}
            self._fields[message.full_name] = fields
        return fields

    def _wrong(self, words: str, at: int, place: _Place) -> Malformed:
        where = f" in {place.path}" if place.path else ""
        return Malformed(f"not a message {self._message.full_name}: {words}{where}, at byte {at + 1}")

    def _read(
        self, message: Descriptor, into: ReadMessage, at: int, place: _Place, group: int | None = None
    ) -> int:
        """Read fields up to the end of ``place``, or of the group; returns where that is."""
        if place.depth > MAX_DEPTH:
            raise self._wrong(f"more than {MAX_DEPTH} messages inside of each other", at, place)
        fields = self._fields_of(message)
        while at < place.end:
            begin = at
            number, wire_type, at = self._tag(at, place)
            if wire_type == END_GROUP:
                if number != group:
                    raise self._wrong(f"the end of a group {number} that did not begin", begin, place)
                return at
            field = fields.get(number)
            if field is None or not self._is_of(field, wire_type):
                at = self._skip(number, wire_type, at, place, into)
            elif field.message is not None:
                at = self._of_message(field, into, at, place)
            elif wire_type == BYTES and field.is_packable:
                at, end = self._length(at, place.inside(field.name, place.end))
                inner = place.inside(field.name, end)
                while at < inner.end:
                    value, at = self._scalar(field, at, inner)
                    self._put(field, value, into)
            else:
                value, at = self._scalar(field, at, place.inside(field.name, place.end))
                self._put(field, value, into)
        if group is not None:
            raise self._wrong("the bytes end before a group does", at, place)
        return at

    def _is_of(self, field: _Field, wire_type: int) -> bool:
        return wire_type == field.wire_type or (wire_type == BYTES and field.is_packable)

    def _put(self, field: _Field, value: Any, into: ReadMessage) -> None:
        if field.known is not None:
            sent, value = value, _whole(field.type, value)
            if value not in field.known:
                into.unknown.append(UnknownField(field.number, VARINT, sent))
                return
        if field.is_repeated:
            into.fields.setdefault(field.number, []).append(value)
            return
        for other in field.others:
            into.fields.pop(other, None)
        is_zero = not value and not (isinstance(value, float) and struct.pack("<d", value) != bytes(8))
        if is_zero and not field.has_presence:
            into.fields.pop(field.number, None)
        else:
            into.fields[field.number] = value

    def _of_message(self, field: _Field, into: ReadMessage, at: int, place: _Place) -> int:
        assert field.message is not None  # noqa: S101  (narrows the type)
        inner, found, group = place.inside(field.name, place.end), ReadMessage(), None
        if field.type == FieldDescriptor.TYPE_GROUP:
            group = field.number
        else:
            at, end = self._length(at, inner)
            inner = place.inside(field.name, end)
        begin = at
        if not field.is_repeated:
            for other in field.others:
                into.fields.pop(other, None)
            found = into.fields.setdefault(field.number, found)
        at = self._read(field.message, found, at, inner, group)
        if field.is_map:
            self._put_entry(field, found, self._data[begin:at], into)
        elif field.is_repeated:
            into.fields.setdefault(field.number, []).append(found)
        return at

    def _put_entry(self, field: _Field, entry: ReadMessage, content: bytes, into: ReadMessage) -> None:
        assert field.message is not None  # noqa: S101  (narrows the type)
        key, item = (self._fields_of(field.message)[number] for number in (1, 2))
        # A closed enum's other value, or a field that no entry has.
        if entry.unknown:
            into.unknown.append(UnknownField(field.number, BYTES, content))
            return
        value = entry.fields.get(item.number, ReadMessage() if item.message is not None else item.default)
        into.fields.setdefault(field.number, {})[entry.fields.get(key.number, key.default)] = value

    def _scalar(self, field: _Field, at: int, place: _Place) -> tuple[Any, int]:
        if field.format:
            end = self._end(at, struct.calcsize(field.format), place)
            return struct.unpack(field.format, self._data[at:end])[0], end
        if field.type in _TEXTS:
            at, end = self._length(at, place)
            content = self._data[at:end]
            return (self._text(field, content, at, place), end) if field.type == _TEXTS[0] else (content, end)
        number, at = self._number(at, place)
        # A closed enum keeps what was sent, for a number that the enum lacks.
        return (number if field.known is not None else _whole(field.type, number)), at

    def _text(self, field: _Field, content: bytes, at: int, place: _Place) -> str | bytes:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            # As the library gives them, of schemas that allow them.
            if not field.is_strict:
                return content
            raise self._wrong("not UTF-8", at + error.start, place) from None

    def _tag(self, at: int, place: _Place) -> tuple[int, int, int]:
        tag, end = self._number(at, place)
        if tag >= _MAX_TAG or end - at > _TAG_BYTES:
            raise self._wrong("a field's tag is too large", at, place)
        number, wire_type = tag >> 3, tag & 7
        if not number or wire_type > FIXED32:
            words = f"the wire type {wire_type}, which is none" if number else "the field number 0"
            raise self._wrong(words, at, place)
        return number, wire_type, end

    def _number(self, at: int, place: _Place) -> tuple[int, int]:
        """A varint, of 64 bits, and where it ends."""
        found = 0
        for place_of in range(_VARINT_BYTES):
            if at + place_of >= place.end:
                raise self._wrong("the bytes end in a number", at, place)
            byte = self._data[at + place_of]
            found |= (byte & 0x7F) << 7 * place_of
            if byte < 0x80:
                return found % 2**64, at + place_of + 1
        raise self._wrong(f"a number of more than {_VARINT_BYTES} bytes", at, place)

    def _length(self, at: int, place: _Place) -> tuple[int, int]:
        """Where what has a length before it begins, and where it ends."""
        length, begin = self._number(at, place)
        return begin, self._end(begin, length, place)

    def _end(self, at: int, length: int, place: _Place) -> int:
        if at + length > place.end:
            raise self._wrong(f"{place.end - at} of {length} bytes", at, place)
        return at + length

    def _skip(self, number: int, wire_type: int, at: int, place: _Place, into: ReadMessage) -> int:
        found, at = self._unknown(number, wire_type, at, place)
        into.unknown.append(found)
        return at

    def _unknown(self, number: int, wire_type: int, at: int, place: _Place) -> tuple[UnknownField, int]:
        inner = place.inside(f"field {number}", place.end)
        if wire_type == VARINT:
            value, at = self._number(at, inner)
            return UnknownField(number, wire_type, value), at
        if wire_type == BYTES:
            at, end = self._length(at, inner)
            return UnknownField(number, wire_type, self._data[at:end]), end
        if wire_type in _LENGTHS:
            end = self._end(at, _LENGTHS[wire_type], inner)
            return UnknownField(number, wire_type, int.from_bytes(self._data[at:end], "little")), end
        if inner.depth > MAX_DEPTH:
            raise self._wrong(f"more than {MAX_DEPTH} messages inside of each other", at, place)
        parts: list[UnknownField] = []
        while at < inner.end:
            begin = at
            own, kind, at = self._tag(at, inner)
            if kind == END_GROUP:
                if own != number:
                    raise self._wrong(f"the end of a group {own} that did not begin", begin, inner)
                return UnknownField(number, GROUP, tuple(parts)), at
            part, at = self._unknown(own, kind, at, inner)
            parts.append(part)
        raise self._wrong("the bytes end before a group does", at, inner)


def _whole(kind: int, number: int) -> int | bool:
    """A varint's 64 bits as a number of the field's type."""
    if kind == FieldDescriptor.TYPE_BOOL:
        return bool(number)
    if kind in (FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SINT64):
        number = number % 2**32 if kind == FieldDescriptor.TYPE_SINT32 else number
        return number >> 1 ^ -(number & 1)
    if kind in (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64):
        return number - 2**64 if kind == FieldDescriptor.TYPE_INT64 and number >= 2**63 else number
    number %= 2**32
    return number - 2**32 if kind != FieldDescriptor.TYPE_UINT32 and number >= 2**31 else number
