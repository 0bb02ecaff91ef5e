"""The record offsets of files that a snapshot exchanged, compared one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from sluice.clients.lake.reading.files import OFFSET, PARTITION, by_partition
from sluice.clients.lake.snapshots.table_diff import ALWAYS, read
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges, Pair
from sluice.core.offsets.verify import EMPTY


@dataclass(frozen=True)
class FileOffsets:
    """What a data file holds: ``records``: number of its rows; ``once``: their offsets; ``repeated``: those
    that are in it more than once."""

    path: str
    records: int
    once: OffsetRanges
    repeated: OffsetRanges

    @classmethod
    def of(cls, table: Table, file: DataFile) -> FileOffsets:
        """Reads the two columns. Raises as :func:`~.table_diff.read`."""
        found = by_partition(read(table, [file], ALWAYS, (PARTITION, OFFSET)))
        parts = {number: IntervalSet.once_and_repeated(values) for number, values in sorted(found.items())}
        return cls(
            file.file_path,
            sum(len(values) for values in found.values()),
            OffsetRanges({number: once for number, (once, _) in parts.items()}),
            OffsetRanges({number: twice for number, (_, twice) in parts.items() if twice}),
        )


def differences(removed: Sequence[FileOffsets], added: Sequence[FileOffsets]) -> Iterator[str]:
    """What the added files do not hold as the removed ones did, each with its ranges and files; none if both
    hold the same offsets, each once."""
    before, _ = _together(removed)
    after, repeated = _together(added)
    for verb, ranges, where in (
        ("lost", before.minus(after), removed),
        ("repeats", repeated, added),
        ("added", after.minus(before), added),
    ):
        if ranges:
            named = ", ".join(file.path for file in where if file.once.intersect(ranges))
            yield f"{verb} {ranges.count} offsets: {ranges.shown()}, of {named}"


def _together(files: Sequence[FileOffsets]) -> tuple[OffsetRanges, OffsetRanges]:
    """The offsets of all files, and those that are there more than once."""
    pairs: dict[int, list[Pair]] = {}
    for file in files:
        for partition, ranges in file.once.partitions.items():
            pairs.setdefault(partition, []).extend(ranges)
    once = OffsetRanges.of(pairs)
    if once.count == sum(file.records for file in files):
        return once, EMPTY
    before, repeated = EMPTY, EMPTY
    for file in files:
        repeated = repeated.union(file.repeated).union(before.intersect(file.once))
        before = before.union(file.once)
    return once, repeated
