"""Offsets of one topic in memory that depends on their range, not on the number of holes between them.

An :class:`~sluice.core.offsets.ranges.OffsetRanges` takes 120 bytes for each range, which a topic with a
marker after each record has as many of as records. This takes a bit for each offset at most.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from sluice.core.json_record import Document
from sluice.core.offsets.ranges import SHOWN, OffsetRanges, Pair, cut

if TYPE_CHECKING:
    from sluice.core.offsets.bitmaps import Bitmap

# Ranges up to which a stored set is their text, which every version reads.
MAX_RANGES_AS_TEXT = 250_000
# Ranges of a set in a task's log, and of a part of it that becomes OffsetRanges.
MAX_RANGES_SAID = 20_000


class OffsetSet:
    """Without partitions that have none. Not to be altered: sets share their bitmaps."""

    __slots__ = ("partitions",)

    def __init__(self, partitions: Mapping[int, Bitmap] | None = None) -> None:
        found = partitions or {}
        self.partitions: Mapping[int, Bitmap] = {key: found[key] for key in sorted(found) if found[key]}

    @classmethod
    def of(cls, ranges: OffsetRanges) -> OffsetSet:
        # Not at the top: the DAG processor imports this module.
        from sluice.core.offsets.bitmaps import Bitmap

        return cls({partition: Bitmap.of(pairs) for partition, pairs in ranges.partitions.items()})

    def __getitem__(self, partition: int) -> Bitmap:
        from sluice.core.offsets.bitmaps import Bitmap

        return self.partitions.get(partition) or Bitmap()

    def __bool__(self) -> bool:
        return bool(self.partitions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetSet) and self.partitions == other.partitions

    __hash__ = None  # type: ignore[assignment]

    @property
    def count(self) -> int:
        return sum(map(len, self.partitions.values()))

    def union(self, other: OffsetSet) -> OffsetSet:
        return self._merge(other, lambda mine, theirs: mine | theirs)

    def minus(self, other: OffsetSet) -> OffsetSet:
        return self._merge(other, lambda mine, theirs: mine - theirs)

    def intersect(self, other: OffsetSet) -> OffsetSet:
        return self._merge(other, lambda mine, theirs: mine & theirs)

    def _merge(self, other: OffsetSet, operation: Callable[[Bitmap, Bitmap], Bitmap]) -> OffsetSet:
        keys = self.partitions.keys() | other.partitions.keys()
        return OffsetSet({key: operation(self[key], other[key]) for key in keys})

    def pieces(self, most: int = MAX_RANGES_SAID) -> Iterator[OffsetRanges]:
        """All of them as ranges, so many at a time."""
        pairs = self._pairs()
        while piece := list(islice(pairs, most)):
            found = dict[int, list[Pair]]()
            for partition, pair in piece:
                found.setdefault(partition, []).append(pair)
            yield OffsetRanges.of(found)

    def _pairs(self) -> Iterator[tuple[int, Pair]]:
        for partition, bitmap in self.partitions.items():
            for pair in bitmap.pairs():
                yield partition, pair

    def ranges(self) -> OffsetRanges:
        """All of them as ranges. Takes memory for each range."""
        return OffsetRanges({key: bitmap.ranges() for key, bitmap in self.partitions.items()})

    @property
    def range_count(self) -> int:
        """Number of the ranges that they are."""
        return sum(bitmap.range_count() for bitmap in self.partitions.values())

    def __str__(self) -> str:
        """As the text of OffsetRanges; of many ranges the first, and a mark."""
        text = str(next(self.pieces(), OffsetRanges()))
        left = self.range_count - MAX_RANGES_SAID
        return f"{text} … ({left} ranges more)" if left > 0 else text

    def shown(self, limit: int = SHOWN) -> str:
        """Its text, or the beginning of a longer one: whole ranges, and a mark."""
        text, count = str(self), self.range_count
        if count <= MAX_RANGES_SAID:
            return cut(text, limit)
        kept = text[: text.rfind(")", 0, limit) + 1]
        return f"{kept} … ({count - kept.count(')')} ranges more, some of them in the task's log)"

    def to_json(self) -> str | Document:
        """``{"0":[[from,until],…],…}`` as a text, as OffsetRanges; of many ranges their bitmaps by partition
        and upper bits."""
        if self.range_count <= MAX_RANGES_AS_TEXT:
            of_partitions = (
                f'"{partition}":[{",".join(f"[{start},{until}]" for start, until in bitmap.pairs())}]'
                for partition, bitmap in self.partitions.items()
            )
            return f"{{{','.join(of_partitions)}}}"
        return {
            str(partition): {
                str(upper): b64encode(part).decode() for upper, part in bitmap.to_parts().items()
            }
            for partition, bitmap in self.partitions.items()
        }

    @classmethod
    def from_json(cls, stored: str | Document) -> OffsetSet:
        """Raises ValueError for another document."""
        from sluice.core.offsets.bitmaps import Bitmap

        if isinstance(stored, str):
            partitions = json.loads(stored)
            return cls({int(key): Bitmap.of(pairs) for key, pairs in partitions.items()})
        return cls(
            {
                int(key): Bitmap.from_parts({int(upper): b64decode(part) for upper, part in parts.items()})
                for key, parts in stored.items()
            }
        )
