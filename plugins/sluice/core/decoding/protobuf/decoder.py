"""The format without a registry: each value is a message of the stream's schema."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from sluice.core.decoding.decoder import TOMBSTONE, Decoded, Malformed, RawHeaders
from sluice.core.decoding.protobuf.reader import MessageReader
from sluice.core.decoding.protobuf.schema import ProtobufSchema
from sluice.core.decoding.protobuf.types import Type, type_of


class TableMessage:
    """The message that the table is made of. Can be pickled."""

    def __init__(
        self,
        schema: ProtobufSchema,
        name: str = "",
        as_text: Collection[str] = (),
        *,
        recursive_as_text: bool = False,
        by_number: bool = False,
        followed: Type | None = None,
    ) -> None:
        """``name``: the message's full name, the first one's if it is empty; ``as_text``,
        ``recursive_as_text``, ``by_number``: as ``type_of`` has them; ``followed``: the type of the table's
        row, None if it is the message's. Raises UnsupportedMessage."""
        self.schema, self.name, self.as_text = schema, name or schema.first, frozenset(as_text)
        self.recursive_as_text = recursive_as_text
        self.descriptor = schema.message(self.name)
        self.type = (
            type_of(self.descriptor, as_text, recursive_as_text=recursive_as_text, by_number=by_number)
            if followed is None
            else followed
        )
        self._made_with: dict[str, Any] = {
            "schema": schema,
            "name": name,
            "as_text": tuple(as_text),
            "recursive_as_text": recursive_as_text,
            "by_number": by_number,
            "followed": followed,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._made_with), ()

    def following(self, followed: Type) -> TableMessage:
        """The same message, of a table whose row is another type by now."""
        return TableMessage(**self._made_with | {"followed": followed})

    def columns(self, unknown: str = "") -> pa.Schema:
        """The table's columns, with the one of what it lacks."""
        fields = [pa.field(field.name, field.type.arrow) for field in self.type.fields]
        return pa.schema([*fields, pa.field(unknown, pa.utf8())] if unknown else fields)


class ProtobufDecoder:
    """A :class:`Decoder` of values that are messages of the table's schema; ``unknown``: the column of what
    the table lacks of them, empty if it is not kept."""

    def __init__(self, table: TableMessage, unknown: str = "") -> None:
        self._given = table, unknown
        self.schema = table.columns(unknown)
        self._reader = MessageReader(table.descriptor, table.type, unknown)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says; headers say nothing here."""
        return decoded(self.schema, values.to_pylist(), lambda _, value: self._reader.value(value))

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        if value is None:
            raise Malformed(TOMBSTONE)
        return self._reader.reference(value)


def decoded(
    schema: pa.Schema, values: Sequence[bytes | None], read: Callable[[int, bytes], Mapping[str, Any]]
) -> Decoded:
    """Records one by one. ``read``: from the row's place and its value to its columns; raises Malformed."""
    rows: list[Mapping[str, Any]] = []
    reasons: list[str | None] = []
    for place, value in enumerate(values):
        row: Mapping[str, Any] = {}
        reason = None if value is not None else TOMBSTONE
        if value is not None:
            try:
                row = read(place, value)
            except Malformed as error:
                reason = str(error)
        rows.append(row)
        reasons.append(reason)
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return Decoded(
        pa.RecordBatch.from_arrays(columns, schema=schema), pa.array(reasons, pa.utf8(), size=len(reasons))
    )
