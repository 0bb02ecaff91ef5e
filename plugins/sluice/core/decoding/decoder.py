"""What a format of records is to its reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from sluice.core.record_batches.cursor import Flags

TOMBSTONE = "the record has no value (a tombstone)"
# A record's headers, as they are on the topic.
RawHeaders = Sequence[tuple[bytes, bytes | None]]


class Malformed(ValueError):
    """A record is not accepted; its text is the reason, for people."""


@dataclass(frozen=True)
class Decoded:
    """The records of a piece, a row for each. ``columns``: of the decoder's schema; nulls of a record without
    a value, and of no use of another one that is rejected. ``reasons``: texts, why a record is rejected; null
    for a good one. ``skipped``: the records that the stream's declaration leaves out, None for none.
    ``unfollowed``: ids of schemas that are more than the table's, or others, and have a record here.
    ``schemas``: id of a registry's schema -> the first and the last row that is a record of it."""

    columns: pa.RecordBatch
    reasons: pa.StringArray
    skipped: Flags | None = None
    unfollowed: frozenset[int] = frozenset()
    schemas: Mapping[int, tuple[int, int]] = field(default_factory=dict)


class Decoder(Protocol):
    """A format of values, or of keys, with its schema. For one thread; can be pickled."""

    @property
    def schema(self) -> pa.Schema:
        """A column for each of the table's that the record has, all of them nullable."""

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """Decode records: their values, null for a tombstone, and their headers, as
        ``record_batches.records.SCHEMA`` has them. Never raises for what is in a record; what a registry's
        client raises if the registry cannot be asked."""

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        """Decode one record by another library, a value for each column as :meth:`pa.Array.to_pylist` gives
        it. Raises Malformed with the reason that :meth:`decode` gives."""


class RecordDecoder(Protocol):
    """Whole records into all columns that the table has of them. For one thread; can be pickled."""

    @property
    def has_sources(self) -> bool:
        """Whether keys may name a row of one of Sluice's sources; false: a key that looks so is of others."""

    @property
    def schema(self) -> pa.Schema:
        """A column for each of the table's that the record has, all of them nullable."""

    def decode(self, keys: pa.BinaryArray, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        """As :meth:`Decoder.decode`."""

    def reference(
        self, key: bytes | None, value: bytes | None, headers: RawHeaders
    ) -> Mapping[str, Any] | None:
        """As :meth:`Decoder.reference`; None for a record that the declaration leaves out."""


@dataclass(frozen=True)
class OwnRecords:
    """A :class:`RecordDecoder` of records that Sluice's producers send: the key is the identity of a row, and
    all columns are of the value."""

    values: Decoder
    has_sources = True

    @property
    def schema(self) -> pa.Schema:
        return self.values.schema

    def decode(self, keys: pa.BinaryArray, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        return self.values.decode(values, headers)

    def reference(
        self, key: bytes | None, value: bytes | None, headers: RawHeaders
    ) -> Mapping[str, Any] | None:
        return self.values.reference(value, headers)
