"""Verify that every expected (partition, offset) is in the table or the quarantine exactly once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from sluice.core.offsets.ranges import IntervalSet, OffsetRanges

if TYPE_CHECKING:
    from sluice.core.offsets.counts import Counts

EMPTY = OffsetRanges()


class VerificationStatus(StrEnum):
    PASSED = "passed"
    GAPS = "gaps"
    DUPLICATES = "duplicates"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class FileStats:
    """Metadata of a data file. Bounds are inclusive; None if the metadata has none.

    ``path``: its location; ``partition_lower`` to ``partition_upper`` and ``offset_lower`` to
    ``offset_upper``: of the topic; ``records``: number of its rows; ``is_own``: False if another program
    wrote it, as a managed catalog's compaction.

    A fetch yields an offset once, and a Spark task writes a row once. So a file of one topic partition with
    as many records as offsets between its bounds holds each of them once: its metadata is conclusive. The
    columns of any other file must be read. Also of one that has as many records as offsets between its bounds
    that are not quarantined: it may lack another one, and hold a quarantined one in its place.
    """

    path: str
    partition_lower: int | None
    partition_upper: int | None
    offset_lower: int | None
    offset_upper: int | None
    records: int
    is_own: bool = True

    @property
    def is_conclusive(self) -> bool:
        """Whether the metadata alone shows which offsets the file holds."""
        # It was not verified before it was published.
        if not self.is_own:
            return False
        if self.partition_lower is None or self.partition_lower != self.partition_upper:
            return False
        if self.offset_lower is None or self.offset_upper is None:
            return False
        return self.records == self.offset_upper - self.offset_lower + 1

    @property
    def offsets(self) -> IntervalSet:
        """The offsets of a conclusive file."""
        assert self.offset_lower is not None
        assert self.offset_upper is not None
        return IntervalSet.of([(self.offset_lower, self.offset_upper + 1)])

    def count(self, found: Counts[int]) -> None:
        """Count the offsets of a conclusive file too."""
        assert self.partition_lower is not None
        found.at(self.partition_lower).add_ranges(self.offsets)

    def may_contain(self, expected: OffsetRanges) -> bool:
        """False only if the bounds show that no expected offset can be in the file."""
        if None in (self.partition_lower, self.partition_upper, self.offset_lower, self.offset_upper):
            return True
        bounds = IntervalSet.of([(self.offset_lower or 0, (self.offset_upper or 0) + 1)])
        return any(
            (self.partition_lower or 0) <= partition <= (self.partition_upper or 0)
            and ranges.intersect(bounds)
            for partition, ranges in expected.partitions.items()
        )

    def may_reach(self, starts: Mapping[int, int]) -> bool:
        """False only if the bounds show that no offset in the file is at or after ``starts`` (partition ->
        offset; a missing one is 0)."""
        if None in (self.partition_lower, self.partition_upper, self.offset_lower, self.offset_upper):
            return True
        first, last = self.partition_lower or 0, self.partition_upper or 0
        # Not by the numbers between the bounds, which may be any.
        near = [offset for partition, offset in starts.items() if first <= partition <= last]
        return len(near) <= last - first or (self.offset_upper or 0) >= min(near)


@dataclass(frozen=True)
class OffsetVerification:
    """Result of a verification; ``expected`` and ``found``: numbers of offsets.

    ``gaps``: expected offsets that are in no file; ``duplicates``: those that are there more than once;
    ``unexpected``: found ones that were not expected; ``status``: what follows from them.
    """

    status: VerificationStatus
    expected: int
    found: int
    gaps: OffsetRanges = field(default_factory=OffsetRanges)
    duplicates: OffsetRanges = field(default_factory=OffsetRanges)
    unexpected: OffsetRanges = field(default_factory=OffsetRanges)

    @property
    def is_ok(self) -> bool:
        return self.status is VerificationStatus.PASSED

    def message(self) -> str:
        if self.is_ok:
            return f"passed: {self.found} of {self.expected} offsets, each once"
        named = (
            (self.gaps, "gaps"),
            (self.duplicates, "duplicates"),
            (self.unexpected, "unexpected offsets"),
        )
        problems = [f"{found.count} {name} ({found.shown()})" for found, name in named if found]
        return f"failed: {', '.join(problems)}; {self.found} of {self.expected} offsets found"


def needs_read(expected: OffsetRanges, files: Iterable[FileStats]) -> list[FileStats]:
    """The files that may hold expected offsets and whose metadata is not conclusive."""
    return [file for file in files if file.may_contain(expected) and not file.is_conclusive]


def verify(
    expected: OffsetRanges,
    files: Iterable[FileStats],
    offsets: Counts[int] | None = None,
    *,
    quarantined: OffsetRanges = EMPTY,
    repeated: OffsetRanges = EMPTY,
    allow_outside: bool = False,
) -> OffsetVerification:
    """Verify ``expected`` with the ``files`` whose metadata is conclusive and with ``offsets``.

    ``offsets``: those of the files that :func:`needs_read` named, counted; a file that needs a read and got
    none counts as a gap. ``quarantined`` offsets count as found once, the ``repeated`` ones of them as
    duplicates. ``allow_outside``: offsets outside ``expected`` belong to other loads, so they are not
    unexpected. Takes memory for ranges only of what is wrong.
    """
    # Not at the top: the DAG processor imports this module.
    from sluice.core.offsets.counts import Counts, repeated_offsets
    from sluice.core.offsets.offset_set import OffsetSet

    counted = Counts[int]()
    for rejected in (quarantined, repeated):
        for partition, ranges in rejected.partitions.items():
            counted.at(partition).add_ranges(ranges)
    for file in files:
        if file.is_conclusive:
            file.count(counted)
    if offsets is not None:
        counted.add_counts(offsets)

    found = OffsetSet({partition: counted[partition].present for partition in counted})
    wanted = OffsetSet.of(expected)
    gaps, unexpected = wanted.minus(found).ranges(), EMPTY
    duplicates = repeated_offsets(counted)
    if allow_outside:
        duplicates = duplicates.intersect(expected)
    else:
        unexpected = found.minus(wanted).ranges()
    failures = (
        (gaps, VerificationStatus.GAPS),
        (duplicates, VerificationStatus.DUPLICATES),
        (unexpected, VerificationStatus.UNEXPECTED),
    )
    status = next((status for named, status in failures if named), VerificationStatus.PASSED)
    count = found.intersect(wanted).count
    return OffsetVerification(status, expected.count, count, gaps, duplicates, unexpected)
