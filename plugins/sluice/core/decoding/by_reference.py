"""Records decoded one by one by a format's reference: the way on where both decoders differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sluice.core.decoding.decoder import Decoded, Decoder, Malformed, RawHeaders


@dataclass(frozen=True)
class ByReference:
    """A :class:`Decoder` that trusts another one's reference alone; many times slower."""

    other: Decoder

    @property
    def schema(self) -> pa.Schema:
        return self.other.schema

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        rows: list[Mapping[str, Any]] = []
        reasons: list[str | None] = []
        for value, each in zip(values.to_pylist(), headers.to_pylist(), strict=True):
            try:
                rows.append(self.reference(value, [(one["key"], one["value"]) for one in each or ()]))
                reasons.append(None)
            except Malformed as why:
                rows.append({})
                reasons.append(str(why))
        columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in self.schema]
        return Decoded(
            pa.RecordBatch.from_arrays(columns, schema=self.schema), pa.array(reasons, pa.string())
        )

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        return self.other.reference(value, headers)
