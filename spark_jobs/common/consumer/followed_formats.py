"""What formats differ in whose tables follow the schemas of their records: Avro and Protobuf."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from sluice.config.reading.protoc import compiled
from sluice.config.stream import StreamSpec
from sluice.core.decoding.avro.following.conflicts import MAX_DEPTH, Combined, Conflict, Fix
from sluice.core.decoding.avro.following.written import schema_text
from sluice.core.decoding.avro.parsing import parsed, written
from sluice.core.decoding.avro.types import Schema, arrow_type
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.following.written import row_text
from sluice.core.decoding.registered.protobuf import combined, schema_of
from sluice.core.decoding.registered.unfollowed import Following
from sluice.core.registry.schemas import RegisteredSchema
from spark_jobs.common.consumer.followed import table_message, table_schema

T = TypeVar("T")


class FollowedFormat(Protocol, Generic[T]):
    """``T``: what a table is read with."""

    def table(self, spec: StreamSpec, followed: str) -> T:
        """The table's. ``followed``: the text of what it follows, empty if that is the declared schema.
        Raises IncompatibleSchema, ConfigError."""

    def merged(self, following: Following, table: T, other: RegisteredSchema) -> Combined[T]:
        """The table's with what a version adds of which a decoder has found a record."""

    def name(self, table: T) -> str:
        """The full name of the table's own record."""

    def columns(self, table: T) -> pa.Schema:
        """The columns of values."""

    def text(self, table: T) -> str:
        """As the document has it."""


class _Avro:
    def table(self, spec: StreamSpec, followed: str) -> Schema:
        return parsed(table_schema(spec, followed))

    def merged(self, following: Following, table: Schema, other: RegisteredSchema) -> Combined[Schema]:
        try:
            return following.merged(table, written(other.text))
        # A task has more of its stack left than this.
        except RecursionError:
            too_deep = Conflict("the whole schema", f"at most {MAX_DEPTH} levels", "more", Fix.BOUNDS)
            return Combined(table, conflicts=(too_deep,))

    def name(self, table: Schema) -> str:
        return table.record.name

    def columns(self, table: Schema) -> pa.Schema:
        return pa.schema(list(arrow_type(table.record)))

    def text(self, table: Schema) -> str:
        return schema_text(table.record)


class _Protobuf:
    def table(self, spec: StreamSpec, followed: str) -> TableMessage:
        return table_message(spec, followed)

    def merged(
        self, following: Following, table: TableMessage, other: RegisteredSchema
    ) -> Combined[TableMessage]:
        found = combined(following, table, schema_of(other, compiled).message(table.name))
        return Combined(table.following(found.schema), found.is_new, found.conflicts)

    def name(self, table: TableMessage) -> str:
        return table.name

    def columns(self, table: TableMessage) -> pa.Schema:
        return table.columns()

    def text(self, table: TableMessage) -> str:
        return row_text(table.name, table.type)


def format_of(spec: StreamSpec) -> FollowedFormat[Any]:
    return _Protobuf() if spec.is_protobuf else _Avro()
