"""Histories of a Protobuf message: versions that a table can follow, each made of the one before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pb2 import FileDescriptorSet as Files

from sluice.core.decoding.protobuf.schema import ProtobufSchema
from sluice.core.decoding.protobuf.types import Type, is_map

_ROOT = "m.proto"
# Kinds that the wire has in the same bytes, and whose columns become as wide.
_WIDER = {"int32": "int64", "uint32": "int64"}
_WHOLE = ("int32", "int64", "uint32", "uint64", "sint32")
_SCALARS = (*_WHOLE, "float", "double", "bool", "string", "bytes")
ONE, OPTIONAL, LIST, MAP, ONEOF = "one", "optional", "list", "map", "oneof"
# Moved into a oneof that has no other member: with one, a message may have had both.
MOVED = "moved"


@dataclass(frozen=True)
class Part:
    """A field. ``kind``: a scalar's, enum or message; ``label``: how many there are, how they are set;
    ``fields``: of a message; ``number``, ``name``: as the message has them."""

    number: int
    name: str
    kind: str
    label: str = ONE
    fields: tuple[Part, ...] = field(default=())


@dataclass(frozen=True)
class Version:
    fields: tuple[Part, ...]
    symbols: int = 2

    def schema(self) -> ProtobufSchema:
        """With the message ``h.M``."""
        file = FileDescriptorProto(name=_ROOT, package="h", syntax="proto3")
        state = file.enum_type.add(name="State")
        for number in range(self.symbols):
            state.value.add(name=f"S{number}", number=number)
        _write(file.message_type.add(name="M"), self.fields, ".h.M")
        return ProtobufSchema(Files(file=[file]).SerializeToString(), _ROOT)


def _write(message: DescriptorProto, fields: tuple[Part, ...], full: str) -> None:
    alone = [one for one in fields if one.label in (OPTIONAL, MOVED)]
    # Those that the syntax makes are the last ones.
    alone.sort(key=lambda one: one.label == OPTIONAL)
    if any(one.label == ONEOF for one in fields):
        message.oneof_decl.add(name="choice")
    begin = len(message.oneof_decl)
    for one in alone:
        message.oneof_decl.add(name=f"_{one.name}")
    for one in fields:
        made = message.field.add(name=one.name, number=one.number, label=1)
        if one.label == MAP:
            entry = message.nested_type.add(name=f"E{one.number}")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=1, type=FieldDescriptorProto.TYPE_STRING)
            _kind(entry.field.add(name="value", number=2, label=1), one, message, full)
            made.label, made.type = 3, FieldDescriptorProto.TYPE_MESSAGE
            made.type_name = f"{full}.E{one.number}"
            continue
        _kind(made, one, message, full)
        if one.label == LIST:
            made.label = 3
        elif one.label == ONEOF:
            made.oneof_index = 0
        elif one in alone:
            made.oneof_index = begin + alone.index(one)
            if one.label == OPTIONAL:
                made.proto3_optional = True


def _kind(made: FieldDescriptorProto, one: Part, message: DescriptorProto, full: str) -> None:
    made.type = FieldDescriptorProto.Type.Value(f"TYPE_{one.kind.upper()}")
    if one.kind == "enum":
        made.type_name = ".h.State"
    elif one.kind == "message":
        inner = f"{full}.N{one.number}"
        made.type_name = inner
        _write(message.nested_type.add(name=f"N{one.number}"), one.fields, inner)


class Histories:
    def __init__(self, random: Random) -> None:
        self._random, self._names = random, count()
        self._numbers: dict[str, Iterator[int]] = {}

    def versions(self, number: int) -> list[Version]:
        found = [Version(self._more((), "M", 3))]
        while len(found) < number:
            last = found[-1]
            grown = last.symbols + self._random.randint(0, 1)
            found.append(replace(last, fields=self._next(last.fields, "M", 3), symbols=grown))
        return found

    def _may(self, chance: float) -> bool:
        return self._random.random() < chance

    def _next(self, fields: tuple[Part, ...], path: str, depth: int) -> tuple[Part, ...]:
        kept = []
        for one in fields:
            # Removed, or its number is reserved.
            if self._may(0.15):
                continue
            now = one
            if one.kind == "message":
                now = replace(one, fields=self._next(one.fields, f"{path}.{one.number}", depth - 1))
            elif one.kind in _WIDER and self._may(0.3):
                now = replace(now, kind=_WIDER[one.kind])
            if one.label == ONE and self._may(0.3):
                now = replace(now, label=self._random.choice((OPTIONAL, MOVED)))
            if self._may(0.2):
                now = replace(now, name=f"f{next(self._names)}")
            kept.append(now)
        self._random.shuffle(kept)
        return self._more(tuple(kept), path, depth)

    def _more(self, fields: tuple[Part, ...], path: str, depth: int) -> tuple[Part, ...]:
        numbers = self._numbers.setdefault(path, count(1))
        found = list(fields)
        while not found or self._may(0.6):
            number = next(numbers)
            label = self._random.choice((ONE, ONE, OPTIONAL, LIST, MAP, ONEOF))
            kind = self._random.choice((*_SCALARS, "enum", *(("message",) * 4 if depth else ())))
            inner = self._more((), f"{path}.{number}", depth - 1) if kind == "message" else ()
            found.append(Part(number, f"f{next(self._names)}", kind, label, inner))
        return tuple(found)


def in_columns(found: dict[str, Any] | None, table: Type, writer: Descriptor, reader: Descriptor) -> Any:
    """A row that was read as a message of ``reader``, in the columns of ``table``, of those fields that the
    reader has: null for those that the writer lacks, and what stands for one that it cannot leave out."""
    if found is None:
        return None
    row = {}
    for column in table.fields:
        own, source = reader.fields_by_number.get(column.number), writer.fields_by_number.get(column.number)
        if own is None:
            continue
        value = None if source is None else found[own.name]
        if source is not None and own.message_type is not None:
            value = _inner(value, column.type, source, own)
        elif source is not None and value is None and not source.has_presence:
            value = source.default_value if source.enum_type is None else source.enum_type.values[0].name
        row[column.name] = value
    return row


def _inner(value: Any, table: Type, source: FieldDescriptor, own: FieldDescriptor) -> Any:
    if is_map(own):
        of_source, of_own = (one.message_type.fields_by_number[2].message_type for one in (source, own))
        if of_own is None:
            return value
        return [(key, in_columns(one, table.inner, of_source, of_own)) for key, one in value]
    if own.is_repeated:
        return [in_columns(one, table.inner, source.message_type, own.message_type) for one in value]
    return in_columns(value, table, source.message_type, own.message_type)


def without(row: Any, expected: Any) -> Any:
    """Without the columns that are not expected."""
    if isinstance(expected, dict) and isinstance(row, dict):
        return {name: without(row[name], value) for name, value in expected.items()}
    if isinstance(expected, list) and isinstance(row, list):
        return [without(*both) for both in zip(row, expected, strict=True)]
    if isinstance(expected, tuple) and isinstance(row, tuple):
        return tuple(without(*both) for both in zip(row, expected, strict=True))
    return row
