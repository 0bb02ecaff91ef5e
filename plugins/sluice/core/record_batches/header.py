"""The header of a record batch, and the batches of a fetch response.

Message format 2, since Kafka 0.11: https://kafka.apache.org/41/design/message-format/ ("Record Batch").
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import google_crc32c

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused

# baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta, baseTimestamp,
# maxTimestamp, producerId, producerEpoch, baseSequence, records.
_FIELDS = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qi")
# What batchLength does not count: itself and the base offset.
_BEFORE_LENGTH = _PREFIX.size
_MAGIC_AT = 16
# The checksum is over everything behind itself. Base offset, length and leader epoch, which the broker sets,
# are before it.
_CRC_FROM = 21
MAGIC = 2


class DamagedBatch(Refused):
    """Bytes that no broker sends: another attempt may get others."""

    code = ErrorCode.DAMAGED_BATCH


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch.

    ``base_offset``, ``last_offset``: the offsets that it stands for, both included, though the log's
    cleaner may have taken records out. ``leader_epoch``: of the leader that appended it. ``codec``:
    Kafka's number of the compression. ``count``: its records. ``base_timestamp``, ``max_timestamp``: ms
    since 1970, -1 for none; with ``is_log_append`` every record has the latter. ``producer_id``: -1
    without idempotence. ``is_transactional``: of a transaction, which may be aborted; ``is_control``: a
    marker that ends one. ``body``: its records, compressed.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    codec: int
    count: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    is_log_append: bool
    is_transactional: bool
    is_control: bool
    body: memoryview

    @property
    def size(self) -> int:
        """In bytes, as the log has it."""
        return _FIELDS.size + len(self.body)


def batches(data: bytes | memoryview, asked: int, *, is_continued: bool = False) -> Iterator[Batch]:
    """Yield the whole batches of a fetch response for offset ``asked``, in their order; a last one that the
    broker cut off is left out.

    ``is_continued``: ``asked`` is behind a batch that was read, so none begins before it; else the first one
    may. Raises DamagedBatch.
    """
    view, at, following = memoryview(data), 0, asked if is_continued else 0
    while len(view) - at >= _PREFIX.size:
        _, length = _PREFIX.unpack_from(view, at)
        end = at + _BEFORE_LENGTH + length
        # At the same place in every format; earlier ones have shorter headers.
        if (magic := bytes(view[at + _MAGIC_AT : at + _MAGIC_AT + 1])) not in (b"", bytes([MAGIC])):
            raise _damaged(
                following, f"message format {magic[0]}: only {MAGIC} is read, which Kafka writes since 0.11"
            )
        if length < _FIELDS.size - _BEFORE_LENGTH:
            raise _damaged(following, f"its length is {length} bytes")
        if end > len(view):
            break
        batch = _read(view[at:end], following)
        if batch.base_offset < following:
            raise _damaged(following, f"a batch of offset {batch.base_offset} comes behind it")
        at, following = end, batch.last_offset + 1
        if batch.last_offset >= asked:
            yield batch
    if at == 0 and len(view):
        # Since version 3 of the request the first batch is whole, whatever its size.
        raise _damaged(asked, f"{len(view)} bytes hold no whole batch")


def _read(view: memoryview, following: int) -> Batch:
    (base, _, epoch, _, crc, attributes, last_delta, base_time, max_time, producer, _, _, count) = (
        _FIELDS.unpack_from(view)
    )
    if google_crc32c.value(bytes(view[_CRC_FROM:])) != crc:
        raise _damaged(following, f"the checksum of the batch at offset {base} differs")
    if base < 0 or last_delta < 0 or not 0 <= count <= last_delta + 1:
        raise _damaged(following, f"{count} records from {base} on, the last one {last_delta} behind it")
    return Batch(
        base_offset=base,
        last_offset=base + last_delta,
        leader_epoch=epoch,
        codec=attributes & 0b111,
        count=count,
        base_timestamp=base_time,
        max_timestamp=max_time,
        producer_id=producer,
        is_log_append=bool(attributes & 0b1000),
        is_transactional=bool(attributes & 0b1_0000),
        is_control=bool(attributes & 0b10_0000),
        body=view[_FIELDS.size :],
    )


def _damaged(offset: int, what: str) -> DamagedBatch:
    return DamagedBatch(
        f"damaged record batch at or behind offset {offset}: {what}. Fix: compare the partition's replicas "
        "(kafka-dump-log.sh --deep-iteration on each broker), and let a sound one lead"
    )
