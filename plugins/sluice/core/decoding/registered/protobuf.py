"""Protobuf with a registry: each record is the message that it names, of the schema that it names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from sluice.core.decoding.arrays import is_null
from sluice.core.decoding.avro.following.conflicts import Combined, Conflict, Fix
from sluice.core.decoding.decoder import TOMBSTONE, Decoded, Malformed, RawHeaders
from sluice.core.decoding.protobuf.decoder import TableMessage, decoded
from sluice.core.decoding.protobuf.following.merging import merge
from sluice.core.decoding.protobuf.frames import message_indexes
from sluice.core.decoding.protobuf.messages import AnyMessage
from sluice.core.decoding.protobuf.reader import MessageReader
from sluice.core.decoding.protobuf.schema import Compile, NotCompiled, ProtobufSchema, UnsupportedMessage
from sluice.core.decoding.protobuf.types import Type, struct_of
from sluice.core.decoding.protobuf.values import row_of
from sluice.core.decoding.registered.unfollowed import Following, Version
from sluice.core.registry.errors import NotPrepared, RefusedSchema, UnknownSchema
from sluice.core.registry.framing import framed, unframed
from sluice.core.registry.lookups import Kept, in_turn, kept
from sluice.core.registry.preparing import MAX_SIZE, PreparationBudget
from sluice.core.registry.schemas import PROTOBUF, RegisteredSchema, Schemas
from sluice.core.registry.subjects import Part

# Schemas that are ready for use; a topic has few, unless a producer registers one for each record.
_MAX_WRITERS = 1_000
# No import can have the name.
_ROOT = "_registered.proto"
# What a stream declares of a part.
_WORDS = {Part.VALUE: "format", Part.KEY: "key"}
_NO_COLUMNS = struct_of(())
# A schema id, and where a message stands in the schema.
_Place = tuple[int, tuple[int, ...]]


def schema_of(schema: RegisteredSchema, compiled: Compile) -> ProtobufSchema:
    """The messages of a registered schema of PROTOBUF. Raises NotCompiled."""
    return ProtobufSchema(compiled(dict(schema.imports) | {_ROOT: schema.text}, _ROOT), _ROOT)


def combined(following: Following, table: TableMessage, other: Descriptor) -> Combined[Type]:
    """The row of ``table`` with what messages of ``other`` add. Without columns to add: the same, or the
    conflict for which no message can be read."""
    if following.adds_columns:
        return merge(
            table.type, other, table.as_text, following.names, recursive_as_text=table.recursive_as_text
        )
    try:
        row_of(other, table.type)
    except UnsupportedMessage as error:
        found = Conflict("the message", "its columns", str(error), Fix.DECLARED)
        return Combined(table.type, conflicts=(found,))
    return Combined(table.type)


@dataclass(frozen=True)
class _Message:
    """A message of a schema. ``reader``: or the reason why its records are rejected; ``version``: if it is
    more than the table's; ``may_change``: its schema may become one of the topic's."""

    reader: MessageReader | str
    version: Version | None = None
    may_change: bool = False


class _Registered(ABC):
    """A :class:`Decoder` of messages that name their schema, and their place in it."""

    def __init__(self, schema: pa.Schema, schemas: Schemas, compiled: Compile, part: Part) -> None:
        """``compiled``: compiles a registered schema; ``part``: of the record."""
        self.schema = schema
        self._schemas, self._compiled, self._part = schemas, compiled, part
        self._writers = Kept[int, ProtobufSchema | str](_MAX_WRITERS, MAX_SIZE, self._forget)
        self._messages: dict[_Place, _Message] = {}
        self._budget = PreparationBudget()
        # What the ids of the last piece are, and which of its messages were not made ready: the sample of
        # the piece is read with the same.
        self._asked: dict[int, ProtobufSchema | str] = {}
        self._unready: dict[_Place, str] = {}
        # The table's message, by the ids of schemas that have it.
        self._ready: dict[int, _Message] = {}

    @abstractmethod
    def _new_message(self, schema_id: int, writer: ProtobufSchema, indexes: tuple[int, ...]) -> _Message:
        """The message at a place of a schema. Raises NotPrepared."""

    def _prepare(self, schema_id: int, writer: ProtobufSchema) -> None:  # noqa: B027  (keys need nothing)
        """Make ready what is slow of a schema's messages, while it is the schema's turn."""

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says; raises also what ``compiled`` raises if it says nothing of a schema."""
        found = framed(values, headers, self._part)
        ids = found.ids.tolist()
        # In this order: an id that the login may not read is judged beside those that it may.
        self._asked.clear()
        self._unready.clear()
        self._writers.next_piece()
        for schema_id in [one for one, message in self._ready.items() if message.may_change]:
            del self._ready[schema_id]
        self._asked = in_turn(found.schema_ids, self._writer)
        unfollowed: dict[Version, int] = {}

        def read(place: int, value: bytes) -> Mapping[str, Any]:
            if (why := found.reasons.get(place)) is not None:
                raise Malformed(why)
            body = found.data[found.starts[place] : found.ends[place]].tobytes()
            message, begin = self._message(ids[place], body)
            if message.version is not None and message.version.has_record([body[begin:]]):
                unfollowed.setdefault(message.version, ids[place])
            return _reader(message).value(body[begin:])

        rows = decoded(self.schema, values.to_pylist(), read)
        of_ids = found.rows_of_ids(is_null(rows.reasons))
        return replace(rows, unfollowed=frozenset(unfollowed.values()), schemas=of_ids)

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        if value is None:
            raise Malformed(TOMBSTONE)
        schema_id, body = unframed(value, headers, self._part)
        message, begin = self._message(schema_id, body)
        return _reader(message).reference(body[begin:])

    def _message(self, schema_id: int, body: bytes) -> tuple[_Message, int]:
        """Which message a record is, and where in its body it begins. Raises Malformed."""
        writer = self._asked.get(schema_id) or self._writer(schema_id)
        if isinstance(writer, str):
            raise Malformed(writer)
        indexes, begin = message_indexes(body)
        place = schema_id, indexes
        if (why := self._unready.get(place)) is not None:
            raise Malformed(why)
        found = self._messages.get(place)
        if found is None:
            # Records of garbage name as many messages as there are.
            try:
                made = self._new_message(schema_id, writer, indexes)
            except NotPrepared as error:
                self._unready[place] = str(error)
                raise Malformed(str(error)) from error
            if made.may_change:
                return made, begin
            found = kept(self._messages, place, made, _MAX_WRITERS)
        return found, begin

    def _writer(self, schema_id: int) -> ProtobufSchema | str:
        """The schema, or the reason why its records are rejected."""
        found = self._writers.get(schema_id)
        if found is not None:
            return found
        try:
            schema = self._schemas.get(schema_id)
            size = len(schema.text) + sum(len(text) for _, text in schema.imports)
            made = self._budget.run(f"schema id {schema_id}", lambda: self._new_writer(schema), size)
        # What the registry does not have now, or what was not made ready now, it may have later.
        except (UnknownSchema, RefusedSchema) as error:
            return str(error)
        return self._writers.put(schema_id, made, 0 if isinstance(made, str) else size)

    def _forget(self, schema_id: int) -> None:
        for place in [one for one in self._messages if one[0] == schema_id]:
            del self._messages[place]
        self._ready.pop(schema_id, None)

    def _new_writer(self, schema: RegisteredSchema) -> ProtobufSchema | str:
        what = f"schema id {schema.id}"
        if schema.type != PROTOBUF:
            return f"{what} is of type {schema.type}, and the stream's {_WORDS[self._part]} is protobuf"
        try:
            found = schema_of(schema, self._compiled)
        except NotCompiled as error:
            return f"{what} cannot be used: {error}"
        self._prepare(schema.id, found)
        return found


