"""Decimals as Avro has them, big-endian in two's complement, into Arrow's 128 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluice.core.record_batches.cursor import Bytes, Flags, Ints

_BYTES = 16
_U = np.uint64


def numbers(data: Bytes, starts: Ints, lengths: Ints, digits: int) -> tuple[NDArray[Any], Flags]:
    """The numbers, a row of low and high word to each, and which ones are odd: of no byte, of more than 16,
    or with more ``digits`` than that."""
    odd: Flags = (lengths < 1) | (lengths > _BYTES)
    lengths = np.where(odd, 1, lengths)
    last = starts + lengths - 1
    fill = np.where(data[starts] > 0x7F, 0xFF, 0).astype(np.uint8)
    words = np.zeros((len(starts), 2), np.uint64)
    for place in range(_BYTES):
        is_there = place < lengths
        byte = np.where(is_there, data[np.where(is_there, last - place, 0)], fill)
        words[:, place // 8] |= byte.astype(np.uint64) << _U(8 * (place % 8))
    odd |= ~(_is_less(words, 10**digits) & ~_is_less(words, 1 - 10**digits))
    return words, odd


def _is_less(words: NDArray[Any], bound: int) -> Flags:
    low, high = np.uint64(bound & ((1 << 64) - 1)), np.int64(bound >> 64)
    highs = words[:, 1].view(np.int64)
    found: Flags = (highs < high) | ((highs == high) & (words[:, 0] < low))
    return found
