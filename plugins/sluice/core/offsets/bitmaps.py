"""Sets of 64-bit integers of which memory depends on their range, not on their order or number: about a bit
for each integer between the first and the last, and less where they are consecutive or far apart.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from sluice.core.offsets.ranges import SHOWN, IntervalSet, Pair

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS = 32
_SIZE = 1 << _BITS
# As Python's integers.
_PAIRS_AT_ONCE = 10_000


class Bitmap:
    """A set of integers. A Roaring bitmap has 32 bits, so there is one for each value of the upper ones."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Mapping[int, BitMap] | None = None) -> None:
        self._parts: dict[int, BitMap] = {upper: part for upper, part in (parts or {}).items() if part}

    @classmethod
    def of(cls, ranges: Iterable[Pair]) -> Bitmap:
        found = cls()
        for start, until in ranges:
            found.add_range(start, until)
        return found

    @classmethod
    def of_values(cls, values: NDArray[np.int64]) -> Bitmap:
        """From integers in any order, repeats allowed."""
        found = cls()
        is_sorted = bool((values[1:] >= values[:-1]).all())
        for upper, lower in _divided(values if is_sorted else np.sort(values)):
            found._parts[upper] = BitMap(lower)
        return found

    def add_range(self, start: int, until: int) -> None:
        """Add ``[start, until)``."""
        while start < until:
            upper = start >> _BITS
            end = min(until, (upper + 1) << _BITS)
            base = upper << _BITS
            self._parts.setdefault(upper, BitMap()).add_range(start - base, end - base)
            start = end

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts.values()))

    def __contains__(self, value: int) -> bool:
        part = self._parts.get(value >> _BITS)
        return part is not None and (value & (_SIZE - 1)) in part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bitmap) and self._parts == other._parts

    __hash__ = None  # type: ignore[assignment]

    def __ior__(self, other: Bitmap) -> Bitmap:
        for upper, part in other._parts.items():
            if upper in self._parts:
                self._parts[upper] |= part
            else:
                # Not shared: this one is altered later.
                self._parts[upper] = part.copy()
        return self

    def __or__(self, other: Bitmap) -> Bitmap:
        found = Bitmap({upper: part.copy() for upper, part in self._parts.items()})
        found |= other
        return found

    def __and__(self, other: Bitmap) -> Bitmap:
        shared = self._parts.keys() & other._parts.keys()
        return Bitmap({upper: self._parts[upper] & other._parts[upper] for upper in shared})

    def within(self, start: int, until: int) -> Bitmap:
        """Those in ``[start, until)``."""
        return self & Bitmap.of([(start, until)])

    def count_within(self, start: int, until: int) -> int:
        """Number of those in ``[start, until)``."""
        found = 0
        for upper, part in self._parts.items():
            base = upper << _BITS
            if start < base + _SIZE and until > base:
                found += part.range_cardinality(max(start - base, 0), min(until - base, _SIZE))
        return found

    def __sub__(self, other: Bitmap) -> Bitmap:
        nothing = BitMap()
        return Bitmap({upper: part - other._parts.get(upper, nothing) for upper, part in self._parts.items()})

    def compact(self) -> None:
        """Take less memory for consecutive integers that were added in pieces."""
        for part in self._parts.values():
            part.run_optimize()

    def bounds(self) -> Pair | None:
        """The first one, and the one behind the last; None if it is empty."""
        if not self._parts:
            return None
        first, last = min(self._parts), max(self._parts)
        return (first << _BITS) + self._parts[first].min(), (last << _BITS) + self._parts[last].max() + 1

    def holds(self, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the values are in it, in any order."""
        found = np.zeros(len(values), np.bool_)
        uppers = values >> _BITS
        for upper in np.unique(uppers).tolist():
            if part := self._parts.get(upper):
                here = np.flatnonzero(uppers == upper)
                lower = (values[here] & (_SIZE - 1)).astype(np.uint32)
                both = part & BitMap(_array(np.unique(lower)))
                found[here] = np.isin(lower, _numbers(both))
        return found

    def ranges(self) -> IntervalSet:
        """It as ranges. Takes memory for each range."""
        return IntervalSet.of(self.pairs())

    def shown(self, limit: int = SHOWN) -> str:
        """Its ranges as a text, or of a longer one than ``limit`` characters the first, and how many more
        there are. Takes memory for bits, not for each range."""
        texts, length = list[str](), 0
        for upper, part in sorted(self._parts.items()):
            base = upper << _BITS
            # Not by pairs, which hold an array of all.
            for start, last in zip(part - part.shift(1), part - part.shift(-1), strict=True):
                text = f"[{base + start},{base + last + 1})"
                length += len(text) + 1
                if texts and length > limit:
                    return f"{','.join(texts)} … ({self.range_count() - len(texts)} ranges more)"
                texts.append(text)
        return ",".join(texts) or "(empty)"

    def range_count(self) -> int:
        """Number of its :meth:`pairs`."""
        return sum(len(part - part.shift(1)) for part in self._parts.values())

    def pairs(self) -> Iterator[Pair]:
        """Its ranges in their order. One that goes on in other upper bits comes in two."""
        for upper, part in sorted(self._parts.items()):
            base = upper << _BITS
            # Those without a neighbour before, and behind. A shift leaves out what is beyond 32 bits.
            starts, lasts = _numbers(part - part.shift(1)), _numbers(part - part.shift(-1))
            for begin in range(0, len(starts), _PAIRS_AT_ONCE):
                some = slice(begin, begin + _PAIRS_AT_ONCE)
                for start, last in zip(starts[some].tolist(), lasts[some].tolist(), strict=True):
                    yield base + start, base + last + 1

    def to_parts(self) -> dict[int, bytes]:
        """Upper bits -> the bitmap in the portable format of Roaring bitmaps; for :meth:`from_parts`."""
        found = {}
        for upper, part in self._parts.items():
            small = part.copy()
            small.run_optimize()
            found[upper] = small.serialize()
        return found

    @classmethod
    def from_parts(cls, parts: Mapping[int, bytes]) -> Bitmap:
        """Raises ValueError for other bytes."""
        return cls({upper: BitMap.deserialize(part) for upper, part in parts.items()})


def _divided(ordered: NDArray[np.int64]) -> Iterator[tuple[int, array[int]]]:
    """The upper bits of the sorted values, with the lower ones of these."""
    if not len(ordered):
        return
    first, last = int(ordered[0]) >> _BITS, int(ordered[-1]) >> _BITS
    begin = 0
    while first <= last:
        # The values jump where the next ones are in another part.
        end = int(np.searchsorted(ordered, (first + 1) << _BITS)) if first < last else len(ordered)
        yield first, _array((ordered[begin:end] & (_SIZE - 1)).astype(np.uint32))
        begin, first = end, int(ordered[end]) >> _BITS if end < len(ordered) else last + 1


def _array(values: NDArray[np.uint32]) -> array[int]:
    """What BitMap reads at once; of a NumPy array it asks for each value."""
    found = array("I")
    found.frombytes(values.tobytes())
    return found


def _numbers(part: BitMap) -> NDArray[np.uint32]:
    return np.frombuffer(part.to_array(), np.uint32) if part else np.empty(0, np.uint32)
