"""Protobuf with a registry: each record is the message that it names, of the schema that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sluice.core.decoding.arrays import is_null
from sluice.core.decoding.decoder import TOMBSTONE, Decoded, Malformed, RawHeaders
from sluice.core.decoding.protobuf.decoder import TableMessage, decoded
from sluice.core.decoding.protobuf.frames import message_indexes
from sluice.core.decoding.protobuf.reader import MessageReader
from sluice.core.decoding.protobuf.schema import Compile, NotCompiled, ProtobufSchema, UnsupportedMessage
from sluice.core.registry.framing import framed, unframed
from sluice.core.registry.lookups import in_turn, kept, of_id
from sluice.core.registry.schemas import PROTOBUF, RegisteredSchema, Schemas

# Schemas that are ready for use; a topic has few, unless a producer registers one for each record.
_MAX_WRITERS = 1_000
# No import can have the name.
_ROOT = "_registered.proto"


def schema_of(schema: RegisteredSchema, compiled: Compile) -> ProtobufSchema:
    """The messages of a registered schema of PROTOBUF. Raises NotCompiled."""
    return ProtobufSchema(compiled(dict(schema.imports) | {_ROOT: schema.text}, _ROOT), _ROOT)


class RegisteredProtobuf:
    """A :class:`Decoder` of messages of the table's name, of each schema that its columns can be read of."""

    def __init__(self, table: TableMessage, schemas: Schemas, compiled: Compile, unknown: str = "") -> None:
        """``compiled``: compiles a registered schema; ``unknown``: the column of what the table lacks of a
        message, empty if it is not kept."""
        self._given = table, schemas, compiled, unknown
        self._table, self._schemas, self._compiled, self._unknown = self._given
        self.schema = table.columns(unknown)
        self._writers: dict[int, ProtobufSchema | str] = {}
        self._readers: dict[tuple[int, tuple[int, ...]], MessageReader | str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says; raises also what ``compiled`` raises if it says nothing of a schema."""
        found = framed(values, headers)
        ids = found.ids.tolist()
        # In this order: an id that the login may not read is judged beside those that it may.
        in_turn(found.schema_ids, self._writer)

        def read(place: int, value: bytes) -> Mapping[str, Any]:
            if (why := found.reasons.get(place)) is not None:
                raise Malformed(why)
            body = found.data[found.starts[place] : found.ends[place]].tobytes()
            reader, begin = self._reader(ids[place], body)
            return reader.value(body[begin:])

        records = decoded(self.schema, values.to_pylist(), read)
        return replace(records, schemas=found.rows_of_ids(is_null(records.reasons)))

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        if value is None:
            raise Malformed(TOMBSTONE)
        schema_id, body = unframed(value, headers)
        reader, begin = self._reader(schema_id, body)
        return reader.reference(body[begin:])

    def _reader(self, schema_id: int, body: bytes) -> tuple[MessageReader, int]:
        """What reads a record, and where in its body the message begins. Raises Malformed."""
        writer = self._writer(schema_id)
        if isinstance(writer, str):
            raise Malformed(writer)
        indexes, begin = message_indexes(body)
        found = self._readers.get((schema_id, indexes))
        if found is None:
            # Records of garbage name as many messages as there are.
            made = self._new_reader(schema_id, writer, indexes)
            found = kept(self._readers, (schema_id, indexes), made, _MAX_WRITERS)
        if isinstance(found, str):
            raise Malformed(found)
        return found, begin

    def _new_reader(
        self, schema_id: int, writer: ProtobufSchema, indexes: tuple[int, ...]
    ) -> MessageReader | str:
        what, names = f"schema id {schema_id}", writer.names_at(indexes)
        if self._table.name not in names:
            place = ", ".join(map(str, indexes))
            found = f"is a {' or a '.join(names)}" if names else f"is none of {what}: message indexes {place}"
            return f"its message {found}, and the stream's is {self._table.name}"
        try:
            return MessageReader(writer.message(self._table.name), self._table.type, self._unknown)
        except UnsupportedMessage as error:
            return f"{what} cannot be read with the table's columns: {error}"

    def _writer(self, schema_id: int) -> ProtobufSchema | str:
        """The schema, or the reason why its records are rejected."""
        return of_id(self._writers, schema_id, self._schemas, self._new_writer, _MAX_WRITERS)

    def _new_writer(self, schema: RegisteredSchema) -> ProtobufSchema | str:
        what = f"schema id {schema.id}"
        if schema.type != PROTOBUF:
            return f"{what} is of type {schema.type}, and the stream's format is protobuf"
        try:
            return schema_of(schema, self._compiled)
        except NotCompiled as error:
            return f"{what} cannot be used: {error}"
