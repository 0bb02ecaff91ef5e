"""The records of batches as Arrow arrays, all of a piece at once.

Message format 2: https://kafka.apache.org/41/design/message-format/ ("Record").
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluice.core.record_batches.cursor import Bytes, Cursor, Flags, Ints, varint_at
from sluice.core.record_batches.header import Batch, DamagedBatch

_HEADER = pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())])
# A record as it was on the topic, without its topic and partition. Header keys are text by Kafka's protocol;
# no broker checks it, so they are bytes here.
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        # 0: when it was created, by its producer; 1: when it was appended, by the broker.
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        # Null if they are more than MAX_HEADERS, which are not read: each takes 36 times its bytes of memory.
        pa.field("headers", pa.list_(pa.field("item", _HEADER, nullable=False))),
    ]
)
MAX_HEADERS = 10_000
# An Arrow array of bytes has positions of 32 bits.
_MOST_BYTES = (1 << 31) - 1
# Headers of all records at once, the first of each, then the second: a record with more is read by itself.
_MOST_ROUNDS = 16


def read(pieces: Sequence[tuple[Batch, bytes | memoryview]]) -> pa.RecordBatch:
    """The records of batches with their decompressed bodies, as SCHEMA, in their order.

    Raises DamagedBatch for a body that is not exactly as many records as its header says, each with an offset
    of the batch, in rising order.
    """
    pieces = [(batch, body) for batch, body in pieces if batch.count or len(body)]
    if sum(len(body) for _, body in pieces) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES} bytes in one piece")
    # One byte more, which a position at the end may look at.
    raw = b"".join((*(body for _, body in pieces), b"\0"))
    data: Bytes = np.frombuffer(raw, np.uint8)
    starts, ends = _records(raw, data, pieces)
    of = np.repeat(np.arange(len(pieces)), np.array([batch.count for batch, _ in pieces], np.int64))
    buffer, cursor = pa.py_buffer(data), Cursor(data, starts, ends)
    # The record's attributes: none is defined.
    cursor.skip(1)
    time_delta, delta = cursor.varint(), cursor.varint()
    keys = _bytes(cursor)
    values = _bytes(cursor)
    headers = _headers(buffer, cursor)
    is_bad = cursor.is_bad | (cursor.at != ends) | ~_rising(delta, of, pieces)
    if is_bad.any():
        raise _damaged(pieces[int(of[np.argmax(is_bad)])][0], "a record is not laid out as one")

    def each(name: str) -> Ints:
        found: Ints = np.array([getattr(batch, name) for batch, _ in pieces], np.int64)[of]
        return found

    is_append = each("is_log_append")
    with np.errstate(over="ignore"):
        times = np.where(is_append, each("max_timestamp"), each("base_timestamp") + time_delta)
    columns = [
        pa.array(each("base_offset") + delta),
        pa.array(times).view(pa.timestamp("ms", tz="UTC")),
        pa.array(is_append.astype(np.int32)),
        pa.array(each("leader_epoch").astype(np.int32)),
        _slices(buffer, *keys),
        _slices(buffer, *values),
        headers,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _records(
    raw: bytes, data: Bytes, pieces: Sequence[tuple[Batch, bytes | memoryview]]
) -> tuple[Ints, Ints]:
    """Where each record begins, behind its length, and where it ends. ``data``: ``raw`` as an array."""
    found: list[int] = []
    # Each record's place depends on the one before it: the only loop over records, as short as it can be.
    add, following = found.append, 0
    for batch, body in pieces:
        at, following = following, following + len(body)
        try:
            for _ in range(batch.count):
                # Zigzag; most lengths are of one or two bytes.
                size = raw[at]
                at += 1
                if size > 0x7F:
                    second = raw[at]
                    at += 1
                    size += (second << 7) - 0x80
                    if second > 0x7F:
                        size, at = _long_length(raw, at, size & 0x3FFF)
                at += size >> 1
                add(at)
        except IndexError:
            at = following + 1
        if at > following:
            raise _damaged(batch, "a record is longer than the batch, or its length has no end")
        if at != following:
            raise _damaged(batch, f"{following - at} bytes behind its {batch.count} records")
    ends: Ints = np.array(found, np.int64)
    before: Ints = np.concatenate([np.zeros(min(len(ends), 1), np.int64), ends[:-1]])
    if len(ends) and (is_negative := (data[before] & 1).astype(np.bool_)).any():
        counts = np.cumsum([batch.count for batch, _ in pieces])
        place = int(np.searchsorted(counts, int(np.argmax(is_negative)), side="right"))
        raise _damaged(pieces[place][0], "a record has a negative length")
    starts = before + 1
    goes_on = data[before] > 0x7F
    while goes_on.any():
        goes_on[goes_on] = data[starts[goes_on]] > 0x7F
        starts += goes_on
    return starts + (data[before] > 0x7F), ends


def _long_length(raw: bytes, at: int, size: int) -> tuple[int, int]:
    """The rest of a length of three bytes or more, and the place behind it. Raises IndexError without an
    end."""
    for shift in (14, 21, 28):
        byte = raw[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, at
    raise IndexError


def _rising(delta: Ints, of: Ints, pieces: Sequence[tuple[Batch, object]]) -> Flags:
    """Whether a record's offset is one of its batch, behind the record before it."""
    last = np.array([batch.last_offset - batch.base_offset for batch, _ in pieces], np.int64)
    found: Flags = (delta >= 0) & (delta <= last[of])
    found[1:] &= (delta[1:] > delta[:-1]) | (of[1:] != of[:-1])
    return found


