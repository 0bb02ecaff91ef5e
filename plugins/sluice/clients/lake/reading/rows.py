"""Where rows are: the data files that hold them, from bounds first, and the columns that say where they came
from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import And, BooleanExpression, EqualTo
from pyiceberg.manifest import ManifestEntry
from pyiceberg.table import FileScanTask, Table

from sluice.clients.lake.counting import count_offsets
from sluice.clients.lake.reading.files import (
    OFFSET,
    PARTITION,
    ROW,
    SOURCE,
    committed_since,
    file_stats,
    read,
)
from sluice.core.offsets.counts import present_offsets
from sluice.core.offsets.ranges import OffsetRanges

TIME = "_kafka_timestamp"
ORIGIN = (PARTITION, OFFSET, TIME, SOURCE, ROW)
REJECTED = ("stage", "reason", *ORIGIN, "object", "line")


@dataclass(frozen=True)
class HeldRow:
    """A row, the data file that holds it, and the snapshot that added that file: of its batch, or of the
    compaction that wrote its rows again. ``values``: its columns."""

    values: dict[str, Any]
    file: str
    snapshot_id: int | None


@dataclass(frozen=True)
class HeldOffsets:
    """The offsets of a source's rows in one data file."""

    file: str
    offsets: OffsetRanges


def at_offset(partition: int, offset: int) -> BooleanExpression:
    return And(EqualTo(PARTITION, partition), EqualTo(OFFSET, offset))


def of_source(source_id: str, row: int | None = None) -> BooleanExpression:
    """The rows of a source; one of them."""
    of_all = EqualTo(SOURCE, source_id)
    return of_all if row is None else And(of_all, EqualTo(ROW, row))


def find(
    table: Table, rows: BooleanExpression, columns: tuple[str, ...], since: int = 0
) -> Iterator[HeldRow]:
    """The rows of ``main`` that match, read from the files whose bounds do.

    ``since``: a sequence number; files that were committed up to it are left out. Columns that the table
    lacks are left out.
    """
    known = tuple(name for name in columns if name in table.schema().column_names)
    for task, snapshot_id in _files(table, rows, since):
        for batch in read(table, rows, known, tasks=[task]):
            for values in batch.to_pylist():
                yield HeldRow(values, task.file.file_path, snapshot_id)


def offsets_of_source(table: Table, source_id: str, since: int = 0) -> Iterator[HeldOffsets]:
    """The offsets of a source's rows, per file; files that hold nothing else, without gaps, are not read."""
    rows = of_source(source_id)
    for task, _ in _files(table, rows, since):
        (stats,) = file_stats(table, [task])
        of_partition, is_alone = stats.partition_lower, _bounds(table, task, SOURCE) == (source_id, source_id)
        if of_partition is not None and is_alone and stats.is_conclusive:
            offsets = OffsetRanges({of_partition: stats.offsets})
        else:
            offsets = present_offsets(count_offsets(table, [task], rows))
        if offsets:
            yield HeldOffsets(task.file.file_path, offsets)


def _files(table: Table, rows: BooleanExpression, since: int) -> Iterator[tuple[FileScanTask, int | None]]:
    """The data files whose bounds match, each with the snapshot that added it."""
    added: dict[str, int | None] = {}

    def note(entry: ManifestEntry) -> bool:
        added[entry.data_file.file_path] = entry.snapshot_id
        return True

    for task in committed_since(table, since, rows, note):
        yield task, added[task.file.file_path]


def _bounds(table: Table, task: FileScanTask, column: str) -> tuple[Any, Any]:
    field = table.schema().find_field(column)
    raw = ((bounds or {}).get(field.field_id) for bounds in (task.file.lower_bounds, task.file.upper_bounds))
    lower, upper = (None if value is None else from_bytes(field.field_type, value) for value in raw)  # type: ignore[arg-type]
    return lower, upper
