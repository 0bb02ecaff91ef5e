"""The formats ``text`` and ``bytes``: a value, or a key, is one column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.core.decoding.arrays import not_utf8
from sluice.core.decoding.decoder import TOMBSTONE, Decoded, Malformed, RawHeaders
from sluice.core.record_batches.cursor import Ints


class BytesDecoder:
    """A :class:`Decoder` of values that are kept as they are."""

    def __init__(self, column: str) -> None:
        self.schema = pa.schema([pa.field(column, pa.binary())])

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says; headers say nothing here."""
        return Decoded(pa.RecordBatch.from_arrays([values], schema=self.schema), with_tombstones(values, {}))

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        if value is None:
            raise Malformed(TOMBSTONE)
        return {self.schema.names[0]: value}


class TextDecoder:
    """A :class:`Decoder` of values that are UTF-8."""

    def __init__(self, column: str) -> None:
        self.schema = pa.schema([pa.field(column, pa.utf8())])

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As the protocol says; headers say nothing here."""
        texts, wrong = texts_of(values)
        reasons = {row: _not_utf8(values[row].as_py()) for row in wrong.tolist()}
        return Decoded(
            pa.RecordBatch.from_arrays([texts], schema=self.schema), with_tombstones(values, reasons)
        )

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        if value is None:
            raise Malformed(TOMBSTONE)
        return {self.schema.names[0]: text_of(value)}


def text_of(value: bytes) -> str:
    """Raises Malformed for what is no UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Malformed(_not_utf8(value)) from None


def texts_of(values: pa.BinaryArray) -> tuple[pa.StringArray, Ints]:
    """Values as texts, null where they are no UTF-8; and the rows of these."""
    texts = values.view(pa.utf8())
    is_wrong = not_utf8(texts)
    if is_wrong is None:
        return texts, np.zeros(0, np.int64)
    mask = is_wrong | values.is_null().to_numpy(zero_copy_only=False)
    # `take` of Arrow looks at no byte of a text.
    return texts.take(pa.array(np.arange(len(texts)), mask=mask)), np.flatnonzero(is_wrong)


def with_tombstones(values: pa.BinaryArray, reasons: Mapping[int, str]) -> pa.StringArray:
    """The reasons of a piece; those of values that are null with them."""
    if not values.null_count and not reasons:
        return pa.nulls(len(values), pa.utf8())
    rows = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist()
    every = dict.fromkeys(rows, TOMBSTONE) | dict(reasons)
    return pa.array(map(every.get, range(len(values))), pa.utf8(), size=len(values))


def _not_utf8(value: bytes) -> str:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte {value[error.start]:02X} at {error.start + 1}"
    raise ValueError(value)
