"""Compressed bodies of batches, decompressed within a limit: a few bytes can stand for gigabytes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sluice.core.record_batches.header import Batch, DamagedBatch

_CHUNK_BYTES = 1 << 20
_NONE, _SNAPPY = 0, 2
_STREAMS = {1: "gzip", 3: "lz4", 4: "zstd"}
# Java's writer frames blocks (org.xerial.snappy.SnappyOutputStream), librdkafka's writes one bare block.
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
# A bare block begins with how many bytes it has, 7 bits to a byte.
_MOST_LENGTH_BYTES = 5


class BatchTooLarge(DamagedBatch):
    """A batch has more bytes than it may have; `max.message.bytes` limits it when it is compressed."""


def decompressed(batch: Batch, limit: int) -> bytes | memoryview:
    """The batch's records. Raises DamagedBatch for a body that is cut or of an unknown codec, BatchTooLarge
    for one of more than ``limit`` bytes."""
    try:
        if batch.codec == _NONE or not batch.body:
            found: bytes | memoryview = batch.body
        elif batch.codec == _SNAPPY:
            found = b"".join(_blocks(batch.body, limit))
        elif batch.codec in _STREAMS:
            found = _stream(batch.body, _STREAMS[batch.codec], limit)
        else:
            raise ValueError(f"codec {batch.codec} is none of Kafka's")
    except OverflowError as error:
        raise BatchTooLarge(
            f"record batch of offsets {batch.base_offset} to {batch.last_offset}: more than {limit} bytes "
            "when decompressed. Fix: raise `max_batch_mb` of `[kafka]` in the role's platform file, and the "
            "memory of its processes, if the topic's producer sends so much; else find who does"
        ) from error
    except (ValueError, OSError, pa.ArrowException) as error:
        raise DamagedBatch(
            f"damaged record batch of offsets {batch.base_offset} to {batch.last_offset}: its body: {error}. "
            "Fix: find its producer; the topic must be read from behind it"
        ) from error
    return found


def _stream(body: memoryview, codec: str, limit: int) -> memoryview:
    found = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(body)), codec) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            found += chunk
            if len(found) > limit:
                raise OverflowError
    return memoryview(found)


def _blocks(body: memoryview, limit: int) -> Iterator[bytes]:
    if bytes(body[: len(_XERIAL)]) != _XERIAL:
        yield _block(body, limit, limit)
        return
    at, left = _XERIAL_HEADER, limit
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        at += 4
        if not 0 < size <= len(body) - at:
            raise ValueError(f"a block of {size} bytes, of {len(body) - at} that are left")
        block = _block(body[at : at + size], limit, left)
        left -= len(block)
        at += size
        yield block


def _block(block: memoryview, limit: int, left: int) -> bytes:
    size, shift = 0, 0
    for byte in block[:_MOST_LENGTH_BYTES]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise ValueError("the length of a block has no end")
    if size > left:
        raise OverflowError
    found: bytes = pa.Codec("snappy").decompress(pa.py_buffer(block), size, asbytes=True)
    return found
