"""Verify a whole table from what an earlier run verified, and the files that were exchanged since.

A manifest never changes. So the manifests that only one of two manifest lists has name every file that was
added or removed between two states, whatever happened between them: batches, compactions, changes, expiry, a
restored catalog. Their rows, as a multiset, are the whole difference of the table::

    rows now = rows then - rows of removed files + rows of added files
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from sluice.core.findings import Finding, FindingName
from sluice.core.messages import summarize
from sluice.core.offsets.offset_set import OffsetSet
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from sluice.core.offsets.verify import EMPTY, FileStats

if TYPE_CHECKING:
    from sluice.core.offsets.bitmaps import Bitmap
    from sluice.core.offsets.counts import Counts


@dataclass(frozen=True)
class Contents:
    """Offsets of files: those that are there at all, and those that are there more than once."""

    present: OffsetSet = field(default_factory=OffsetSet)
    repeated: OffsetSet = field(default_factory=OffsetSet)


def inside(file: FileStats, verified: OffsetSet) -> OffsetSet | None:
    """The offsets of a file of a state that held each of ``verified`` once and nothing else, by its metadata;
    None if that does not tell.

    Its offsets are distinct, and among those verified ones that are within its bounds: if these are as many
    as its records, they are its offsets. That holds for compacted files too.
    """
    if None in (file.partition_lower, file.partition_upper, file.offset_lower, file.offset_upper):
        return None
    start, until = file.offset_lower or 0, (file.offset_upper or 0) + 1
    near = {
        partition: offsets
        for partition, offsets in verified.partitions.items()
        if (file.partition_lower or 0) <= partition <= (file.partition_upper or 0)
    }
    if sum(offsets.count_within(start, until) for offsets in near.values()) != file.records:
        return None
    return OffsetSet({partition: offsets.within(start, until) for partition, offsets in near.items()})


def advance(verified: OffsetSet, removed: Counts[int], added: Counts[int]) -> Contents:
    """The table's offsets now. ``verified``: then, each once; ``removed``, ``added``: of the files that went
    and came since."""
    present: dict[int, Bitmap] = dict(verified.partitions)
    repeated: dict[int, Bitmap] = {}
    for partition in {*removed, *added}:
        come = added[partition]
        kept = verified[partition] - removed[partition].present
        present[partition] = kept | come.present
        present[partition].compact()
        repeated[partition] = come.repeated | (kept & come.present)
    return Contents(OffsetSet(present), OffsetSet(repeated))


@dataclass(frozen=True)
class Expected:
    """Published is ``[starts, ends)`` but for ``removed``, the offsets that changes took out on purpose.
    ``without_record``: those that may be missing, since the consumer recorded that they have no record."""

    starts: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    removed: OffsetRanges = EMPTY
    without_record: OffsetSet = field(default_factory=OffsetSet)

    @property
    def published(self) -> OffsetSet:
        return OffsetSet.of(OffsetRanges.from_ends(self.starts, self.ends))

    @property
    def offsets(self) -> OffsetSet:
        return self.published.minus(OffsetSet.of(self.removed))

    def missing(self, table: Contents, quarantine: Contents) -> OffsetSet:
        """Those that are in neither."""
        return self.offsets.minus(table.present).minus(quarantine.present).minus(self.without_record)


def content_findings(expected: Expected, table: Contents, quarantine: Contents) -> list[Finding]:
    """Offsets that are not in table or quarantine exactly once.

    The quarantine may be ahead of the table, which is read first: what it has beyond is not unexpected. An
    offset that it has twice is found also there: the next run begins with each once.
    """
    wanted, rejected = expected.offsets, quarantine.present
    repeated = table.repeated.union(quarantine.repeated)
    named = (
        (FindingName.OFFSETS_MISSING, expected.missing(table, quarantine), "are in neither table"),
        (FindingName.OFFSETS_DUPLICATED, repeated, "are there more than once"),
        (FindingName.OFFSETS_UNEXPECTED, table.present.minus(wanted), "are in the table, and not published"),
        (
            FindingName.OFFSETS_IN_BOTH,
            table.present.intersect(rejected),
            "are in the table and in quarantine",
        ),
    )
    return [
        Finding(name, f"{offsets.count} offsets {what}: {offsets.shown()}", str(offsets))
        for name, offsets, what in named
        if offsets
    ]


def repeated_findings(table: str, files: Sequence[str]) -> list[Finding]:
    """``files``: those that the table lists more than once, whatever their offsets are."""
    if not files:
        return []
    what = f"{table} lists {len(files)} data files more than once, so readers see their rows as often"
    return [
        Finding(FindingName.OFFSETS_DUPLICATED, f"{what}: {summarize(files)}", f"{what}: {', '.join(files)}")
    ]


@dataclass(frozen=True)
class BatchFile:
    """A data file, and the snapshot of the batch that added it."""

    stats: FileStats
    snapshot_id: int


def range_findings(files: Iterable[BatchFile], said: Callable[[int], OffsetRanges]) -> list[Finding]:
    """Batches whose summary does not cover the bounds of a file that they added. ``said``: the ranges of a
    snapshot's summary, asked for once for each: of a topic with many partitions they are large."""
    found = []
    for snapshot_id, of_batch in groupby(sorted(files, key=_snapshot), _snapshot):
        ranges = said(snapshot_id)
        for stats in (file.stats for file in of_batch):
            partition, lower, upper = stats.partition_lower, stats.offset_lower, stats.offset_upper
            # The bounds of several partitions' offsets may be of two of them.
            if partition is None or partition != stats.partition_upper or lower is None or upper is None:
                continue
            if IntervalSet.of([(lower, upper + 1)]).minus(ranges[partition]):
                message = (
                    f"snapshot {snapshot_id} says that it has {ranges.shown()}, and its file {stats.path} "
                    f"has {partition}=[{lower},{upper + 1})"
                )
                found.append(Finding(FindingName.RANGE_WRONG, message))
    return found


def _snapshot(file: BatchFile) -> int:
    return file.snapshot_id
