"""Rows with fields that had no column, by the metadata of their files: nothing of a row is read."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.expressions import NotNull
from pyiceberg.table import FileScanTask, Table

from sluice.clients.lake.reading.files import committed_since, file_stats
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.verify import FileStats


def offsets_with(table: Table, column: str, asked: OffsetRanges) -> OffsetRanges:
    """Those of ``asked`` between the bounds of each file that has a row with a text in ``column``; none if
    the table has no such column."""
    found: dict[int, list[tuple[int, int]]] = {}
    for _, stats in _files(table, column, asked):
        lower, upper = stats.offset_lower, stats.offset_upper
        if stats.partition_lower is None or stats.partition_upper is None or lower is None or upper is None:
            # Its metadata does not say.
            return asked
        for partition in range(stats.partition_lower, stats.partition_upper + 1):
            found.setdefault(partition, []).append((lower, upper + 1))
    return OffsetRanges.of(found).intersect(asked)


def rows_with(table: Table, column: str, asked: OffsetRanges) -> int:
    """How many rows with a text in ``column`` the files have that may hold these offsets: of a file whose
    metadata does not say, all."""
    field = table.schema().find_field(column).field_id
    return sum(
        task.file.record_count - (task.file.null_value_counts or {}).get(field, 0)
        for task, _ in _files(table, column, asked)
    )


def _files(table: Table, column: str, asked: OffsetRanges) -> Iterator[tuple[FileScanTask, FileStats]]:
    if column not in table.schema().column_names:
        return
    tasks = committed_since(table, 0, NotNull(column))
    for task, stats in zip(tasks, file_stats(table, tasks), strict=True):
        if stats.may_contain(asked):
            yield task, stats