class RegisteredProtobuf(_Registered):
    """A :class:`Decoder` of messages of the table's name, of each schema that its columns can be read of."""

    def __init__(
        self,
        table: TableMessage,
        schemas: Schemas,
        compiled: Compile,
        unknown: str = "",
        following: Following | None = None,
    ) -> None:
        """``unknown``: the column of what the table lacks of a message, empty if it is not kept;
        ``following``: how the table follows other schemas, None if they are none of its versions."""
        super().__init__(table.columns(unknown), schemas, compiled, Part.VALUE)
        self._table, self._unknown, self._following = table, unknown, following

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._table, self._schemas, self._compiled, self._unknown, self._following)

    def _new_message(self, schema_id: int, writer: ProtobufSchema, indexes: tuple[int, ...]) -> _Message:
        what, names = f"schema id {schema_id}", writer.names_at(indexes)
        if self._table.name not in names:
            place = ", ".join(map(str, indexes))
            found = f"is a {' or a '.join(names)}" if names else f"is none of {what}: message indexes {place}"
            return _Message(f"its message {found}, and the stream's is {self._table.name}")
        return self._ready.get(schema_id) or self._budget.run(
            what, lambda: self._own_message(schema_id, writer)
        )

    def _prepare(self, schema_id: int, writer: ProtobufSchema) -> None:
        if self._table.name in writer.names:
            self._own_message(schema_id, writer)

    def _own_message(self, schema_id: int, writer: ProtobufSchema) -> _Message:
        self._ready[schema_id] = found = self._made(schema_id, writer)
        return found

    def _made(self, schema_id: int, writer: ProtobufSchema) -> _Message:
        """The message with the table's name."""
        what, message = f"schema id {schema_id}", writer.message(self._table.name)
        version = None
        if self._following is not None:
            after = combined(self._following, self._table, message)
            version = _version(message) if after.is_new or after.conflicts else None
            if after.conflicts and self._following.adds_columns:
                return _Message(f"{what} cannot be followed: {after.message}", version)
            if after.is_new and (
                why := self._following.why_foreign(self._schemas, schema_id, self._table.name)
            ):
                why = f"{why}. Fix: {Fix.FOREIGN}"
                return _Message(f"{what} cannot be followed: {why}", version, may_change=True)
            if after.is_new and (refusal := self._following.refused.get(schema_id)):
                return _Message(f"{what} cannot be followed: {refusal}", version)
        try:
            return _Message(MessageReader(message, self._table.type, self._unknown), version)
        except UnsupportedMessage as error:
            fix = f". Fix: {Fix.DECLARED}" if version else ""
            return _Message(f"{what} cannot be read with the table's columns: {error}{fix}", version)


