"""Positions in the bodies of many records, all moved at once by NumPy.

A position may pass the end of its record by numbers alone: the bytes have a margin for it, and a record that
does not end where its body does is odd. Texts, bytes and counts that reach beyond the record are odd at once:
they are never read, and a lying count allocates nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluice.core.record_batches.cursor import Bytes, Flags, Ints

Rows = Ints | slice
_U = np.uint64
# A position is looked at with a word of 8 bytes, and the two behind it.
_WORD, SPARE = 8, 16
# What is read of a portion takes many times its bytes, if its values are of a few bits.
MAX_PORTION = 4 << 20


class Bodies:
    """The bodies of a piece, with the margin of their reader and SPARE bytes behind the last one.

    ``ends``: of each record, within ``data``. ``is_odd``: which records are not for NumPy; what was read of
    them is of no use.
    """

    def __init__(self, data: Bytes, ends: Ints) -> None:
        self.data, self.ends = data, ends
        self.is_odd: Flags = np.zeros(len(ends), np.bool_)
        # Rounds of reading items that were for few instances; the caller sets it to 0 for each portion.
        self.rounds_for_few = 0
        self._words: dict[str, NDArray[Any]] = {}

    def words(self, dtype: str) -> NDArray[Any]:
        """A number at each byte, not aligned; ``dtype`` as NumPy has it, of at most a word."""
        if dtype not in self._words:
            first = self.data[: np.dtype(dtype).itemsize].view(dtype)
            count = len(self.data) - _WORD
            self._words[dtype] = np.lib.stride_tricks.as_strided(first, shape=(count,), strides=(1,))
        return self._words[dtype]

    def mark(self, rows: Rows, odd: Flags) -> None:
        """``odd``: of each instance, whether its record is."""
        if not odd.any():
            return
        if isinstance(rows, slice):
            self.is_odd[rows] |= odd
        else:
            self.is_odd[rows[odd]] = True

    def varints(self, rows: Rows, at: Ints) -> tuple[Ints, Ints]:
        """The zigzag-encoded integers at the positions, and the positions behind them. One that is longer
        than it must be, or than 64 bits, is odd."""
        first = self.data.take(at)
        if not (first > 0x7F).any():
            one: Ints = first.astype(np.int64)
            return (one >> 1) ^ -(one & 1), at + 1
        word = self.words("<u8")[at]
        stops = ~word & _U(0x8080808080808080)
        # The lowest of them is the high bit of the last byte; 0 if that is none of the word's.
        last = stops & -stops
        seen = last | (last - _U(1))
        length = np.bitwise_count(seen).astype(np.int64) >> 3
        word &= seen & _U(0x7F7F7F7F7F7F7F7F)
        odd = (word < (last >> _U(7))) & (length > 1)
        value = _joined(word)
        goes_on = np.flatnonzero(last == 0)
        if len(goes_on):
            odd[goes_on] = self._long(value, length, at, goes_on)
        self.mark(rows, odd)
        signed: Ints = (value >> _U(1)).view(np.int64) ^ -(value & _U(1)).view(np.int64)
        return signed, at + length

    def _long(self, value: NDArray[np.uint64], length: Ints, at: Ints, which: Ints) -> Flags:
        """Add the ninth and tenth bytes to values; whether they are odd."""
        ninth, tenth = (self.data[at[which] + n].astype(np.uint64) for n in (8, 9))
        has_tenth = ninth > 0x7F
        value[which] |= (ninth & _U(0x7F)) << _U(56) | np.where(has_tenth, tenth, _U(0)) << _U(63)
        length[which] = 9 + has_tenth
        odd: Flags = np.where(has_tenth, tenth != 1, ninth == 0)
        return odd

    def sizes(self, rows: Rows, at: Ints) -> tuple[Ints, Ints]:
        """Lengths of texts or bytes, and the positions behind these numbers. A length that is not within the
        record is odd, and then 0."""
        lengths, at = self.varints(rows, at)
        out = (lengths < 0) | (lengths > self.ends[rows] - at)
        if out.any():
            self.mark(rows, out)
            lengths[out] = 0
        return lengths, at


def portions(sizes: Ints, most: int) -> Iterator[slice]:
    """Records in their order, ``most`` at once, and fewer if they are large: a portion of them has at most
    MAX_PORTION bytes unless it is one record."""
    behind = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        limit = int(behind[first] - sizes[first]) + MAX_PORTION
        last = min(first + most, int(np.searchsorted(behind, limit, "right")))
        yield slice(first, max(last, first + 1))
        first = max(last, first + 1)


def selected(rows: Rows, which: Ints) -> Ints:
    """The records of some of the instances."""
    return which + rows.start if isinstance(rows, slice) else rows[which]


def _joined(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The 7 bits of each byte, one behind the other."""
    word = (word & _U(0x007F007F007F007F)) | (word & _U(0x7F007F007F007F00)) >> _U(1)
    if not len(word) or int(word.max()) < 1 << 16:
        return word
    word = (word & _U(0x00003FFF00003FFF)) | (word & _U(0x3FFF00003FFF0000)) >> _U(2)
    return (word & _U(0x000000000FFFFFFF)) | (word & _U(0x0FFFFFFF00000000)) >> _U(4)
