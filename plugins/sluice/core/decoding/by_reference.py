"""Records decoded one by one by a format's reference: the way on where both decoders differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.core.decoding.decoder import Decoded, Malformed, RawHeaders, RecordDecoder


@dataclass(frozen=True)
class ByReference:
    """A :class:`RecordDecoder` that trusts another one's reference alone; many times slower."""

    other: RecordDecoder

    @property
    def has_sources(self) -> bool:
        return self.other.has_sources

    @property
    def schema(self) -> pa.Schema:
        return self.other.schema

    def decode(self, keys: pa.BinaryArray, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        rows: list[Mapping[str, Any]] = []
        reasons: list[str | None] = []
        skipped = np.zeros(len(values), np.bool_)
        given = zip(keys.to_pylist(), values.to_pylist(), headers.to_pylist(), strict=True)
        for place, (key, value, each) in enumerate(given):
            reason, row = None, None
            try:
                row = self.reference(key, value, [(one["key"], one["value"]) for one in each or ()])
                skipped[place] = row is None
            except Malformed as why:
                reason = str(why)
            rows.append(row or {})
            reasons.append(reason)
        columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in self.schema]
        found = self.other.decode(keys, values, headers)
        return Decoded(
            pa.RecordBatch.from_arrays(columns, schema=self.schema),
            pa.array(reasons, pa.string()),
            skipped if skipped.any() else None,
            # Not of a record: the reference has none.
            found.unfollowed,
            found.schemas,
        )

    def reference(
        self, key: bytes | None, value: bytes | None, headers: RawHeaders
    ) -> Mapping[str, Any] | None:
        return self.other.reference(key, value, headers)
