"""Sets of integers as half-open ranges, and of offsets per partition."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Pair = tuple[int, int]
# Characters of a list of ranges in a message; the task's log has it whole.
SHOWN = 1000


@dataclass(frozen=True)
class IntervalSet:
    """A set of integers as disjoint, sorted, non-touching half-open ranges ``[from, until)``."""

    _pairs: tuple[Pair, ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[Iterable[int]]) -> IntervalSet:
        """From pairs in any order, empty ones included. Raises ValueError if a pair ends before it begins."""
        ordered = sorted((int(a), int(b)) for a, b in pairs)
        for start, until in ordered:
            if until < start:
                raise ValueError(f"range {_text(start, until)} ends before it begins")
        return cls(_joined(pair for pair in ordered if pair[0] < pair[1]))

    @classmethod
    def of_values(cls, values: Iterable[int]) -> IntervalSet:
        """From single integers (64 bits) in any order, repeats allowed. Raises TypeError for an array of
        other numbers, as one with nulls. Of millions see :mod:`~sluice.core.offsets.counts`."""
        # Not at the top: the DAG processor imports this module.
        import numpy as np

        numbers = values if isinstance(values, np.ndarray) else np.fromiter(values, np.int64)
        return cls(_runs(np.unique(numbers.astype(np.int64, casting="safe", copy=False))))

    def pairs(self) -> tuple[Pair, ...]:
        return self._pairs

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._pairs)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    @property
    def count(self) -> int:
        return sum(until - start for start, until in self._pairs)

    def __contains__(self, value: int) -> bool:
        after = bisect_right(self._pairs, value, key=itemgetter(0))
        return after > 0 and value < self._pairs[after - 1][1]

    def holds(self, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the values are in it, in any order. Costs by the ranges between the values, not by all."""
        import numpy as np

        near: tuple[Pair, ...] = ()
        if self._pairs and len(values):
            first = bisect_right(self._pairs, int(values.min()), key=itemgetter(1))
            near = self._pairs[first : bisect_right(self._pairs, int(values.max()), key=itemgetter(0))]
        if not near:
            return np.zeros(len(values), np.bool_)
        starts, untils = np.array(near, np.int64).T
        # The last range that starts before a value, or the first one.
        before = np.maximum(np.searchsorted(starts, values, "right") - 1, 0)
        found: NDArray[np.bool_] = (starts[before] <= values) & (values < untils[before])
        return found

    def gaps(self) -> IntervalSet:
        """What is missing between the first and the last one."""
        return IntervalSet(tuple((before[1], after[0]) for before, after in pairwise(self._pairs)))

    def union(self, other: IntervalSet) -> IntervalSet:
        if not self._pairs or not other._pairs:
            return self if self._pairs else other
        return IntervalSet(_joined(merge(self._pairs, other._pairs)))

    def intersect(self, other: IntervalSet) -> IntervalSet:
        result: list[Pair] = []
        mine, theirs = self._pairs, other._pairs
        # A few ranges of many: those before the first of the others are not looked at.
        i, j = _first_behind(mine, theirs), _first_behind(theirs, mine)
        while i < len(mine) and j < len(theirs):
            start, until = max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1])
            if start < until:
                result.append((start, until))
            if mine[i][1] < theirs[j][1]:
                i += 1
            else:
                j += 1
        return IntervalSet(tuple(result))

    def minus(self, other: IntervalSet) -> IntervalSet:
        mine, theirs = self._pairs, other._pairs
        if not mine or not theirs:
            return self
        # Those before the first of the others are not looked at, on either side, and those behind the last.
        i, j = _first_behind(mine, theirs), _first_behind(theirs, mine)
        end = bisect_left(mine, theirs[-1][1], lo=i, key=itemgetter(0))
        result = list(mine[:i])
        for start, until in mine[i:end]:
            while j < len(theirs) and theirs[j][0] < until:
                if start < theirs[j][0]:
                    result.append((start, theirs[j][0]))
                start = max(start, theirs[j][1])
                if start >= until:
                    break
                j += 1
            if start < until:
                result.append((start, until))
        return IntervalSet((*result, *mine[end:]))

    def __str__(self) -> str:
        return ",".join(_text(*pair) for pair in self._pairs) or "(empty)"


def cut(text: str, limit: int = SHOWN, where: str = "the task's log") -> str:
    """A text of ranges, or the whole ranges of its first ``limit`` characters and a mark: ``where`` has the
    rest."""
    if len(text) <= limit:
        return text
    kept = text[: text.rfind(")", 0, limit) + 1]
    return f"{kept} … ({text.count(')') - kept.count(')')} ranges more in {where})"


def _text(start: int, until: int) -> str:
    return f"[{start},{until})"


def _joined(ordered: Iterable[Pair]) -> tuple[Pair, ...]:
    """Join those of the sorted, not empty ranges that overlap or touch."""
    joined: list[Pair] = []
    for start, until in ordered:
        if joined and start <= joined[-1][1]:
            if until > joined[-1][1]:
                joined[-1] = (joined[-1][0], until)
        else:
            joined.append((start, until))
    return tuple(joined)