def _bytes(cursor: Cursor, rows: Ints | None = None) -> tuple[Ints, Ints]:
    """Where a length and as many bytes have them; the length is -1 for none."""
    lengths = cursor.varint(rows)
    starts = (cursor.at if rows is None else cursor.at[rows]).copy()
    cursor.skip(np.where(lengths == -1, 0, lengths), rows)
    return starts, lengths


def _headers(buffer: pa.Buffer, cursor: Cursor) -> pa.ListArray:
    """The headers of each record, of which many have the same: those are read once. Of no use if a record is
    bad."""
    # A bad row may be behind its end.
    at = np.where(cursor.is_bad, cursor.ends, cursor.at)
    encoded = _slices(buffer, at, cursor.ends - at).dictionary_encode()
    which: Ints = encoded.indices.to_numpy().astype(np.int64)
    # The last one that is set stays: the first record of each.
    firsts = np.zeros(len(encoded.dictionary), np.int64)
    firsts[which[::-1]] = np.arange(len(which))[::-1]
    each = Cursor(cursor.data, at[firsts], cursor.ends[firsts])
    counts = each.varint()
    # A header has two lengths at least: a lying count allocates nothing.
    each.is_bad |= (counts < 0) | (counts > (each.ends - each.at) // 2)
    counts[each.is_bad] = 0
    is_many = counts > MAX_HEADERS
    each.at[is_many], counts[is_many] = each.ends[is_many], 0
    found = _places(each, counts)
    cursor.is_bad |= (each.is_bad | (each.at != each.ends))[which]
    cursor.at = cursor.ends
    if cursor.is_bad.any():
        return pa.array([], SCHEMA.field("headers").type)
    lists = _header_lists(buffer, len(firsts), *found)
    if is_many.any():
        lists = pc.if_else(pa.array(is_many), None, lists)
    return lists.take(encoded.indices)


def _places(cursor: Cursor, counts: Ints) -> tuple[Ints, tuple[Ints, Ints], tuple[Ints, Ints]]:
    """How many headers each row has, of ``counts``; of all of them in their order keys and values."""
    first = np.cumsum(counts) - counts
    places = np.zeros((4, int(counts.sum())), np.int64)
    for number in range(min(int(counts.max(initial=0)), _MOST_ROUNDS)):
        rows = np.flatnonzero(counts > number)
        key_starts, key_lengths = _bytes(cursor, rows)
        cursor.is_bad[rows[key_lengths < 0]] = True
        places[:, first[rows] + number] = key_starts, key_lengths, *_bytes(cursor, rows)
    for row in np.flatnonzero((counts > _MOST_ROUNDS) & ~cursor.is_bad):
        _many_headers(cursor, int(row), places[:, first[row] + _MOST_ROUNDS : first[row] + counts[row]])
    return counts, (places[0], places[1]), (places[2], places[3])


def _many_headers(cursor: Cursor, row: int, places: NDArray[np.int64]) -> None:
    """The rest of one record's headers, one after the other, into ``places``."""
    view, at, end = memoryview(cursor.data.data), int(cursor.at[row]), int(cursor.ends[row])
    for number in range(places.shape[1]):
        for part, least in ((0, 0), (2, -1)):
            length, at = varint_at(view, at, end)
            if length < least or max(length, 0) > end - at:
                cursor.is_bad[row] = True
                return
            places[part : part + 2, number] = at, length
            at += max(length, 0)
    cursor.at[row] = at


def _header_lists(
    buffer: pa.Buffer, rows: int, counts: Ints, keys: tuple[Ints, Ints], values: tuple[Ints, Ints]
) -> pa.ListArray:
    fields = [_HEADER.field("key"), _HEADER.field("value")]
    headers = pa.StructArray.from_arrays([_slices(buffer, *keys), _slices(buffer, *values)], fields=fields)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), headers, type=SCHEMA.field("headers").type)


def _slices(buffer: pa.Buffer, starts: Ints, lengths: Ints) -> pa.BinaryArray:
    """Parts of ``buffer``, which rise; those of length -1 are null.

    Arrow's bytes of an array are one behind the other: here every second one is what lies between, and
    ``take`` copies the others.
    """
    if not len(starts):
        return pa.array([], pa.binary())
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2], bounds[1::2] = starts, starts + np.maximum(lengths, 0)
    all_of_it = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), buffer], null_count=0
    )
    return all_of_it.take(pa.array(np.arange(0, len(bounds) - 1, 2), mask=lengths < 0))


def _damaged(batch: Batch, what: str) -> DamagedBatch:
    return DamagedBatch(
        f"damaged record batch of offsets {batch.base_offset} to {batch.last_offset}: {what}. "
        "Fix: find its producer; the topic must be read from behind it"
    )
