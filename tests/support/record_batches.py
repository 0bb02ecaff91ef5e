"""Record batches made by hand, record by record: what the reader of whole pieces is compared with."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import google_crc32c
import pyarrow as pa

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4, "xerial": 2}
ABORT, COMMIT = 0, 1
Header = tuple[bytes, bytes | None]


@dataclass(frozen=True)
class Record:
    """One record: ``offset`` and ``timestamp`` (ms) as a reader gets them."""

    offset: int
    timestamp: int = 1_000
    key: bytes | None = None
    value: bytes | None = b"v"
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True)
class Made:
    """A batch to make: as Kafka's header has it, with ``codec`` by name; ``xerial`` is snappy as Java frames
    it. ``last_offset``: of the last record, unless the cleaner took that out. ``lie`` goes before its place:
    fields of the header that differ from the truth."""

    records: tuple[Record, ...]
    codec: str = "none"
    base_offset: int | None = None
    last_offset: int | None = None
    leader_epoch: int = 3
    producer_id: int = -1
    is_transactional: bool = False
    is_control: bool = False
    append_time: int | None = None
    first_time: int | None = None
    lie: dict[str, int] = field(default_factory=dict)

    def bytes(self) -> bytes:
        first = self.base_offset if self.base_offset is not None else self.records[0].offset
        last = self.last_offset if self.last_offset is not None else self.records[-1].offset
        base_time = self.records[0].timestamp if self.records else -1
        if self.first_time is not None:
            base_time = self.first_time
        body = b"".join(_record(record, first, base_time) for record in self.records)
        attributes = (
            CODECS[self.codec]
            | (self.append_time is not None) << 3
            | self.is_transactional << 4
            | self.is_control << 5
        )
        fields = {
            "attributes": attributes,
            "last_delta": last - first,
            "base_time": base_time,
            "max_time": self.append_time if self.append_time is not None else base_time,
            "producer": self.producer_id,
            "producer_epoch": 0,
            "sequence": -1,
            "count": len(self.records),
        } | self.lie
        checked = struct.pack(">hiqqqhii", *fields.values()) + _compressed(body, self.codec)
        crc = google_crc32c.value(checked)
        return struct.pack(">qiibI", first, 9 + len(checked), self.leader_epoch, 2, crc) + checked


def marker(offset: int, producer_id: int, kind: int) -> Made:
    """The control batch that ends a transaction."""
    record = Record(offset, key=struct.pack(">hh", 0, kind), value=b"\0\0\0\0\0\0")
    return Made((record,), producer_id=producer_id, is_transactional=True, is_control=True)


def joined(made: Sequence[Made]) -> bytes:
    return b"".join(batch.bytes() for batch in made)


def varint(value: int) -> bytes:
    """Zigzag, 7 bits to a byte."""
    rest = (value << 1) ^ (value >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _record(record: Record, first: int, base_time: int) -> bytes:
    body = b"\0" + varint(record.timestamp - base_time) + varint(record.offset - first)
    body += _sized(record.key) + _sized(record.value) + varint(len(record.headers))
    for key, value in record.headers:
        body += _sized(key) + _sized(value)
    return varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def _compressed(body: bytes, codec: str) -> bytes:
    if codec == "none":
        return body
    if codec == "snappy":
        return _snappy(body)
    if codec == "xerial":
        half = len(body) // 2
        blocks = [_snappy(part) for part in (body[:half], body[half:]) if part]
        framed = b"".join(len(block).to_bytes(4, "big") + block for block in blocks)
        return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(body)
    return bytes(sink.getvalue())


def _snappy(body: bytes) -> bytes:
    found: bytes = pa.Codec("snappy").compress(body, asbytes=True)
    return found
