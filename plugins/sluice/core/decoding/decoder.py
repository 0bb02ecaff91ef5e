"""What a format of records is to its reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

# A record's headers, as they are on the topic.
RawHeaders = Sequence[tuple[bytes, bytes | None]]


class Malformed(ValueError):
    """A record is not accepted; its text is the reason, for people."""


@dataclass(frozen=True)
class Decoded:
    """The records of a piece, a row for each. ``columns``: of the decoder's schema. ``reasons``: texts, why a
    record is rejected; null for a good one. What ``columns`` has of a rejected record is of no use."""

    columns: pa.RecordBatch
    reasons: pa.StringArray


class Decoder(Protocol):
    """A format with its schema. For one thread; can be pickled."""

    @property
    def schema(self) -> pa.Schema:
        """A column for each of the table's that the record has, all of them nullable."""

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """Decode records: their values, null for a tombstone, and their headers, as
        ``record_batches.records.SCHEMA`` has them. Never raises for what is in a record."""

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        """Decode one record by another library, a value for each column as :meth:`pa.Array.to_pylist` gives
        it. Raises Malformed with the reason that :meth:`decode` gives."""
