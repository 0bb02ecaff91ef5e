"""Further fields of a row of messages, as values of the columns that the table has by now."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, cast

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto

from sluice.core.decoding.avro.unknown.json_values import joined
from sluice.core.decoding.filling.batches import Filled
from sluice.core.decoding.filling.deciding import NO_COLUMN, NO_SCHEMA, only_one
from sluice.core.decoding.filling.from_json import OTHER_TEXT, NotWritten, read, written
from sluice.core.decoding.filling.merging import Outcome
from sluice.core.decoding.filling.protobuf.merging import Merging
from sluice.core.decoding.filling.protobuf.numbers import Numbers, is_number
from sluice.core.decoding.filling.protobuf.texts import may_be
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.schema import ProtobufSchema, UnsupportedMessage
from sluice.core.decoding.protobuf.types import Field


class ProtobufFiller:
    """A :class:`~sluice.core.decoding.filling.batches.Filler` of records in Protobuf."""

    def __init__(self, writers: Iterable[ProtobufSchema], table: TableMessage, *, is_own: bool) -> None:
        """``writers``: the schemas that its records may be written with, of which those with the table's
        message count; ``is_own``: all records are read as the message of ``table``, so that a number that an
        earlier form of it lacked is a field of it."""
        self._table, self._is_own = table, is_own
        found = [one for one in writers if table.name in one.names]
        self._given = tuple(found), table
        numbers = Numbers() if is_own else None
        self._by_number = Merging(numbers)
        self._writers = [(one.message(table.name), Merging(numbers)) for one in found]
        # By the names of a text: name -> the fields that it may be of, each with its column.
        self._known: dict[tuple[str, ...], dict[str, list[_Candidate]] | None] = {}
        self._names = {one.name for one in table.type.fields}

    def __reduce__(self) -> tuple[Any, ...]:
        return _filler, (*self._given, self._is_own)

    @property
    def type(self) -> pa.StructType:
        """As the protocol says."""
        kind = self._table.type.arrow
        assert isinstance(kind, pa.StructType)  # noqa: S101  (narrows the type)
        return kind

    def fill(self, row: Mapping[str, Any], text: str) -> Filled:
        """As the protocol says."""
        try:
            members = read(text)
        except NotWritten as error:
            return Filled(left=text, kept=[("", str(error))])
        if len(dict(members)) < len(members):
            return Filled(left=text, kept=[("", OTHER_TEXT)])
        named = [(name, value) for name, value in members if not is_number(name)]
        candidates = self._candidates(tuple(name for name, _ in named))
        found, rest = Outcome(None, None), list[tuple[str, str]]()
        values = dict[str, Any]()
        for name, value in named:
            if candidates is None:
                rest.append((name, written(value)))
                found.kept += [(name, NO_SCHEMA)] if name in self._names else []
                continue
            if all(one.column is None for one in candidates[name]):
                rest.append((name, written(value)))
                continue
            column, of = _of_member(name, value, row, candidates[name])
            found.add(of)
            if of.fields:
                values[column] = of.value
            rest += [(name, of.left)] if of.left is not None else []
        numbered = {name: value for name, value in members if is_number(name)}
        if numbered:
            # A row has many columns, each read once it is asked for.
            present = ChainMap(values, cast("MutableMapping[str, Any]", row))
            message, kind = self._table.descriptor, self._table.type
            try:
                rest += self._by_number.numbered(message, kind, present, numbered, found, "")
            except NotWritten:
                return Filled(left=text, kept=[("", OTHER_TEXT)])
        return Filled(values, joined(rest) if rest else None, found.fields, found.kept)

    def _candidates(self, names: tuple[str, ...]) -> dict[str, list[_Candidate]] | None:
        """None if no schema has all of the names."""
        if names not in self._known:
            writers = [
                (message, merging)
                for message, merging in self._writers
                if all(name in message.fields_by_name for name in names)
            ]
            self._known[names] = {name: self._distinct(name, writers) for name in names} if writers else None
        return self._known[names]

    def _distinct(self, name: str, writers: Iterable[tuple[Descriptor, Merging]]) -> list[_Candidate]:
        """One for each form that a field has."""
        found = dict[str, _Candidate]()
        for message, merging in writers:
            source = message.fields_by_name[name]
            column = merging.columns(message, self._table.type).get(name)
            one = _Candidate(source, column, merging)
            found.setdefault(repr((_shape(source), column and column.name)), one)
        return [*found.values()]


def _filler(writers: Iterable[ProtobufSchema], table: TableMessage, is_own: bool) -> ProtobufFiller:
    return ProtobufFiller(writers, table, is_own=is_own)


class _Candidate:
    """A field that a member may be of, and its column."""

    def __init__(self, source: FieldDescriptor, column: Field | None, merging: Merging) -> None:
        self.source, self.column, self.merging = source, column, merging


def _of_member(
    name: str, value: Any, row: Mapping[str, Any], candidates: Iterable[_Candidate]
) -> tuple[str, Outcome]:
    """The column of a member, and what all schemas that may have it make of it."""
    found, reasons = list[tuple[str, Outcome]](), list[str]()
    for one in candidates:
        if one.column is None:
            reasons += [NO_COLUMN] if may_be(one.source, value) else []
            continue
        present = row.get(one.column.name)
        try:
            of = one.merging.merged(one.source, one.column.type, present, value, name)
        except NotWritten:
            continue
        except UnsupportedMessage as error:
            reasons += [str(error)] if may_be(one.source, value) else []
            continue
        found.append((one.column.name, of))
    return only_one(name, value, found, reasons)


def _shape(field: FieldDescriptor) -> tuple[Any, ...]:
    """What its values depend on, with all messages and enums that it has inside."""
    parts, left = dict[str, str](), [field]
    while left:
        one = left.pop()
        message, enum = one.message_type, one.enum_type
        if message is not None and message.full_name not in parts:
            described = DescriptorProto()
            message.CopyToProto(described)
            parts[message.full_name] = str(described)
            left += message.fields
        elif enum is not None and enum.full_name not in parts:
            symbols = EnumDescriptorProto()
            enum.CopyToProto(symbols)
            parts[enum.full_name] = str(symbols)
    return field.number, field.type, field.is_repeated, field.has_presence, sorted(parts.items())
