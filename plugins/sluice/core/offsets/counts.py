"""Count integers that come record batch by record batch: which are there, and which more than once.

Offsets by partition, or rows by source. Memory is about two bits for each integer of a range, whatever their
order: the files of a table that is partitioned by a column hold scattered offsets.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from sluice.core.json_record import Document
from sluice.core.offsets.bitmaps import Bitmap
from sluice.core.offsets.offset_set import OffsetSet
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Key = TypeVar("Key", int, str)
# After so many more values a bitmap is compacted: by then most gaps are closed.
COMPACT_EACH = 1_000_000


@dataclass
class Counted:
    """Integers that were counted: ``present``: those that are there; ``repeated``: of these the ones that are
    there more than once; ``values``: number of all, with repeats."""

    present: Bitmap = field(default_factory=Bitmap)
    repeated: Bitmap = field(default_factory=Bitmap)
    values: int = 0
    _compact_at: int = field(default=0, compare=False, repr=False)

    def add(self, values: ArrayLike) -> None:
        """Count ``values``, in any order. Raises TypeError for other numbers than integers, as an array with
        nulls has."""
        numbers = np.asarray(values)
        if not len(numbers):
            return
        if not np.issubdtype(numbers.dtype, np.integer):
            raise TypeError(f"values of type {numbers.dtype}: one of them is null, or no integer")
        numbers = numbers.astype(np.int64, casting="safe", copy=False)
        self.values += len(numbers)
        come = Bitmap.of_values(numbers)
        if len(come) < len(numbers):
            ordered = np.sort(numbers)
            self.repeated |= Bitmap.of_values(ordered[1:][ordered[1:] == ordered[:-1]])
        self._join(come)

    def add_ranges(self, ranges: IntervalSet) -> None:
        """Count each integer of the ranges once."""
        self.add_once(Bitmap.of(ranges))

    def add_once(self, integers: Bitmap) -> None:
        """Count each of these once."""
        self.values += len(integers)
        self._join(integers)

    def add_counted(self, other: Counted) -> None:
        """Count those of ``other`` too."""
        self.values += other.values
        self.repeated |= other.repeated
        self._join(other.present)

    def _join(self, come: Bitmap) -> None:
        if again := self.present & come:
            self.repeated |= again
        self.present |= come
        if self.values >= self._compact_at:
            self.present.compact()
            self._compact_at = self.values + COMPACT_EACH


class Counts(Generic[Key]):
    """Counted integers of each key."""

    def __init__(self) -> None:
        self._of: dict[Key, Counted] = {}

    def __getitem__(self, key: Key) -> Counted:
        """Not to be altered: of a key without integers it is none of these."""
        return self._of.get(key) or Counted()

    def at(self, key: Key) -> Counted:
        """To count those of this key."""
        return self._of.setdefault(key, Counted())

    def __iter__(self) -> Iterator[Key]:
        return iter(sorted(self._of))

    def __bool__(self) -> bool:
        return any(one.values for one in self._of.values())

    @property
    def values(self) -> int:
        """Number of all, with repeats."""
        return sum(one.values for one in self._of.values())

    def add_grouped(self, codes: NDArray[np.integer], keys: Sequence[Key], values: NDArray[np.int64]) -> None:
        """Count ``values``, of which each has the key with the number that ``codes`` has at its place."""
        if len(keys) == 1:
            self.at(keys[0]).add(values)
            return
        # NumPy sorts 16 bits by radix, in a quarter of the time.
        small = codes.astype(np.int16) if len(keys) < 1 << 15 else codes
        order = np.argsort(small, kind="stable")
        begins = np.searchsorted(small[order], np.arange(1, len(keys)))
        for key, part in zip(keys, np.split(values[order], begins), strict=True):
            if len(part):
                self.at(key).add(part)

    def add_counts(self, other: Counts[Key]) -> None:
        for key in other:
            self.at(key).add_counted(other[key])


def add_offsets(counts: Counts[int], offsets: OffsetSet) -> None:
    """Count each of the offsets once."""
    for partition, bitmap in offsets.partitions.items():
        counts.at(partition).add_once(bitmap)


def present_offsets(counts: Counts[int]) -> OffsetRanges:
    """The offsets that are there."""
    return OffsetSet({key: counts[key].present for key in counts}).ranges()


def repeated_offsets(counts: Counts[int]) -> OffsetRanges:
    """The offsets that are there more than once."""
    return OffsetSet({key: counts[key].repeated for key in counts}).ranges()


def counts_to_json(counts: Counts[int]) -> Document:
    """Partition -> number of values, and both bitmaps by their upper bits."""
    return {
        str(key): {
            "values": counts[key].values,
            "present": _to_text(counts[key].present),
            "repeated": _to_text(counts[key].repeated),
        }
        for key in counts
    }


def counts_from_json(document: Document) -> Counts[int]:
    """Raises KeyError or ValueError for another document."""
    found = Counts[int]()
    for key, one in document.items():
        parts = Counted(_from_text(one["present"]), _from_text(one["repeated"]), int(one["values"]))
        found.at(int(key)).add_counted(parts)
    return found


def _to_text(bitmap: Bitmap) -> dict[str, str]:
    return {str(upper): b64encode(part).decode() for upper, part in bitmap.to_parts().items()}


def _from_text(parts: Mapping[str, str]) -> Bitmap:
    return Bitmap.from_parts({int(upper): b64decode(part) for upper, part in parts.items()})
