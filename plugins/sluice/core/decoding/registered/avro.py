"""Avro with a registry: each record is read with the schema that it names, and resolved to the table's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.avro.accepted import Accepted, bodies, texts
from sluice.core.decoding.avro.decoder import as_column, row_type
from sluice.core.decoding.avro.reference.resolution import Unresolvable
from sluice.core.decoding.avro.types import UnsupportedSchema, parsed
from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import TOMBSTONE, Decoded, Malformed, RawHeaders
from sluice.core.decoding.registered.unfollowed import Following, Unfollowed
from sluice.core.registry.errors import RefusedSchema, UnknownSchema
from sluice.core.registry.framing import PREFIX_BYTES, framed, unframed
from sluice.core.registry.schemas import AVRO, RegisteredSchema, Schemas
from sluice.core.registry.subjects import Part

# Schemas that are ready for use; a topic has few, unless a producer registers one for each record.
_MAX_WRITERS = 1_000
_NO_FIELDS = '{"type": "record", "name": "key", "fields": []}'
# A key that is no record, as the only field of one: its bytes are the same.
_WRAPPED = "key"
_BEGIN, _END = len(f'{{"{_WRAPPED}":'), 1


class RegisteredAvro:
    """A :class:`Decoder` of records of the schema ``current``, and of all that can be resolved to it."""

    def __init__(
        self,
        current: str,
        schemas: Schemas,
        unknown: str = "",
        part: Part = Part.VALUE,
        following: Following | None = None,
    ) -> None:
        """``current``: as JSON text; ``unknown``: the column of fields that it lacks, empty if they are not
        kept; ``following``: how it follows other schemas, None if they are none of its versions. Raises
        UnsupportedSchema for a schema that no table can have."""
        self._given = current, schemas, unknown, part, following
        self._schemas, self._unknown, self._part = schemas, unknown, part
        self._current = parsed(current)
        self._unfollowed = Unfollowed(self._current, following) if following else None
        self._type = row_type(self._current, unknown)
        self._writers: dict[int, Writer | str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(list(self._type))

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says. Raises ValueError for a piece of 2^31 bytes or more."""
        found = framed(values, headers, self._part)
        accepted = Accepted(len(values), self._type)
        accepted.reasons.update(found.reasons)
        if values.null_count:
            nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
            accepted.reasons.update(dict.fromkeys(nulls.tolist(), TOMBSTONE))
        writers = {schema_id: self._writer(schema_id) for schema_id in found.schema_ids}
        margin = max((one.margin for one in writers.values() if isinstance(one, Writer)), default=0)
        data, starts, ends = bodies(values, margin)
        starts = starts + PREFIX_BYTES
        # One after the other, each with its rows: some topics have a schema for each few records.
        order = np.argsort(found.ids, kind="stable")
        bounds = np.searchsorted(found.ids[order], [*writers, np.iinfo(np.int64).max])
        unfollowed = set[int]()
        for place, (schema_id, writer) in enumerate(writers.items()):
            rows = order[bounds[place] : bounds[place + 1]]
            if self._unfollowed and schema_id in self._unfollowed:
                those = (data[starts[row] : ends[row]].tobytes() for row in rows.tolist())
                if self._unfollowed.has_record(schema_id, those):
                    unfollowed.add(schema_id)
            if isinstance(writer, str):
                accepted.reasons.update(dict.fromkeys(rows.tolist(), writer))
            else:
                accepted.decode(writer, data, rows, starts[rows], ends[rows])
        columns = pa.RecordBatch.from_arrays(accepted.array().flatten(), schema=self.schema)
        return Decoded(columns, texts(accepted.reasons, len(values)), unfollowed=frozenset(unfollowed))

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        """As the protocol says, and as :meth:`AvroDecoder.reference`."""
        if value is None:
            raise Malformed(TOMBSTONE)
        schema_id, body = unframed(value, headers, self._part)
        writer = self._writer(schema_id)
        if isinstance(writer, str):
            raise Malformed(writer)
        return as_column(writer.value(body), self._type)

    def _writer(self, schema_id: int) -> Writer | str:
        """What reads records of a schema, or the reason why they are rejected."""
        known = self._writers.get(schema_id)
        if known is not None:
            return known
        try:
            schema = self._schemas.get(schema_id)
        # What the registry does not have now, it may have later.
        except (UnknownSchema, RefusedSchema) as error:
            return str(error)
        if len(self._writers) >= _MAX_WRITERS:
            self._writers.clear()
        found = self._writers[schema_id] = self._new_writer(schema)
        return found

    def _new_writer(self, schema: RegisteredSchema) -> Writer | str:
        what = f"schema id {schema.id}"
        if schema.type != AVRO:
            return f"{what} is of type {schema.type}, and the stream's format is avro"
        try:
            own = parsed(self._text(schema))
            if self._unfollowed and (refusal := self._unfollowed.look_at(schema.id, own)):
                return f"{what} cannot be followed: {refusal}"
            writer = Writer(own, self._current, self._unknown)
        except UnsupportedSchema as error:
            why = error.__cause__ if isinstance(error.__cause__, Unresolvable) else error
            return f"{what} cannot be read with the table's columns: {why}"
        except RecursionError:
            return f"{what} cannot be read: its types are nested too deeply"
        return writer

    def _text(self, schema: RegisteredSchema) -> str:
        return schema.text


class RegisteredAvroKeys(RegisteredAvro):
    """A :class:`Decoder` of keys of any Avro schema, each as the text of JSON, as
    :mod:`sluice.core.decoding.avro.unknown` writes it."""

    def __init__(self, column: str, schemas: Schemas) -> None:
        super().__init__(_NO_FIELDS, schemas, column, Part.KEY)
        self._column, self._wrapped = column, set[int]()

    def __reduce__(self) -> tuple[Any, ...]:
        return RegisteredAvroKeys, (self._column, self._schemas)

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        found = super().decode(values, headers)
        ids = framed(values, headers, self._part).ids
        is_wrapped = np.isin(ids, [*self._wrapped])
        if not is_wrapped.any():
            return found
        whole = found.columns.column(0)
        inner = pc.utf8_slice_codeunits(whole, _BEGIN, -_END)
        column = pc.if_else(pa.array(is_wrapped), inner, whole)
        return Decoded(pa.RecordBatch.from_arrays([column], schema=self.schema), found.reasons)

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        row = super().reference(value, headers)
        assert value is not None  # noqa: S101  (narrows the type)
        schema_id, _ = unframed(value, headers, self._part)
        return {self._column: row[self._column][_BEGIN:-_END]} if schema_id in self._wrapped else row

    def _text(self, schema: RegisteredSchema) -> str:
        try:
            tree = json.loads(schema.text)
        except ValueError as error:
            raise UnsupportedSchema(f"not an Avro schema: {error}") from error
        if isinstance(tree, dict) and tree.get("type") in ("record", "error"):
            return schema.text
        self._wrapped.add(schema.id)
        return json.dumps({"type": "record", "name": "key", "fields": [{"name": _WRAPPED, "type": tree}]})