def _first_behind(pairs: tuple[Pair, ...], others: tuple[Pair, ...]) -> int:
    """The number of the first pair that ends behind the begin of the others."""
    return bisect_right(pairs, others[0][0], key=itemgetter(1)) if others else len(pairs)


def _runs(values: NDArray[np.int64]) -> tuple[Pair, ...]:
    """Join consecutive ones of the sorted, distinct values."""
    import numpy as np

    ends = np.flatnonzero(np.append(np.diff(values) != 1, True)[: len(values)])
    begins = np.append(0, ends[:-1] + 1)[: len(ends)]
    return tuple(zip(values[begins].tolist(), (values[ends] + 1).tolist(), strict=True))


@dataclass(frozen=True)
class OffsetRanges:
    """Offsets of one topic, without partitions that have none."""

    partitions: Mapping[int, IntervalSet] = field(default_factory=dict)

    @classmethod
    def of(cls, mapping: Mapping[int, Iterable[Iterable[int]]]) -> OffsetRanges:
        ranges = {int(partition): IntervalSet.of(pairs) for partition, pairs in mapping.items()}
        return cls({partition: ranges[partition] for partition in sorted(ranges) if ranges[partition]})

    @classmethod
    def of_values(cls, values: Mapping[int, Iterable[int]]) -> OffsetRanges:
        """From the single offsets of each partition, in any order, repeats allowed."""
        found = {int(partition): IntervalSet.of_values(offsets) for partition, offsets in values.items()}
        return cls({partition: found[partition] for partition in sorted(found) if found[partition]})

    @classmethod
    def from_ends(cls, starts: Mapping[int, int], ends: Mapping[int, int]) -> OffsetRanges:
        """``[starts[p], ends[p])`` for every partition of ``ends``; a missing start is 0.

        Raises ValueError for an end before its start, as of a recreated topic.
        """
        return cls.of({partition: [(starts.get(partition, 0), end)] for partition, end in ends.items()})

    @classmethod
    def of_batch(cls, text: str) -> OffsetRanges:
        """From ``{"0": [from, until], …}``: a batch's range of each partition, in its snapshot's summary."""
        return cls.of({int(partition): [pair] for partition, pair in json.loads(text).items()})

    def __getitem__(self, partition: int) -> IntervalSet:
        return self.partitions.get(partition, IntervalSet())

    def __bool__(self) -> bool:
        return bool(self.partitions)

    @property
    def count(self) -> int:
        return sum(ranges.count for ranges in self.partitions.values())

    def _merge(
        self, other: OffsetRanges, operation: Callable[[IntervalSet, IntervalSet], IntervalSet]
    ) -> OffsetRanges:
        none = IntervalSet()
        mine, theirs = self.partitions, other.partitions
        merged = (
            (key, operation(mine.get(key, none), theirs.get(key, none))) for key in sorted({*mine, *theirs})
        )
        return OffsetRanges({key: ranges for key, ranges in merged if ranges._pairs})

    def union(self, other: OffsetRanges) -> OffsetRanges:
        return self._merge(other, IntervalSet.union)

    def minus(self, other: OffsetRanges) -> OffsetRanges:
        return self._merge(other, IntervalSet.minus)

    def intersect(self, other: OffsetRanges) -> OffsetRanges:
        return self._merge(other, IntervalSet.intersect)

    def bounds(self) -> OffsetRanges:
        """Return one range for each partition, from its first offset to its last."""
        return OffsetRanges.of({p: [(r.pairs()[0][0], r.pairs()[-1][1])] for p, r in self.partitions.items()})

    def covers(self, other: OffsetRanges) -> bool:
        return not other.minus(self)

    def to_json(self) -> str:
        """``{"0":[[from,until],…],…}``, for snapshot summaries and the ledger."""
        return json.dumps(
            {str(k): [list(p) for p in v] for k, v in self.partitions.items()}, separators=(",", ":")
        )

    @classmethod
    def from_json(cls, text: str) -> OffsetRanges:
        return cls.of({int(key): pairs for key, pairs in json.loads(text).items()})

    def __str__(self) -> str:
        """``0=[110,220) 1=[100,313),[400,410)``; parsed by ``TopicRanges``."""
        return " ".join(f"{key}={ranges}" for key, ranges in self.partitions.items()) or "(empty)"

    def shown(self, limit: int = SHOWN, where: str = "the task's log") -> str:
        """Its text, or of a longer one than ``limit`` characters the beginning: whole ranges, and a mark that
        ``TopicRanges`` refuses, so that a part is not taken for the whole."""
        return cut(str(self), limit, where)


def offsets_from_json(text: str) -> dict[int, int]:
    """Partition -> offset, from a snapshot summary or the ledger."""
    return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
