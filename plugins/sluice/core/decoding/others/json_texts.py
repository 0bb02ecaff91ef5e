"""JSON of any form as the text that was sent: the format ``json`` of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.decoder import TOMBSTONE, Decoded, Malformed, RawHeaders
from sluice.core.decoding.json.document import parsed
from sluice.core.decoding.others.plain import texts_of, with_tombstones

_SPACE = r"[ \t\r\n]*"
_TEXT = r'"[^"\\\x00-\x1f]*"'
_SCALAR = rf"({_TEXT}|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false|null)"
_MEMBER = rf"{_SPACE}{_TEXT}{_SPACE}:{_SPACE}{_SCALAR}{_SPACE}"
# JSON as most keys are: a scalar, or a flat object, without escapes. Other forms are for the reference.
_USUAL = rf"^{_SPACE}({_SCALAR}|\{{({_MEMBER}(,{_MEMBER})*|{_SPACE})\}}){_SPACE}$"


class JsonTextDecoder:
    """A :class:`Decoder` of values that are one JSON value each, of which the column has the text."""

    def __init__(self, column: str) -> None:
        self.schema = pa.schema([pa.field(column, pa.utf8())])

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says; headers say nothing here."""
        texts, wrong = texts_of(values)
        is_usual = pc.match_substring_regex(texts, _USUAL).fill_null(False).to_numpy(zero_copy_only=False)
        is_odd = ~is_usual & values.is_valid().to_numpy(zero_copy_only=False)
        is_odd[wrong] = True
        rows = np.flatnonzero(is_odd)
        reasons: dict[int, str] = {}
        if len(rows):
            # Keys come many times.
            encoded = values.take(pa.array(rows)).dictionary_encode()
            said = [self._reason(value) for value in encoded.dictionary.to_pylist()]
            places = encoded.indices.to_pylist()
            reasons = {
                row: reason
                for row, place in zip(rows.tolist(), places, strict=True)
                if (reason := said[place]) is not None
            }
        return Decoded(
            pa.RecordBatch.from_arrays([texts], schema=self.schema), with_tombstones(values, reasons)
        )

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        """By the standard library."""
        if value is None:
            raise Malformed(TOMBSTONE)
        text, _ = parsed(value)
        return {self.schema.names[0]: text}

    def _reason(self, value: bytes) -> str | None:
        try:
            self.reference(value, ())
        except Malformed as error:
            return str(error)
        return None
