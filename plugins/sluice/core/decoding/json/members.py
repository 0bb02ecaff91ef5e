"""Where the members of many objects are: all bytes of their texts at once, eight of them to a word.

How often something came so far is a sum over the bytes before: a product with ``_ONES`` has the sums within a
word, and what the words before have is added to each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluice.core.decoding.json.parts import Flags

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Places = NDArray[np.int64]

_U = np.uint64
_WORD = 8
_ONES = _U(0x0101010101010101)
_QUOTE, _OPEN, _CLOSE, _COMMA, _COLON, _BACKSLASH = (1 << bit for bit in range(6))
_KINDS = {
    b'"': _QUOTE,
    b"\\": _BACKSLASH,
    b",": _COMMA,
    b":": _COLON,
    **dict.fromkeys((b"{", b"["), _OPEN),
    **dict.fromkeys((b"}", b"]"), _CLOSE),
}
_TABLE = bytes(_KINDS.get(bytes([byte]), 0) for byte in range(256))
# Depth in a byte, of a word's first byte to its last one: what each has too much by _ONES, less than _WORD.
_BIAS = int.from_bytes(bytes(reversed(range(_WORD))), "little")
# The depth is one of a byte: what is deeper than this is not told from what is less deep.
_MAX_DEPTH = 250
# The first bytes of a word.
_FIRST = np.array([(1 << 8 * count) - 1 for count in range(_WORD + 1)], _U)
_IS_SPACE = np.isin(np.arange(256), list(b" \t\r\n"))
# White space before a key or a colon, in bytes; more is for the reference, since each is a round for all.
_MAX_SPACES = 32
# Behind the texts, which are read beyond by a word, or as much white space.
_SPARE = max(_WORD, _MAX_SPACES)


@dataclass(frozen=True)
class Members:
    """Places of members in ``data``, which is the texts, and zeros behind them.

    ``rows``: which object each member is in; ``starts``: the first quote of its key, ``behind``: the second;
    ``ends``: behind the value, and white space; ``is_odd``: which rows are not told here: what the others say
    of them is of no use.
    """

    rows: Places
    starts: Places
    behind: Places
    ends: Places
    data: Bytes
    is_odd: Flags

    def are_named(self, names: pa.StringArray) -> Flags:
        """Which members have one of the names, which have no escapes."""
        known = [name.as_py().encode() for name in names]
        count = -(-max(map(len, known)) // _WORD)
        # A name without escapes has no zero: with some behind it, it is one of its width.
        wide = pa.array([name.ljust(count * _WORD, b"\0") for name in known], pa.binary(count * _WORD))
        lengths = self.behind - self.starts - 1
        found = np.empty((len(lengths), count), _U)
        words = np.lib.stride_tricks.as_strided(
            self.data[:_WORD].view(_U), shape=(len(self.data) - _WORD + 1,), strides=(1,)
        )
        for number in range(count):
            at = np.minimum(self.starts + (1 + number * _WORD), len(words) - 1)
            found[:, number] = words[at] & _FIRST[np.clip(lengths - number * _WORD, 0, _WORD)]
        array = pa.Array.from_buffers(wide.type, len(found), [None, pa.py_buffer(found)])
        are_in: Flags = pc.is_in(array, value_set=wide).to_numpy(zero_copy_only=False)
        return are_in & (lengths <= count * _WORD)


def members(data: Bytes, bounds: Places) -> Members | None:
    """Find the members of objects, which are valid and have one each: object ``n`` is from bound ``n`` up to
    bound ``n + 1``, the first from 0, and no byte is between. None if one is not valid."""
    size = -(-len(data) // _WORD) * _WORD
    padded = np.zeros(size + _SPARE, np.uint8)
    padded[: len(data)] = data
    kinds = np.frombuffer(bytearray(padded[:size].tobytes().translate(_TABLE)), np.uint8)
    backslashes = np.flatnonzero(kinds == _BACKSLASH)
    if len(backslashes):
        kinds[_escaped(backslashes)] = 0
    depth = _depth(kinds.view(_U))
    if depth[bounds[1:] - 1].any():
        return None
    at = np.flatnonzero((depth == 1) & ((kinds == _COMMA) | (kinds == _COLON)))
    is_colon = kinds[at] == _COLON
    colons = np.flatnonzero(is_colon)
    # A colon behind another one begins the members of the next object.
    is_first = np.append(True, is_colon[:-1])[colons]
    is_last = np.append(is_colon[1:], True)[colons]
    rows = np.cumsum(is_first) - 1
    places = at[colons]
    if np.count_nonzero(is_first) != len(bounds) - 1 or not _are_within(places, rows, bounds):
        return None
    starts = np.where(is_first, bounds[rows], at[colons - 1]) + 1
    ends = np.where(is_last, bounds[rows + 1] - 1, at[np.minimum(colons + 1, len(at) - 1)])
    is_odd: Flags = np.zeros(len(bounds) - 1, np.bool_)
    if int(depth.max()) > _MAX_DEPTH:
        is_odd[np.searchsorted(bounds, np.flatnonzero(depth > _MAX_DEPTH), side="right") - 1] = True
    behind = places - 1
    for each, step in ((starts, 1), (behind, -1)):
        far = _to_quotes(padded, each, step)
        is_odd[rows[far]] = True
    if len(backslashes):
        # One is in a key if it is before the colon of its member.
        member = np.maximum(np.searchsorted(starts, backslashes, side="right") - 1, 0)
        is_odd[rows[member[backslashes < places[member]]]] = True
    return Members(rows, starts, behind, ends, padded, is_odd)


def is_space(data: Bytes) -> Flags:
    """Which bytes are white space."""
    found: Flags = _IS_SPACE[data]
    return found


def _are_within(places: Places, rows: Places, bounds: Places) -> bool:
    return bool(((bounds[rows] < places) & (places < bounds[rows + 1])).all())


def _to_quotes(data: Bytes, places: Places, step: int) -> Places:
    """Move places that are at white space to the next quote; which of them are not at one in the end."""
    left = np.flatnonzero(data[places] != ord('"'))
    for _ in range(_MAX_SPACES):
        if not len(left):
            break
        places[left] += step
        left = left[data[places[left]] != ord('"')]
    return left


def _depth(kinds: Words) -> Bytes:
    """How many brackets are open behind each byte, and clear the kinds of what is within texts."""
    quotes = (kinds & _ONES) * _ONES
    counts = quotes >> _U(56)
    before = np.cumsum(counts) - counts
    within = (quotes & _ONES) ^ ((before & _U(1)) * _ONES)
    kinds &= ~(within * _U(0xFF))
    steps = (kinds >> _U(1) & _ONES) + _ONES - (kinds >> _U(2) & _ONES)
    steps *= _ONES
    # Modulo 2^64, as the depth is modulo 2^8.
    counts = (steps >> _U(56)) - _U(_WORD)
    before = np.cumsum(counts) - counts - _U(_WORD)
    steps += _U(_BIAS)
    depth: Bytes = steps.view(np.uint8)
    depth += ((before & _U(0xFF)) * _ONES).view(np.uint8)
    return depth


def _escaped(backslashes: Places) -> Places:
    """The places of what backslashes escape: of some in a row the first escapes the second."""
    begins = np.append(True, np.diff(backslashes) != 1)
    first = np.maximum.accumulate(np.where(begins, np.arange(len(backslashes)), 0))
    escapes = (np.arange(len(backslashes)) - first) % 2 == 0
    return backslashes[escapes] + 1
