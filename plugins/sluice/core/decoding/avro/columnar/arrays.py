"""Columns as arrays of Arrow, and what only these show: texts that are not UTF-8, equal keys of a map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sluice.core.decoding.arrays import not_utf8
from sluice.core.decoding.avro.columnar.bodies import Bodies
from sluice.core.decoding.avro.columnar.columns import Column, Lists, Nulls, Slices, Structs
from sluice.core.decoding.avro.types import Type, arrow_type
from sluice.core.record_batches.cursor import Ints

# The record of each instance; asked for only if one is odd.
Records = Callable[[], Ints]


class Arrays:
    """Makes the arrays of one piece. Marks records as odd that have a text that is not UTF-8, or a map with a
    key twice."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies, self._buffer = bodies, pa.py_buffer(bodies.data)

    def array(self, column: Column, kind: Type, records: Records) -> pa.Array:
        """The values of a type, an element to an instance."""
        kind = kind.optional
        found = arrow_type(kind)
        if isinstance(column, Nulls):
            return pa.nulls(column.count, found)
        if isinstance(column, Slices):
            return self._slices(column, found, records)
        if isinstance(column, Lists):
            return self._lists(column, kind, found, records)
        if isinstance(column, Structs):
            kinds = [field.type for field in kind.fields] if kind.kind == "record" else kind.values
            parts = [self.array(each, of, records) for each, of in zip(column.fields, kinds, strict=True)]
            return pa.Array.from_buffers(found, column.count, [_bits(column.valid)], children=parts)
        if kind.kind == "enum":
            places = pa.array(column.values, mask=None if column.valid is None else ~column.valid)
            return pa.array(kind.symbols, pa.utf8()).take(places)
        values = column.values
        data = _bits(values) if kind.kind == "boolean" else pa.py_buffer(np.ascontiguousarray(values))
        return pa.Array.from_buffers(found, len(values), [_bits(column.valid), data])

    def _lists(self, column: Lists, kind: Type, found: pa.DataType, records: Records) -> pa.Array:
        count = len(column.counts)
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(column.counts, out=offsets[1:])

        def inner() -> Ints:
            return np.repeat(records(), column.counts)

        if kind.kind == "map":
            assert isinstance(column.items, Structs)  # noqa: S101  (narrows the type)
            keys, values = column.items.fields
            parts = [
                self.array(keys, Type("string"), inner),
                self.array(values, kind.item, inner),
            ]
            self._mark_equal_keys(column.counts, parts[0], records)
            entries = pa.struct([found.key_field, found.item_field])
            items = pa.Array.from_buffers(entries, int(offsets[-1]), [None], children=parts)
        else:
            items = self.array(column.items, kind.item, inner)
        buffers = [_bits(column.valid), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(found, count, buffers, children=[items])

    def _slices(self, column: Slices, found: pa.DataType, records: Records) -> pa.Array:
        """Arrow's bytes of an array are one behind the other: here every second one is what lies between, and
        ``take`` copies the others."""
        count = len(column.starts)
        if not count:
            return pa.array([], found)
        # Those of an odd record may not rise; but the last one is behind all.
        bounds = np.full(2 * count + 1, len(self._bodies.data), np.int32)
        bounds[0:-1:2], bounds[1::2] = column.starts, column.starts + column.lengths
        all_of_it = pa.Array.from_buffers(
            found, len(bounds) - 1, [None, pa.py_buffer(bounds), self._buffer], null_count=0
        )
        mask = None if column.valid is None else ~column.valid
        texts = all_of_it.take(pa.array(np.arange(0, len(bounds) - 1, 2), mask=mask))
        if found == pa.utf8():
            wrong = not_utf8(texts)
            if wrong is not None:
                self._bodies.is_odd[records()[wrong]] = True
        return texts

    def _mark_equal_keys(self, counts: Ints, keys: pa.Array, records: Records) -> None:
        several = counts > 1
        if not several.any():
            return
        instances = np.repeat(np.arange(len(counts)), counts)
        which = np.flatnonzero(several[instances])
        codes = keys.take(pa.array(which)).dictionary_encode()
        pairs = instances[which] * len(codes.dictionary) + codes.indices.to_numpy(zero_copy_only=False)
        pairs.sort()
        twice = pairs[1:][pairs[1:] == pairs[:-1]]
        if len(twice):
            self._bodies.is_odd[records()[twice // len(codes.dictionary)]] = True


def _bits(flags: NDArray[Any] | None) -> pa.Buffer | None:
    """As Arrow has flags, a bit to each."""
    return None if flags is None else pa.py_buffer(np.packbits(flags, bitorder="little"))
