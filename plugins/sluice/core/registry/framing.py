"""Confluent's wire format: a zero, the id of the schema in four bytes, then the body.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html ("Wire
format"). Its serializers can also put a schema's GUID into a header, in front of nothing
(``HeaderSchemaIdSerializer``). Confluent's own registry (8.0) and Redpanda's (26.3) know GUIDs, Apicurio's
(3.3) does not. So such a record is not read, with a reason that says it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.arrays import bytes_of
from sluice.core.decoding.decoder import Malformed, RawHeaders
from sluice.core.decoding.texts import quoted
from sluice.core.decoding.wire_formats import wire_format
from sluice.core.record_batches.cursor import Bytes, Flags, Ints
from sluice.core.registry.subjects import Part

PREFIX_BYTES = 5
# The same with an id of eight bytes, as Apicurio's own serializers of version 2 have it.
_LONG_PREFIX_BYTES = 9
# Ids are positive numbers of Java's type int.
MAX_ID = 2**31 - 1
HEADERS = {Part.KEY: b"__key_schema_id", Part.VALUE: b"__value_schema_id"}
# The first byte of a header's value: 16 bytes of a GUID follow.
_GUID = 1


@dataclass(frozen=True)
class Framed:
    """The records of a piece, a row for each. ``ids``: 0 for a row without a schema; it is then null (a
    tombstone), or in ``reasons``, which says why it is not framed. ``data``: the piece's bytes, shared;
    ``starts``, ``ends``: where in them each body is, both 0 without one. ``values``: as they were given."""

    ids: Ints
    data: Bytes
    starts: Ints
    ends: Ints
    reasons: dict[int, str]
    values: pa.BinaryArray

    @property
    def schema_ids(self) -> list[int]:
        """Each id once, those of most records first: what made-up ids leave of a registry's patience is
        theirs."""
        found, counts = np.unique(self.ids, return_counts=True)
        return [int(one) for one in found[np.argsort(-counts, kind="stable")] if one]

    def rows_of_ids(self, is_counted: Flags) -> dict[int, tuple[int, int]]:
        """Each id with the first and the last of its rows that count."""
        rows = np.flatnonzero(is_counted & (self.ids != 0))
        ids = self.ids[rows]
        if not len(ids) or (ids == ids[0]).all():
            return {int(ids[0]): (int(rows[0]), int(rows[-1]))} if len(ids) else {}
        found, first = np.unique(ids, return_index=True)
        last = len(ids) - 1 - np.unique(ids[::-1], return_index=True)[1]
        return {
            int(schema_id): (int(rows[one]), int(rows[other]))
            for schema_id, one, other in zip(found, first, last, strict=True)
        }

    def bodies(self) -> pa.BinaryArray:
        """The bodies, copied; null for a row without a schema."""
        # Not by binary_slice: without an end it fails (PyArrow 26.0.1, "Negative buffer resize").
        found = pc.binary_replace_slice(self.values, 0, PREFIX_BYTES, b"")
        if not self.reasons:
            return found
        return pc.if_else(pa.array(self.ids != 0), found, pa.scalar(None, pa.binary()))


def frame(schema_id: int) -> bytes:
    """What a record of a schema begins with."""
    return b"\0" + schema_id.to_bytes(PREFIX_BYTES - 1, "big")


def framed(values: pa.BinaryArray, headers: pa.ListArray, part: Part = Part.VALUE) -> Framed:
    """Read what each record says of its schema. ``values``: or keys; ``headers``: as
    ``record_batches.records.SCHEMA`` has them."""
    data, bounds = bytes_of(values)
    starts, ends = bounds[:-1], bounds[1:]
    is_null: Flags = values.is_null().to_numpy(zero_copy_only=False)
    by_header = with_header(headers, HEADERS[part])
    ids: Ints = np.zeros(len(values), np.int64)
    rows = np.flatnonzero(~is_null & ~by_header & (ends - starts >= PREFIX_BYTES))
    at = starts[rows]
    for place in range(1, PREFIX_BYTES):
        ids[rows] = ids[rows] << 8 | data[at + place]
    ids[rows[data[at] != 0]] = 0
    ids[ids > MAX_ID] = 0
    has_schema = ids != 0
    reasons = {
        row: _reason(
            values[row].as_py(), _header(headers[row].as_py(), part) if by_header[row] else None, part
        )
        for row in np.flatnonzero(~has_schema & ~is_null).tolist()
    }
    return Framed(
        ids,
        data,
        np.where(has_schema, starts + PREFIX_BYTES, 0),
        np.where(has_schema, ends, 0),
        reasons,
        values,
    )


def unframed(value: bytes, headers: RawHeaders, part: Part = Part.VALUE) -> tuple[int, bytes]:
    """The schema id and the body of one record. Raises Malformed with the reason that :func:`framed`
    gives."""
    named = [text for name, text in headers if name == HEADERS[part]]
    schema_id = int.from_bytes(value[1:PREFIX_BYTES], "big")
    is_framed = len(value) >= PREFIX_BYTES and value[0] == 0 and 0 < schema_id <= MAX_ID
    if named or not is_framed:
        raise Malformed(_reason(value, (named[-1],) if named else None, part))
    return schema_id, value[PREFIX_BYTES:]


def with_header(headers: pa.ListArray, name: bytes) -> Flags:
    """Which records have a header of this name."""
    found: Flags = np.zeros(len(headers), np.bool_)
    flat = headers.flatten()
    equal = pc.equal(flat.field("key"), pa.scalar(name, pa.binary())).to_numpy(zero_copy_only=False)
    if equal.any():
        lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
        found[np.repeat(np.arange(len(headers)), lengths)[equal]] = True
    return found


def _header(headers: list[dict[str, bytes | None]], part: Part) -> tuple[bytes | None]:
    """The value of the last header that names the schema."""
    return ([one["value"] for one in headers if one["key"] == HEADERS[part]][-1],)


def _reason(value: bytes, named: tuple[bytes | None] | None, part: Part) -> str:
    """Why a record without a schema id has none. ``named``: the value of its header, None without one."""
    if named is not None:
        return _of_header(named[0], part)
    if not value:
        return "it is empty: no schema id"
    if value[0]:
        words = wire_format(value) or f"starts with {value[0]:02X}"
        return f"{words}, not Confluent's wire format (00 and a schema id)"
    if len(value) < PREFIX_BYTES:
        return f"starts with 00, and has {len(value)} bytes: too short for a schema id"
    schema_id = int.from_bytes(value[1:PREFIX_BYTES], "big")
    words = f"starts with 00, and {schema_id} is no schema id: those are 1 to {MAX_ID}"
    if schema_id or len(value) < _LONG_PREFIX_BYTES:
        return words
    return (
        f"{words}. Apicurio's serializers with ids of 8 bytes write so. Fix: configure Default4ByteIdHandler"
    )


def _of_header(named: bytes | None, part: Part) -> str:
    header = HEADERS[part].decode()
    if named is not None and len(named) >= 17 and named[0] == _GUID:
        found = f"GUID {uuid.UUID(bytes=named[1:17])}"
    else:
        found = "null" if named is None else quoted(named)
    return (
        f"its header {header} names the schema ({found}): Confluent's HeaderSchemaIdSerializer, which is not "
        f"read. Fix: produce with PrefixSchemaIdSerializer, the default"
    )
