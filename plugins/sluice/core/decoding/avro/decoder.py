"""The format ``avro``: plain bodies, with the writer's schema named by a header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.avro.accepted import Accepted, bodies, texts
from sluice.core.decoding.avro.parsing import parsed, written
from sluice.core.decoding.avro.types import Schema, arrow_type, without_times
from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import TOMBSTONE, Decoded, Malformed, RawHeaders
from sluice.core.decoding.texts import quoted
from sluice.core.record_batches.cursor import Flags, Ints

SCHEMA_HEADER = b"avro-schema"
_UNKNOWN = -1


class AvroDecoder:
    """Decodes plain Avro bodies of the current schema and of earlier ones.

    The header ``avro-schema``, the last one of that name, is the CRC-64-AVRO fingerprint of the writer's
    schema, in 16 hex digits: a body read with another schema decodes into wrong values. Without it the
    current schema is used.
    """

    def __init__(self, current: str, earlier: tuple[str, ...] = (), unknown: str = "") -> None:
        """Schemas as their JSON text; ``unknown``: the column of fields of earlier schemas that the current
        one lacks, empty if they are not kept. Raises UnsupportedSchema for one that no table can have, and
        for an earlier one whose records cannot be read as the current one's."""
        self._given = current, earlier, unknown
        schema = parsed(current)
        writers = {known.fingerprint: Writer(known, schema, unknown) for known in map(written, earlier)}
        # The current one is the first.
        own = {schema.fingerprint: Writer(schema, schema, unknown)}
        self._writers = [*own.values(), *(w for name, w in writers.items() if name not in own)]
        self._places = {w.schema.fingerprint.encode(): n for n, w in enumerate(self._writers)}
        self._margin = max(writer.margin for writer in self._writers)
        self._type = row_type(schema, unknown)

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroDecoder, self._given

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """The schemas that a header may name, the current one first."""
        return tuple(writer.schema.fingerprint for writer in self._writers)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(list(self._type))

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says. Raises ValueError for a piece of 2^31 bytes or more."""
        data, starts, ends = bodies(values, self._margin)
        places, named = self._named(headers)
        is_value = ~_flags(values.is_null())
        accepted = Accepted(len(values), self._type)
        accepted.reasons.update(dict.fromkeys(np.flatnonzero(~is_value).tolist(), TOMBSTONE))
        for row in np.flatnonzero((places == _UNKNOWN) & is_value).tolist():
            accepted.reasons[row] = unknown_schema(named[row].as_py())
        for place, writer in enumerate(self._writers):
            rows = np.flatnonzero((places == place) & is_value)
            accepted.decode(writer, data, rows, starts[rows], ends[rows])
        columns = pa.RecordBatch.from_arrays(accepted.array().flatten(), schema=self.schema)
        return Decoded(columns, texts(accepted.reasons, len(values)))

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        """As the protocol says. If the record has a time beyond Python's years 1 to 9999, all of its times
        are numbers, as their columns have them."""
        if value is None:
            raise Malformed(TOMBSTONE)
        named = name_in(headers)
        place = 0 if named is None else self._places.get(named, _UNKNOWN)
        if place == _UNKNOWN:
            assert named is not None  # noqa: S101  (narrows the type)
            raise Malformed(unknown_schema(named))
        return as_column(self._writers[place].value(value), self._type)

    def _named(self, headers: pa.ListArray) -> tuple[Ints, pa.BinaryArray]:
        """The place of each record's schema among the writers, and the header that names it."""
        named = names_of(headers)
        encoded = named.dictionary_encode()
        known = [self._places.get(text, _UNKNOWN) for text in encoded.dictionary.to_pylist()]
        # Without a header, the first.
        places = np.array([*known, 0], np.int64)
        return places[encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)], named


def names_of(headers: pa.ListArray) -> pa.BinaryArray:
    """What names each record's schema; null without one."""
    flat = headers.flatten()
    which = np.flatnonzero(_flags(pc.equal(flat.field("key"), pa.scalar(SCHEMA_HEADER, pa.binary()))))
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    records = np.repeat(np.arange(len(headers)), lengths)
    last = np.full(len(headers), -1)
    # The last one of a record stays.
    last[records[which]] = which
    return flat.field("value").take(pa.array(last, mask=last < 0))


def name_in(headers: RawHeaders) -> bytes | None:
    """As :func:`names_of`, of one record."""
    return next((text for name, text in reversed(headers) if name == SCHEMA_HEADER), None)


def _flags(flags: pa.BooleanArray) -> Flags:
    found: Flags = flags.to_numpy(zero_copy_only=False)
    return found


def unknown_schema(named: bytes) -> str:
    """Why a record is rejected whose schema is not known."""
    return f"written with an Avro schema that is unknown: {quoted(named)}"


def row_type(schema: Schema, unknown: str) -> pa.StructType:
    """The type of a row of a schema, with the column ``unknown``, if that is not empty."""
    fields = list(arrow_type(schema.record))
    return pa.struct([*fields, pa.field(unknown, pa.utf8())] if unknown else fields)


def as_column(row: Mapping[str, Any], kind: pa.StructType) -> Mapping[str, Any]:
    """A row of the reference as columns have it; with all of its times as numbers, if one is beyond those of
    Python."""
    try:
        (found,) = pa.array([row], kind).to_pylist()
    except (ValueError, OverflowError):
        (found,) = pa.array([row], without_times(kind)).to_pylist()
    result: Mapping[str, Any] = found
    return result