class RegisteredProtobufKeys(_Registered):
    """A :class:`Decoder` of keys that are any messages, each as the text of JSON, as what no column has of a
    value."""

    def __init__(self, column: str, schemas: Schemas, compiled: Compile) -> None:
        super().__init__(pa.schema([pa.field(column, pa.utf8())]), schemas, compiled, Part.KEY)
        self._column = column

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._column, self._schemas, self._compiled)

    def _new_message(self, schema_id: int, writer: ProtobufSchema, indexes: tuple[int, ...]) -> _Message:
        names = writer.names_at(indexes)
        if len(names) != 1:
            place = f"schema id {schema_id}: message indexes {', '.join(map(str, indexes))}"
            return _Message(f"its message is {' or '.join(names) if names else 'none'} of {place}")
        try:
            return self._budget.run(
                f"schema id {schema_id}",
                lambda: _Message(_TextReader(writer.message(names[0]), _NO_COLUMNS, self._column)),
            )
        except UnsupportedMessage as error:
            return _Message(f"schema id {schema_id} cannot be read: {error}")


class _TextReader(MessageReader):
    """All of a message, which no column has, as a text."""

    def _values(self, message: AnyMessage) -> dict[str, Any]:
        return {column: text or "{}" for column, text in super()._values(message).items()}


def _reader(message: _Message) -> MessageReader:
    """Raises Malformed."""
    if isinstance(message.reader, str):
        raise Malformed(message.reader)
    return message.reader


def _version(message: Descriptor) -> Version | None:
    """None of a message that Google's library takes none of."""
    try:
        found: Any = GetMessageClass(message)
    except RecursionError:
        return None

    def is_record(body: bytes) -> bool:
        try:
            found.FromString(body)
        except DecodeError:
            return False
        return True

    return Version(is_record)
