"""Records of one schema, of the writer's, as columns of the current schema: all at once, and one by one."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.core.decoding.avro.columnar import evolution, readers
from sluice.core.decoding.avro.columnar.arrays import Arrays
from sluice.core.decoding.avro.columnar.bodies import SPARE, Bodies, portions
from sluice.core.decoding.avro.columnar.narrowing import narrowed
from sluice.core.decoding.avro.reference import resolution
from sluice.core.decoding.avro.reference.layout import BEYOND, NESTED, Layout
from sluice.core.decoding.avro.reference.values import ValueReader, arrow_value
from sluice.core.decoding.avro.types import Schema, UnsupportedSchema
from sluice.core.decoding.avro.unknown.fields import UnknownFields
from sluice.core.decoding.decoder import Malformed
from sluice.core.record_batches.cursor import Bytes, Flags, Ints

# Records at once, so that what is read of them stays in the processor's cache.
_STEP = 16_384


class Writer:
    """A schema that records are written with. ``margin``: how many bytes must be behind the last record."""

    def __init__(self, schema: Schema, current: Schema, unknown: str = "") -> None:
        """``unknown``: the column of fields that ``current`` lacks, empty if they are not kept. Raises
        UnsupportedSchema if no record of ``schema`` can be one of ``current``."""
        self.schema, self._current = schema, current.record
        self._layout, self._values = Layout(schema), ValueReader(schema.record)
        # As arrays have it.
        self._record = narrowed(schema.record, current.record)
        # What contains itself is read one by one.
        self._reader = None if schema.record.has_recursion else readers.reader(self._record)
        self.margin = SPARE + (self._reader.margin if self._reader else 0)
        try:
            self._resolve = resolution.resolver(schema.record, current.record)
        except resolution.Unresolvable as error:
            raise UnsupportedSchema(
                f"records of the earlier Avro schema {schema.fingerprint} cannot be read as ones of the "
                f"current schema: {error}"
            ) from error
        self._unknown_column = unknown
        self._unknown = UnknownFields(schema.record, current.record) if unknown else None
        self._convert: evolution.Convert | None = None
        with suppress(evolution.Unusual):
            self._convert = evolution.converter(self._record, current.record)

    def arrays(self, data: Bytes, starts: Ints, ends: Ints) -> tuple[list[pa.StructArray], Flags]:
        """The records that are not odd, in their order, in arrays of some of them; and which records are odd.
        ``data`` has ``margin`` bytes behind the last one."""
        bodies, found = Bodies(data, ends), list[pa.StructArray]()
        if self._convert is None or self._reader is None:
            return found, np.ones(len(starts), np.bool_)
        arrays = Arrays(bodies)
        for rows in portions(ends - starts, _STEP):
            bodies.rounds_for_few = 0
            column, at = self._reader.read(bodies, rows, starts[rows])
            bodies.mark(rows, at != ends[rows])
            array = arrays.array(column, self._record, partial(np.arange, rows.start, rows.stop))
            is_odd = bodies.is_odd[rows]
            good = array.filter(pa.array(~is_odd)) if is_odd.any() else array
            found.append(self._with_unknown(self._convert(good), good))
        return found, bodies.is_odd

    def _with_unknown(self, converted: pa.StructArray, records: pa.StructArray) -> pa.StructArray:
        if self._unknown is None:
            return converted
        columns = [converted.field(place) for place in range(converted.type.num_fields)]
        field = pa.field(self._unknown_column, pa.utf8())
        texts = self._unknown.texts(records)
        return pa.StructArray.from_arrays([*columns, texts], fields=[*converted.type, field])

    def value(self, body: bytes) -> dict[str, Any]:
        """The reference: a value for each column, as PyArrow takes it. Raises Malformed."""
        why = self._layout.why_malformed(body)
        if why:
            raise Malformed(why)
        raw = self._values.read(body)
        try:
            found: dict[str, Any] = arrow_value(self._current, self._resolve(raw))
            if self._unknown is not None:
                found[self._unknown_column] = self._unknown.text(raw)
        except resolution.Unresolvable as error:
            raise Malformed(f"written with an earlier Avro schema: {error}") from error
        except OverflowError as error:
            raise Malformed(f"not an Avro body of {self.schema.title}: {BEYOND}") from error
        except RecursionError as error:
            raise Malformed(f"not an Avro body of {self.schema.title}: {NESTED}") from error
        return found
