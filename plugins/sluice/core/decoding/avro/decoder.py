"""The format ``avro``: plain bodies, with the writer's schema named by a header."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.avro.columnar.bodies import portions
from sluice.core.decoding.avro.types import arrow_type, parsed
from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import TOMBSTONE, Decoded, Malformed, RawHeaders
from sluice.core.decoding.texts import quoted
from sluice.core.record_batches.cursor import Bytes, Flags, Ints

SCHEMA_HEADER = b"avro-schema"
_MAX_BYTES = (1 << 31) - 1
# Rows of the reference at once, as Python has them.
_STEP = 1_000
_UNKNOWN = -1


class AvroDecoder:
    """Decodes plain Avro bodies of the current schema and of earlier ones.

    The header ``avro-schema``, the last one of that name, is the CRC-64-AVRO fingerprint of the writer's
    schema, in 16 hex digits: a body read with another schema decodes into wrong values. Without it the
    current schema is used.
    """

    def __init__(self, current: str, earlier: tuple[str, ...] = ()) -> None:
        """Schemas as their JSON text. Raises UnsupportedSchema for one that no table can have, and for an
        earlier one whose records cannot be read as the current one's."""
        self._texts = current, earlier
        schema = parsed(current)
        writers = {known.fingerprint: Writer(known, schema) for known in map(parsed, earlier)}
        # The current one is the first.
        own = {schema.fingerprint: Writer(schema, schema)}
        self._writers = [*own.values(), *(w for name, w in writers.items() if name not in own)]
        self._places = {w.schema.fingerprint.encode(): n for n, w in enumerate(self._writers)}
        self._margin = max(writer.margin for writer in self._writers)
        self._type: pa.StructType = arrow_type(schema.record)

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroDecoder, self._texts

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """The schemas that a header may name, the current one first."""
        return tuple(writer.schema.fingerprint for writer in self._writers)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(list(self._type))

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says. Raises ValueError for a piece of 2^31 bytes or more."""
        data, starts, ends = self._bodies(values)
        places, named = self._named(headers)
        is_value = ~_flags(values.is_null())
        reasons = dict.fromkeys(np.flatnonzero(~is_value).tolist(), TOMBSTONE)
        for row in np.flatnonzero((places == _UNKNOWN) & is_value).tolist():
            reasons[row] = _unknown(named[row].as_py())
        accepted = _Accepted(len(values), self._type)
        for place, writer in enumerate(self._writers):
            rows = np.flatnonzero((places == place) & is_value)
            arrays, is_odd = writer.arrays(data, starts[rows], ends[rows])
            accepted.add(rows[~is_odd], arrays)
            odd = rows[is_odd]
            for portion in portions(ends[odd] - starts[odd], _STEP):
                self._by_reference(writer, values, odd[portion], accepted, reasons)
        columns = pa.RecordBatch.from_arrays(accepted.array().flatten(), schema=self.schema)
        return Decoded(columns, _texts(reasons, len(values)))

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        """As the protocol says. If the record has a time beyond Python's years 1 to 9999, all of its times
        are numbers, as their columns have them."""
        if value is None:
            raise Malformed(TOMBSTONE)
        named = next((text for name, text in reversed(headers) if name == SCHEMA_HEADER), None)
        place = 0 if named is None else self._places.get(named, _UNKNOWN)
        if place == _UNKNOWN:
            assert named is not None  # noqa: S101  (narrows the type)
            raise Malformed(_unknown(named))
        row = self._writers[place].value(value)
        try:
            (found,) = pa.array([row], self._type).to_pylist()
        except (ValueError, OverflowError):
            (found,) = pa.array([row], without_times(self._type)).to_pylist()
        result: Mapping[str, Any] = found
        return result

    def _bodies(self, values: pa.BinaryArray) -> tuple[Bytes, Ints, Ints]:
        """The bytes of all bodies, with a margin behind them; where each begins and ends."""
        if not len(values):
            return np.zeros(self._margin, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
        _, offset_buffer, buffer = values.buffers()
        every = np.frombuffer(offset_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
        offsets = every.astype(np.int64) - int(every[0])
        size = int(offsets[-1])
        if size + self._margin > _MAX_BYTES:
            raise ValueError(f"{size} bytes in one piece, more than {_MAX_BYTES - self._margin}")
        data: Bytes = np.zeros(size + self._margin, np.uint8)
        if size:
            data[:size] = np.frombuffer(buffer, np.uint8, size, int(every[0]))
        return data, offsets[:-1], offsets[1:]

    def _named(self, headers: pa.ListArray) -> tuple[Ints, pa.BinaryArray]:
        """The place of each record's schema among the writers, and the header that names it."""
        flat = headers.flatten()
        which = np.flatnonzero(_flags(pc.equal(flat.field("key"), pa.scalar(SCHEMA_HEADER, pa.binary()))))
        lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
        records = np.repeat(np.arange(len(headers)), lengths)
        last = np.full(len(headers), -1)
        # The last one of a record stays.
        last[records[which]] = which
        named = flat.field("value").take(pa.array(last, mask=last < 0))
        encoded = named.dictionary_encode()
        known = [self._places.get(text, _UNKNOWN) for text in encoded.dictionary.to_pylist()]
        # Without a header, the first.
        places = np.array([*known, 0], np.int64)
        return places[encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)], named

    def _by_reference(
        self,
        writer: Writer,
        values: pa.BinaryArray,
        rows: Ints,
        accepted: _Accepted,
        reasons: dict[int, str],
    ) -> None:
        """Add each of the rows to those that are accepted, or its reason to the ``reasons``."""
        good, found = [], []
        for row in rows.tolist():
            try:
                found.append(writer.value(values[row].as_py()))
                good.append(row)
            except Malformed as why:
                # Most texts are there many times.
                reasons[row] = sys.intern(str(why))
        accepted.add(np.array(good, np.int64), [pa.array(found, self._type)])


class _Accepted:
    """The accepted records of a piece, in arrays whose order is another one."""

    def __init__(self, count: int, kind: pa.StructType) -> None:
        self._kind, self._arrays, self._count = kind, list[pa.StructArray](), 0
        # The place of each record in the arrays; -1 for none.
        self._places: Ints = np.full(count, -1)

    def add(self, rows: Ints, arrays: list[pa.StructArray]) -> None:
        self._places[rows] = self._count + np.arange(len(rows))
        self._count += len(rows)
        self._arrays += [array for array in arrays if len(array)]

    def array(self) -> pa.StructArray:
        """All records, null for those that are not accepted."""
        if not self._arrays:
            return pa.nulls(len(self._places), self._kind)
        arrays = pa.concat_arrays(self._arrays)
        if self._count == len(self._places) and (np.diff(self._places) == 1).all():
            return arrays
        return arrays.take(pa.array(self._places, mask=self._places < 0))


def _flags(flags: pa.BooleanArray) -> Flags:
    found: Flags = flags.to_numpy(zero_copy_only=False)
    return found


def _unknown(named: bytes) -> str:
    return f"written with an Avro schema that is unknown: {quoted(named)}"


def _texts(reasons: Mapping[int, str], count: int) -> pa.StringArray:
    if not reasons:
        return pa.nulls(count, pa.utf8())
    return pa.array(map(reasons.get, range(count)), pa.utf8(), size=count)


def without_times(kind: pa.DataType) -> pa.DataType:
    """A type with the numbers of its dates and times in their place."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(without_times(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(without_times(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, without_times(kind.item_type))
    if pa.types.is_date(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) else kind
