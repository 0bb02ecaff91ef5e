"""Avro that Sluice's producers register: with the frame, or with a header, as before ``[topic] registry``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.core.decoding.avro.decoder import SCHEMA_HEADER, AvroDecoder
from sluice.core.decoding.avro.unknown.fields import UnknownFields
from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import Decoded, RawHeaders
from sluice.core.decoding.registered.avro import RegisteredAvro
from sluice.core.decoding.texts import printable
from sluice.core.record_batches.cursor import Ints
from sluice.core.registry.framing import with_header
from sluice.core.registry.schemas import Schemas


class OwnRegisteredAvro:
    """A :class:`Decoder` of records of the schema ``current``, and of others of its subject.

    A record with the header ``avro-schema`` is plain: it was sent before the stream declared the registry.
    The table has no column of further fields, so a schema that has some is refused, unless it is one of
    ``earlier``, whose fields the stream has given up.
    """

    def __init__(self, current: str, earlier: tuple[str, ...], schemas: Schemas) -> None:
        """As :class:`AvroDecoder` and :class:`RegisteredAvro`."""
        self._given = current, earlier, schemas
        self._plain = AvroDecoder(current, earlier)
        self._framed = _Whole(current, schemas, self._plain.fingerprints)

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnRegisteredAvro, self._given

    @property
    def schema(self) -> pa.Schema:
        return self._plain.schema

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says. Raises ValueError for a piece of 2^31 bytes or more."""
        is_plain = with_header(headers, SCHEMA_HEADER)
        if is_plain.all() or not is_plain.any():
            decoder = self._plain if is_plain.any() else self._framed
            return decoder.decode(values, headers)
        parts = [
            decoder.decode(values.filter(mask), headers.filter(mask))
            for decoder, mask in ((self._plain, pa.array(is_plain)), (self._framed, pa.array(~is_plain)))
        ]
        # Where each record is in the parts, one behind the other.
        places = pa.array(np.argsort(np.argsort(~is_plain, kind="stable"), kind="stable"))
        columns = pa.Table.from_batches([part.columns for part in parts]).take(places)
        return Decoded(
            pa.RecordBatch.from_arrays(
                [column.combine_chunks() for column in columns.columns], schema=self.schema
            ),
            pa.concat_arrays([part.reasons for part in parts]).take(places),
            schemas=self._schemas(parts[1], np.flatnonzero(~is_plain)),
        )

    @staticmethod
    def _schemas(framed: Decoded, rows: Ints) -> dict[int, tuple[int, int]]:
        """Those of the framed records, which are at these rows of the piece."""
        return {
            schema_id: (int(rows[first]), int(rows[last]))
            for schema_id, (first, last) in framed.schemas.items()
        }

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        """As the protocol says."""
        is_plain = any(name == SCHEMA_HEADER for name, _ in headers)
        return (self._plain if is_plain else self._framed).reference(value, headers)


class _Whole(RegisteredAvro):
    """Refuses schemas of which the table would have a part. ``declared``: fingerprints of those that the
    stream itself has or had."""

    def __init__(self, current: str, schemas: Schemas, declared: tuple[str, ...]) -> None:
        super().__init__(current, schemas)
        self._declared = declared

    def _new_writer(self, text: str) -> Writer | str:
        found = super()._new_writer(text)
        if isinstance(found, str) or found.schema.fingerprint in self._declared:
            return found
        further = UnknownFields(found.schema.record, self._current.record).names
        if not further:
            return found
        return printable(
            f"read: it has fields that the table lacks, and they would be lost: {', '.join(further)}"
        )
