"""The format: JSON objects after a flat schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.decoder import Decoded, Malformed, RawHeaders
from sluice.core.decoding.json.columns import columns_of
from sluice.core.decoding.json.conversions import converted
from sluice.core.decoding.json.document import members
from sluice.core.decoding.json.rows import read
from sluice.core.decoding.json.values import value_of

# Rows and bytes that are read at once. Fewer cost more calls; of more, Arrow reads more again for an odd one.
_MAX_ROWS = 4096
_MAX_BYTES = 4 << 20


class JsonDecoder:
    """A :class:`Decoder` of records that are one JSON object each. ``columns``: column -> Spark type, as
    ``parse_ddl`` gives them. Raises ValueError for another type."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns_of(columns)
        self._schema = pa.schema([pa.field(column.name, column.type) for column in self._columns])

    @property
    def schema(self) -> pa.Schema:
        """A nullable column for each that is declared."""
        return self._schema

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """Decode records by their values; headers say nothing here. Never raises for what is in a record."""
        decoded = [self._decode(part) for part in _parts(values)]
        if not decoded:
            return Decoded(pa.RecordBatch.from_pylist([], self._schema), pa.array([], pa.utf8()))
        return Decoded(
            pa.concat_batches([part.columns for part in decoded]),
            pa.concat_arrays([part.reasons for part in decoded]),
        )

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        """Decode one record by the standard library. Raises Malformed."""
        fields: dict[str, Any] = dict.fromkeys(self._schema.names)
        found: set[str] = set()
        for name, field in members(value):
            if name not in fields:
                continue
            if name in found:
                raise Malformed(f"{name} is there twice")
            found.add(name)
            fields[name] = field
        return {column.name: value_of(column, fields[column.name]) for column in self._columns}

    def _decode(self, values: pa.BinaryArray) -> Decoded:
        arrays, is_odd = read(values, self._columns)
        for index, column in enumerate(self._columns):
            arrays[index], is_odd_value = converted(column, arrays[index])
            is_odd |= is_odd_value
        reasons: list[str | None] = [None] * len(values)
        rows: list[Mapping[str, Any]] = []
        for row in np.flatnonzero(is_odd).tolist():
            try:
                rows.append(self.reference(values[row].as_py(), ()))
            except Malformed as error:
                reasons[row] = str(error)
                rows.append({})
        if rows:
            mask = pa.array(is_odd)
            for index, column in enumerate(self._columns):
                instead = pa.array([row.get(column.name) for row in rows], column.type)
                arrays[index] = pc.replace_with_mask(arrays[index], mask, instead)
        return Decoded(pa.RecordBatch.from_arrays(arrays, schema=self._schema), pa.array(reasons, pa.utf8()))


def _parts(values: pa.BinaryArray) -> Iterator[pa.BinaryArray]:
    """Yield slices of _MAX_ROWS and _MAX_BYTES at most, or of one row."""
    if not len(values):
        return
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    start = 0
    while start < len(values):
        fitting = int(np.searchsorted(offsets, int(offsets[start]) + _MAX_BYTES, side="right")) - 1
        end = min(max(fitting, start + 1), start + _MAX_ROWS, len(values))
        yield values[start:end]
        start = end
