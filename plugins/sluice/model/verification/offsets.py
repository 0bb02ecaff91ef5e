"""The proof: is every expected (partition, offset) in the table exactly once?

Settled from table metadata wherever that is enough. One Spark task reads one topic partition, so a data
file whose lower and upper partition are equal, and whose record count equals the number of offsets between
its bounds (less those known to lie in the quarantine), holds each of them once: a fetch yields an offset
once, and a task writes a row once. A file for which that does not come out is *undecided*: its columns must
be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from sluice.model.verification.ranges import IntervalSet, OffsetRanges

EMPTY = OffsetRanges()


class ProofStatus(StrEnum):
    PASSED = "passed"
    GAPS = "gaps"
    DUPLICATES = "duplicates"
    UNEXPECTED = "unexpected"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class FileStats:
    """What metadata says of a data file. Bounds are inclusive; None where the metadata has none."""

    path: str
    partition_lower: int | None
    partition_upper: int | None
    offset_lower: int | None
    offset_upper: int | None
    records: int

    def is_conclusive(self, explained: OffsetRanges) -> bool:
        """Whether the metadata alone shows which offsets the file holds, given those that lie elsewhere."""
        if self.partition_lower is None or self.partition_lower != self.partition_upper:
            return False
        if self.offset_lower is None or self.offset_upper is None:
            return False
        return self.records == self.held(explained).count

    def held(self, explained: OffsetRanges) -> IntervalSet:
        """The offsets between the bounds, without those that lie elsewhere. Only for a file that settles."""
        assert self.partition_lower is not None
        assert self.offset_lower is not None
        assert self.offset_upper is not None
        window = IntervalSet.of([(self.offset_lower, self.offset_upper + 1)])
        return window.minus(explained[self.partition_lower])

    def may_contain(self, expected: OffsetRanges) -> bool:
        """False only where the bounds show that no expected offset can be in the file."""
        if None in (self.partition_lower, self.partition_upper, self.offset_lower, self.offset_upper):
            return True
        window = IntervalSet.of([(self.offset_lower or 0, (self.offset_upper or 0) + 1)])
        return any(
            (self.partition_lower or 0) <= partition <= (self.partition_upper or 0)
            and ranges.intersect(window)
            for partition, ranges in expected.partitions.items()
        )


@dataclass(frozen=True)
class Proof:
    """The result. ``unexpected`` are coordinates that were found outside of what was expected."""

    status: ProofStatus
    expected: int
    found: int
    gaps: OffsetRanges = field(default_factory=OffsetRanges)
    duplicates: OffsetRanges = field(default_factory=OffsetRanges)
    unexpected: OffsetRanges = field(default_factory=OffsetRanges)
    reason: str = ""

    @property
    def is_ok(self) -> bool:
        return self.status is ProofStatus.PASSED

    def message(self) -> str:
        """One line for a task state."""
        if self.status is ProofStatus.UNKNOWN:
            return f"unobservable: {self.reason}"
        if self.is_ok:
            return f"passed: {self.found} of {self.expected} offsets, each once"
        parts = [
            f"{bad.count} {name} ({_short(str(bad))})"
            for name, bad in (
                ("gaps", self.gaps),
                ("duplicates", self.duplicates),
                ("unexpected", self.unexpected),
            )
            if bad
        ]
        return f"failed: {', '.join(parts)}; {self.found} of {self.expected} offsets found"


def needs_read(
    expected: OffsetRanges, files: Iterable[FileStats], explained: OffsetRanges = EMPTY
) -> list[FileStats]:
    """The files that may hold expected offsets and that metadata alone cannot settle."""
    return [fact for fact in files if fact.may_contain(expected) and not fact.is_conclusive(explained)]


def prove(
    expected: OffsetRanges,
    files: Iterable[FileStats],
    offsets: Mapping[int, Iterable[int]] | None = None,
    *,
    explained: OffsetRanges = EMPTY,
    allow_outside: bool = False,
) -> Proof:
    """Prove ``expected`` from the ``files`` that metadata settles and from ``offsets`` read one by one.

    ``explained`` are offsets known to lie elsewhere, in the quarantine: they count as found, once, and are
    the holes that a file may have. ``offsets`` (partition -> offsets, each as often as it was found) stands
    for the files that :func:`needs_read` named. ``allow_outside`` says that coordinates outside ``expected``
    belong to other batches: then they are no strays (a load's range in a table that holds many loads).
    A file that metadata cannot settle counts for nothing here, so what it holds and nobody read is a gap.
    """
    runs: dict[int, list[tuple[int, int]]] = {
        key: list(ranges) for key, ranges in explained.partitions.items()
    }
    for fact in files:
        if fact.is_conclusive(explained):
            assert fact.partition_lower is not None
            runs.setdefault(fact.partition_lower, []).extend(fact.held(explained))
    for partition, values in (offsets or {}).items():
        runs.setdefault(int(partition), []).extend(_runs(values))

    found: dict[int, IntervalSet] = {}
    repeated: dict[int, IntervalSet] = {}
    for partition, pairs in runs.items():
        found[partition], repeated[partition] = _cover(pairs)
    present = OffsetRanges({key: ranges for key, ranges in sorted(found.items()) if ranges})
    duplicates = OffsetRanges({key: ranges for key, ranges in sorted(repeated.items()) if ranges})
    gaps = expected.minus(present)
    unexpected = OffsetRanges() if allow_outside else present.minus(expected)
    if allow_outside:
        duplicates = duplicates.intersect(expected)
    status = (
        ProofStatus.GAPS
        if gaps
        else ProofStatus.DUPLICATES
        if duplicates
        else ProofStatus.UNEXPECTED
        if unexpected
        else ProofStatus.PASSED
    )
    return Proof(status, expected.count, present.intersect(expected).count, gaps, duplicates, unexpected)


def unobservable(expected: OffsetRanges, reason: str) -> Proof:
    """The proof that could not be made: never exact."""
    return Proof(ProofStatus.UNKNOWN, expected.count, 0, reason=reason)


def _runs(values: Iterable[int]) -> list[tuple[int, int]]:
    """Consecutive values joined; a repeated value starts a run of its own, so that it shows."""
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([value, value + 1])
    return [(start, until) for start, until in runs]


def _cover(pairs: Iterable[tuple[int, int]]) -> tuple[IntervalSet, IntervalSet]:
    """What the pairs cover, and what more than one of them covers (a sweep over their edges)."""
    pairs = list(pairs)
    edges: dict[int, int] = {}
    for start, until in pairs:
        edges[start] = edges.get(start, 0) + 1
        edges[until] = edges.get(until, 0) - 1
    depth, twice = 0, []
    for here, after in pairwise(sorted(edges)):
        depth += edges[here]
        if depth > 1:
            twice.append((here, after))
    return IntervalSet.of(pairs), IntervalSet.of(twice)


def _short(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else text[:limit] + "…"
