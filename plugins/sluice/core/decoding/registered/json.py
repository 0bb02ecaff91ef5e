"""JSON with a registry: the frame is taken off, and the text is read as JSON without a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.arrays import is_null
from sluice.core.decoding.decoder import TOMBSTONE, Decoded, Decoder, Malformed, RawHeaders
from sluice.core.registry.errors import RefusedSchema, UnknownSchema
from sluice.core.registry.framing import framed, unframed
from sluice.core.registry.lookups import in_turn
from sluice.core.registry.schemas import JSON, Schemas
from sluice.core.registry.subjects import Part


@dataclass(frozen=True)
class RegisteredJson:
    """A :class:`Decoder` of JSON behind the id of a JSON Schema, which is not evaluated.

    ``texts``: decodes what is behind it. ``part``: of the record. ``is_optional``: what begins with another
    byte than the frame is JSON without one, as keys often are.
    """

    texts: Decoder
    schemas: Schemas
    part: Part = Part.VALUE
    is_optional: bool = False
    # Why ids of the last piece are rejected: a schema may be registered before its sample is read.
    _wrong: dict[int, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def schema(self) -> pa.Schema:
        return self.texts.schema

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says."""
        found = framed(values, headers, self.part)
        bodies, reasons = found.bodies(), dict(found.reasons)
        if self.is_optional and reasons:
            plain = [row for row in reasons if self._is_plain(values[row].as_py())]
            is_plain = np.zeros(len(values), np.bool_)
            is_plain[plain] = True
            bodies = pc.if_else(pa.array(is_plain), values, bodies)
            reasons = {row: why for row, why in reasons.items() if not is_plain[row]}
        asked = in_turn(found.schema_ids, self._why_rejected)
        wrong = {schema_id: why for schema_id, why in asked.items() if why}
        self._wrong.clear()
        self._wrong.update(wrong)
        if wrong:
            rows = np.flatnonzero(np.isin(found.ids, [*wrong]))
            reasons |= {
                row: wrong[schema_id]
                for row, schema_id in zip(rows.tolist(), found.ids[rows].tolist(), strict=True)
            }
        inner = self.texts.decode(bodies, headers)
        said = inner.reasons
        if reasons:
            own = pa.array(map(reasons.get, range(len(values))), pa.utf8(), size=len(values))
            said = pc.coalesce(own, said)
        return replace(inner, reasons=said, schemas=found.rows_of_ids(is_null(said)))

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        if value is None:
            raise Malformed(TOMBSTONE)
        if self.is_optional and self._is_plain(value):
            return self.texts.reference(value, headers)
        schema_id, body = unframed(value, headers, self.part)
        if why := self._wrong.get(schema_id) or self._why_rejected(schema_id):
            raise Malformed(why)
        return self.texts.reference(body, headers)

    @staticmethod
    def _is_plain(value: bytes) -> bool:
        # No text of JSON begins with a zero.
        return not value.startswith(b"\0")

    def _why_rejected(self, schema_id: int) -> str:
        """Empty for an id of a JSON Schema."""
        try:
            kind = self.schemas.get(schema_id).type
        except (UnknownSchema, RefusedSchema) as error:
            return str(error)
        return (
            ""
            if kind == JSON
            else f"schema id {schema_id} is of type {kind}, and the stream's format is json"
        )
