"""The record offsets of files that a snapshot exchanged, compared one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from sluice.clients.lake.snapshots.table_diff import count_offsets
from sluice.core.offsets.bitmaps import Bitmap
from sluice.core.offsets.counts import Counts
from sluice.core.offsets.ranges import OffsetRanges


def compared(
    table: Table, removed: Sequence[DataFile], added: Sequence[DataFile]
) -> tuple[int, int, tuple[str, ...]]:
    """Number of rows of the removed files and of the added ones, and what the added files do not hold as the
    removed ones did, each with its ranges and files; nothing if both hold the same offsets, each once.

    Reads the two columns of each file; of files on a side that differs once more, to name those with the
    difference. Raises as :func:`~.table_diff.read`.
    """
    before, after = count_offsets(table, removed), count_offsets(table, added)
    return before.values, after.values, tuple(_differences(table, (before, removed), (after, added)))


def _differences(
    table: Table,
    removed: tuple[Counts[int], Sequence[DataFile]],
    added: tuple[Counts[int], Sequence[DataFile]],
) -> Iterator[str]:
    (before, old), (after, new) = removed, added
    partitions = sorted({*before, *after})
    lost = {number: before[number].present - after[number].present for number in partitions}
    repeated = {number: after[number].repeated for number in partitions}
    more = {number: after[number].present - before[number].present for number in partitions}
    for verb, found, where in (("lost", lost, old), ("repeats", repeated, new), ("added", more, new)):
        ranges = OffsetRanges({number: one.ranges() for number, one in found.items() if one})
        if ranges:
            named = ", ".join(one.file_path for one in where if _holds_any(table, one, found))
            yield f"{verb} {ranges.count} offsets: {ranges.shown()}, of {named}"


def _holds_any(table: Table, file: DataFile, offsets: dict[int, Bitmap]) -> bool:
    held = count_offsets(table, [file])
    return any(held[number].present & of_partition for number, of_partition in offsets.items())
