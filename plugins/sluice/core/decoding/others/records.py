"""A record of others: its value, its key and its headers, each decoded as the stream declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.decoder import Decoded, Decoder, Malformed, RawHeaders
from sluice.core.decoding.others import headers as header_column
from sluice.core.record_batches.cursor import Flags

Tombstones = Literal["row", "skip", "reject"]
_OF_KEY = "its key: "


@dataclass(frozen=True)
class OthersRecords:
    """A :class:`RecordDecoder` of records that others send.

    ``values``: decodes values; ``keys``: decodes keys, None if these are not kept; ``headers``: the column of
    headers, empty if these are not kept; ``tombstones``: what a record without a value becomes.
    """

    values: Decoder
    keys: Decoder | None = None
    headers: str = ""
    tombstones: Tombstones = "row"
    has_sources = False

    @property
    def schema(self) -> pa.Schema:
        fields = [*self.values.schema, *(self.keys.schema if self.keys else ())]
        if self.headers:
            fields.append(pa.field(self.headers, header_column.TYPE))
        return pa.schema(fields)

    def decode(self, keys: pa.BinaryArray, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says. Of a record's reasons the value's is first, then the key's."""
        found = self.values.decode(values, headers)
        columns, reasons, skipped = [*found.columns.columns], found.reasons, None
        if values.null_count and self.tombstones != "reject":
            is_null = values.is_null()
            reasons = pc.if_else(is_null, None, reasons)
            skipped = _flags(is_null) if self.tombstones == "skip" else None
        if self.keys is not None:
            own = self.keys.decode(keys, headers)
            columns += own.columns.columns
            # A record may have no key: no reason for it to be rejected.
            if len(keys) - own.reasons.null_count > keys.null_count:
                said = pc.binary_join_element_wise(_OF_KEY, own.reasons, "")
                reasons = pc.coalesce(reasons, pc.if_else(keys.is_valid(), said, None))
        if self.headers:
            column, wrong = header_column.column(headers)
            columns.append(column)
            if wrong:
                of_headers = pa.array([wrong.get(row) for row in range(len(headers))], pa.utf8())
                reasons = pc.coalesce(reasons, of_headers)
        if skipped is not None:
            reasons = pc.if_else(pa.array(skipped), None, reasons)
        return Decoded(
            pa.RecordBatch.from_arrays(columns, schema=self.schema),
            reasons,
            skipped,
            found.unfollowed,
            found.schemas,
        )

    def reference(
        self, key: bytes | None, value: bytes | None, headers: RawHeaders
    ) -> Mapping[str, Any] | None:
        if value is None and self.tombstones == "skip":
            return None
        if value is None and self.tombstones == "row":
            row: dict[str, Any] = dict.fromkeys(self.values.schema.names)
        else:
            row = dict(self.values.reference(value, headers))
        if self.keys is not None:
            row |= dict.fromkeys(self.keys.schema.names) if key is None else self._key(key, headers)
        if self.headers:
            row[self.headers] = header_column.reference(headers)
        return row

    def _key(self, key: bytes, headers: RawHeaders) -> Mapping[str, Any]:
        assert self.keys is not None  # noqa: S101  (narrows the type)
        try:
            return self.keys.reference(key, headers)
        except Malformed as error:
            raise Malformed(f"{_OF_KEY}{error}") from None


def _flags(flags: pa.BooleanArray) -> Flags:
    return np.asarray(flags.to_numpy(zero_copy_only=False), np.bool_)
