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
from sluice.core.decoding.json.rows import BLANK, read
from sluice.core.decoding.json.unknown import unknown_text, unknown_texts
from sluice.core.decoding.json.values import value_of

# Rows and bytes that are read at once. Fewer cost more calls; of more, Arrow reads more again for an odd one.
_MAX_ROWS = 4096
_MAX_BYTES = 4 << 20


class JsonDecoder:
    """A :class:`Decoder` of records that are one JSON object each. ``columns``: column -> Spark type, as
    ``parse_ddl`` gives them; ``unknown``: the column of members that these do not have, empty if they are not
    kept. Raises ValueError for another type."""

    def __init__(self, columns: Mapping[str, str], unknown: str = "") -> None:
        self._columns, self._unknown = columns_of(columns), unknown
        fields = [pa.field(column.name, column.type) for column in self._columns]
        self._schema = pa.schema([*fields, pa.field(unknown, pa.utf8())] if unknown else fields)
        # Whether to ask first if there are such members: not behind some that had them.
        self._is_strict = bool(unknown)

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
        fields: dict[str, Any] = dict.fromkeys(column.name for column in self._columns)
        found: set[str] = set()
        text, all_of_it = members(value)
        for name, field in all_of_it:
            if name not in fields:
                continue
            if name in found:
                raise Malformed(f"{name} is there twice")
            found.add(name)
            fields[name] = field
        row = {column.name: value_of(column, fields[column.name]) for column in self._columns}
        return row | {self._unknown: unknown_text(text, [*fields])} if self._unknown else row

    def _known(self) -> pa.StringArray:
        """Members that are none of the others; each process has its own one for what is not read."""
        return pa.array([*(column.name for column in self._columns), BLANK], pa.utf8())

    def _decode(self, values: pa.BinaryArray) -> Decoded:
        rows_read = read(values, self._columns, is_strict=self._is_strict)
        arrays, is_odd = [*rows_read.arrays], rows_read.is_odd
        if self._unknown:
            arrays.append(pa.nulls(len(values), pa.utf8()))
            self._is_strict = rows_read.is_whole
            if not rows_read.is_whole:
                arrays[-1], is_for_reference = unknown_texts(rows_read.texts, self._known())
                self._is_strict = arrays[-1].null_count == len(values)
                is_odd = is_odd | is_for_reference
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
            for index, field in enumerate(self._schema):
                instead = pa.array([row.get(field.name) for row in rows], field.type)
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
