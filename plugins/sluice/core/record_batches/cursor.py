"""A position in the bytes of each of many records, all moved at once by NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

# A variable-length integer of 64 bits: 7 bits to a byte, the last one has its high bit unset.
_MOST_BYTES = 10


def varint_at(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """The zigzag-encoded integer at ``at``, and the position behind it; (-2, ``end``) if it has no end."""
    value = 0
    for number in range(_MOST_BYTES):
        if at >= end:
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    return -2, end


class Cursor:
    """A position per row within ``data``, which ends with at least one byte behind the last ``ends``.

    A row that would move behind its end, or whose number has no end, is marked in ``is_bad`` and stays where
    it is: its values are then of no use, and no other row sees them.
    """

    def __init__(self, data: Bytes, at: Ints, ends: Ints) -> None:
        self.data, self.at, self.ends = data, at.copy(), ends
        self.is_bad: Flags = np.zeros(len(at), np.bool_)

    def varint(self, rows: Ints | None = None) -> Ints:
        """The zigzag-encoded integer at the positions, of all rows or of these, which move behind it."""
        at = self.at if rows is None else self.at[rows]
        ends = self.ends if rows is None else self.ends[rows]
        value = np.zeros(len(at), np.uint64)
        # Rows whose number goes on; most end with their first byte.
        more: Ints | slice = slice(None)
        bad: list[Ints] = []
        going = np.arange(0)
        for number in range(_MOST_BYTES):
            here = at[more]
            byte = self.data[np.minimum(here, len(self.data) - 1)]
            is_out = here >= ends[more]
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * number)
            at[more] = here + 1
            goes_on = (byte > 0x7F) & ~is_out
            index = np.arange(len(at)) if isinstance(more, slice) else more
            if is_out.any():
                bad.append(index[is_out])
            going = index[goes_on]
            if not len(going):
                break
            more = going
        if len(going):
            bad.append(going)
        self._moved(at, rows, bad)
        # Zigzag: 0, -1, 1, -2, … are 0, 1, 2, 3, …
        signed: Ints = (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)
        return signed

    def skip(self, lengths: Ints | int, rows: Ints | None = None) -> None:
        """Move by ``lengths``; a negative one is bad."""
        at = self.at if rows is None else self.at[rows]
        ends = self.ends if rows is None else self.ends[rows]
        # In this order nothing overflows.
        is_out = (lengths > ends - at) | (np.asarray(lengths) < 0)
        moved = np.where(is_out, at, at + lengths)
        self._moved(moved, rows, [np.flatnonzero(is_out)] if is_out.any() else [])

    def _moved(self, at: Ints, rows: Ints | None, bad: list[Ints]) -> None:
        if rows is None:
            self.at = at
        else:
            self.at[rows] = at
        for found in bad:
            self.is_bad[found if rows is None else rows[found]] = True
