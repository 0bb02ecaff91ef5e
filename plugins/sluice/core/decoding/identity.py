"""The identity of Sluice's own records, from their keys, all keys of a piece at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluice.core.decoding.arrays import bytes_of
from sluice.core.offsets.sources import WITHHELD_MARK
from sluice.core.record_batches.cursor import Bytes, Flags, Ints
from sluice.core.tables.records import IDENTITY

Words = NDArray[np.uint64]

# KEY_PATTERN (core.offsets.sources) in numbers: digits of a source id, most digits of a number, and with the
# mark behind the id and the colon between the numbers the fewest and most bytes of a key.
_ID, _MAX_DIGITS = 16, 18
_MIN_KEY, _MAX_KEY = _ID + 4, _ID + 2 + 2 * _MAX_DIGITS
_COLON, _MARK = ord(":"), ord(WITHHELD_MARK)
_IS_HEX = np.isin(np.arange(256), list(b"0123456789abcdef"))
# Bytes that are looked at together; as many may lie behind the last key.
_WORD = 8
# Keys at once, so that what is computed of them stays in the processor's cache.
_BLOCK = 16_384
# For all bytes of a word: "0" to 0, and 10 or more to 128 or more. NumPy computes with unsigned numbers of 64
# bits only among themselves.
_EACH = 0x0101010101010101
_ZEROS, _TO_HIGH, _HIGH = (np.uint64(_EACH * byte) for byte in (ord("0"), 128 - 10, 128))
_ONE = np.uint64(1)
_JOINS = tuple(
    (np.uint64(10 ** (bits // 8)), np.uint64(bits), np.uint64(mask))
    for bits, mask in ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF))
)
_TENS = np.array([10**digits for digits in range(_WORD + 1)], np.int64)


@dataclass(frozen=True)
class Identity:
    """The source of each key: ``source_ids`` (a dictionary of texts), ``rows``, the 0-based row in it, and
    ``sequences``; null where the key is external. ``withheld``: sent to be withheld, never null."""

    source_ids: pa.DictionaryArray
    rows: pa.Int64Array
    sequences: pa.Int64Array
    withheld: pa.BooleanArray

    def columns(self, offsets: pa.Int64Array) -> dict[str, pa.Array]:
        """As tables have them, of records at these offsets. The base offset is the offset minus the sequence:
        constant while one producer writes a partition alone, so that a file's bounds alone show that no row
        is there twice."""
        base = pc.subtract(offsets, self.sequences)
        return dict(zip(IDENTITY, (self.source_ids, self.rows, base), strict=True))


def identity(keys: pa.BinaryArray) -> Identity:
    """Read keys. One that does not match KEY_PATTERN, null too, is an external record's."""
    data, bounds = bytes_of(keys)
    starts, ends = bounds[:-1], bounds[1:]
    lengths = ends - starts
    likely = np.flatnonzero((lengths >= _MIN_KEY) & (lengths <= _MAX_KEY))
    if keys.null_count:
        likely = likely[keys.is_valid().to_numpy(zero_copy_only=False)[likely]]
    marks = data[starts[likely] + _ID]
    likely = likely[(marks == _COLON) | (marks == _MARK)]

    codes = np.full(len(keys), -1, np.int32)
    rows, sequences = np.zeros((2, len(keys)), np.int64)
    withheld = np.zeros(len(keys), np.bool_)
    ids = pa.array([], pa.string())
    if len(likely):
        begin = int(starts[likely[0]])
        data = np.concatenate((data[begin : ends[likely[-1]]], np.zeros(_WORD, np.uint8)))
        words: Words = np.ndarray(len(data) - _WORD + 1, "<u8", data, strides=(1,))
        likely_codes, ids = _sources(words, starts[likely] - begin)
        for first in range(0, len(likely), _BLOCK):
            block = slice(first, first + _BLOCK)
            of = likely[block]
            at = starts[of] + (_ID - begin)
            is_own, rows[of], sequences[of] = _numbers(data, words, at + 1, ends[of] - begin)
            is_own &= likely_codes[block] >= 0
            codes[of] = np.where(is_own, likely_codes[block], -1)
            withheld[of] = is_own & (data[at] == _MARK)
    is_external = codes < 0
    return Identity(
        pa.DictionaryArray.from_arrays(pa.array(codes, mask=is_external), ids),
        pa.array(rows, mask=is_external),
        pa.array(sequences, mask=is_external),
        pa.array(withheld),
    )


def _sources(words: Words, at: Ints) -> tuple[NDArray[np.int32], pa.StringArray]:
    """A number for each source id at the positions, -1 for what is none, and the ids by their numbers."""
    halves = words[at], words[at + _WORD]
    # Many keys of one producer follow one another.
    is_first = np.ones(len(at), np.bool_)
    is_first[1:] = (halves[0][1:] != halves[0][:-1]) | (halves[1][1:] != halves[1][:-1])
    firsts = np.flatnonzero(is_first)
    heads = pa.py_buffer(np.stack([half[firsts] for half in halves], axis=1))
    runs = pa.Array.from_buffers(pa.binary(_ID), len(firsts), [None, heads]).dictionary_encode()
    texts = np.frombuffer(runs.dictionary.buffers()[1], np.uint8, _ID * len(runs.dictionary))
    is_id = _IS_HEX[texts.reshape(-1, _ID)].all(axis=1)
    numbers = np.where(is_id, np.cumsum(is_id) - 1, -1).astype(np.int32)
    codes = np.repeat(numbers[runs.indices.to_numpy()], np.diff(np.append(firsts, len(at))))
    return codes, runs.dictionary.filter(pa.array(is_id)).cast(pa.binary()).cast(pa.string())


def _numbers(data: Bytes, words: Words, at: Ints, ends: Ints) -> tuple[Flags, Ints, Ints]:
    """Whether a key has two numbers at ``at``, with a colon between them and nothing behind, and which."""
    row, colon = _number(words, at, ends)
    is_own: Flags = (colon > at) & (colon - at <= _MAX_DIGITS) & (data[colon] == _COLON)
    second = np.minimum(colon + 1, ends)
    sequence, behind = _number(words, second, ends)
    is_own &= (behind > second) & (behind - second <= _MAX_DIGITS) & (behind == ends)
    return is_own, row, sequence


def _number(words: Words, at: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The decimal number at each position, and where its digits end. If they are too many: no number."""
    value, counts = _digits(words, at, ends)
    behind = at + counts
    rows = np.flatnonzero(counts == _WORD)
    for _ in range(_MAX_DIGITS // _WORD):
        if len(rows):
            more, counts = _digits(words, behind[rows], ends[rows])
            value[rows] = value[rows] * _TENS[counts] + more
            behind[rows] += counts
            rows = rows[counts == _WORD]
    return value, behind


def _digits(words: Words, at: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The number that up to 8 digits are, and how many: all bytes of a word at once, the first the lowest."""
    digits = words[at] ^ _ZEROS
    # The high bit of a byte that is no digit; also of some behind it.
    others = ((digits + _TO_HIGH) | digits) & _HIGH
    # Below the lowest of these bits there are 7 and 8 for each digit; without any, all 64.
    counts = (np.bitwise_count((others & (~others + _ONE)) - _ONE) >> 3).astype(np.int64)
    np.minimum(counts, ends - at, out=counts)
    # What is no digit goes out at the top; zeros come in before the first digit.
    digits = digits << ((_WORD - counts) * 8).astype(np.uint64)
    # Neighbours together: two digits, then four, then eight.
    for tens, bits, mask in _JOINS:
        digits = (digits * tens + (digits >> bits)) & mask
    return digits.astype(np.int64), counts
