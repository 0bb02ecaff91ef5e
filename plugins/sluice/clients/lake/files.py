"""Read a table's files: bounds from metadata, and columns if those are not conclusive."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from pyarrow import RecordBatch, RecordBatchReader
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    LessThan,
    Or,
)
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from sluice.clients.lake.catalog import MAIN, asking
from sluice.model.verification.offsets import FileStats
from sluice.model.verification.ranges import OffsetRanges

FILES_AT_ONCE = 64
PARTITION, OFFSET, SOURCE, ROW = "_kafka_partition", "_kafka_offset", "_source_id", "_source_row"


def overlapping(expected: OffsetRanges) -> BooleanExpression:
    """The rows whose offsets are in ``expected``."""
    parts = [
        And(EqualTo(PARTITION, partition), GreaterThanOrEqual(OFFSET, start), LessThan(OFFSET, until))
        for partition, ranges in expected.partitions.items()
        for start, until in ranges
    ]
    # Or(a, b, *rest) needs two.
    return Or(AlwaysFalse(), AlwaysFalse(), *parts)


def between(column: str, ranges: Iterable[tuple[int, int]]) -> BooleanExpression:
    """The rows whose time is in one of these half-open ranges of seconds since 1970."""
    times = ([datetime.fromtimestamp(seconds, UTC).isoformat() for seconds in pair] for pair in ranges)
    parts = [And(GreaterThanOrEqual(column, begin), LessThan(column, end)) for begin, end in times]
    return Or(AlwaysFalse(), AlwaysFalse(), *parts)


def plan(table: Table, rows: BooleanExpression) -> list[FileScanTask]:
    """The data files of ``main`` that may have such rows, from manifests only."""
    if table.snapshot_by_name(MAIN) is None:
        return []
    with asking(f"manifests of table {_name(table)}"):
        return list(table.scan(row_filter=rows).use_ref(MAIN).plan_files())


def file_stats(table: Table, tasks: Iterable[FileScanTask]) -> list[FileStats]:
    """Each file's offset bounds from metadata.

    None if the manifest has none, or if delete files apply (the metadata then counts deleted rows): such a
    file's columns need to be read.
    """
    fields = {name: table.schema().find_field(name) for name in (PARTITION, OFFSET)}

    def bound(bounds: dict[int, bytes] | None, name: str) -> int | None:
        raw = (bounds or {}).get(fields[name].field_id)
        return None if raw is None else int(from_bytes(fields[name].field_type, raw))  # type: ignore[arg-type]

    found = []
    for task in tasks:
        lower, upper = (None, None) if task.delete_files else (task.file.lower_bounds, task.file.upper_bounds)
        found.append(
            FileStats(
                path=task.file.file_path,
                partition_lower=bound(lower, PARTITION),
                partition_upper=bound(upper, PARTITION),
                offset_lower=bound(lower, OFFSET),
                offset_upper=bound(upper, OFFSET),
                records=task.file.record_count,
            )
        )
    return found


def read_offsets(table: Table, tasks: Iterable[FileScanTask], paths: Collection[str]) -> dict[int, Any]:
    """Partition -> all offsets in the files at ``paths``, repeated ones too, as NumPy arrays in any order."""
    chosen = [task for task in tasks if task.file.file_path in paths]
    found: dict[int, list[Any]] = {}
    for batch in offsets(table, chosen):
        partitions, values = (
            batch.column(name).to_numpy(zero_copy_only=False) for name in (PARTITION, OFFSET)
        )
        for partition in np.unique(partitions):
            found.setdefault(int(partition), []).append(values[partitions == partition])
    return {partition: np.concatenate(parts) for partition, parts in found.items()}


def offsets(table: Table, tasks: Sequence[FileScanTask]) -> RecordBatchReader:
    """Partition and offset of every row of these files, batch by batch."""
    schema = table.schema().select(PARTITION, OFFSET)
    return _reader(table, schema, AlwaysTrue(), lambda: tasks, f"{len(tasks)} files of table {_name(table)}")


def read(
    table: Table, rows: BooleanExpression, columns: tuple[str, ...], snapshot_id: int | None = None
) -> RecordBatchReader:
    """Columns of the rows that match at a snapshot (None: the newest of ``main``), batch by batch.

    Raises Missing or Unreachable while it is read.
    """
    scan = table.scan(row_filter=rows, selected_fields=columns, snapshot_id=snapshot_id)
    return _reader(table, scan.projection(), rows, scan.plan_files, f"rows of table {_name(table)}")


def _reader(
    table: Table,
    projection: Schema,
    rows: BooleanExpression,
    plan_files: Callable[[], Iterable[FileScanTask]],
    what: str,
) -> RecordBatchReader:
    schema = schema_to_pyarrow(projection)

    def batches() -> Iterator[RecordBatch]:
        scan = ArrowScan(table.metadata, table.io, projection, rows)
        with asking(what):
            tasks = list(plan_files())
            # PyIceberg keeps all files of one call in memory.
            for start in range(0, len(tasks), FILES_AT_ONCE):
                yield from scan.to_record_batches(tasks[start : start + FILES_AT_ONCE])

    # The files' types may be larger than the schema's (large_string): the cast makes them equal.
    return RecordBatchReader.from_batches(schema, batches()).cast(schema)


def source_rows(table: Table, source_id: str) -> Iterator[int]:
    """The row numbers of one source that are published, repeated ones too."""
    for batch in read(table, EqualTo(SOURCE, source_id), (ROW,)):
        yield from batch.column(ROW).to_pylist()


def quarantined(table: Table, rows: BooleanExpression) -> Iterator[dict[str, Any]]:
    """Rows of a quarantine table, without the raw bytes."""
    columns = ("stage", "reason", PARTITION, OFFSET, SOURCE, ROW, "object", "line")
    for batch in read(table, rows, columns):
        yield from batch.to_pylist()


def known_files(table: Table) -> set[str]:
    """Every data and delete file of any kept snapshot, of any branch."""
    # Not inspect.all_files(): it fails for a table without manifests, and decodes every column's bounds.
    with asking(f"manifests of table {_name(table)}"):
        snapshots = table.snapshots()
        manifests = {m.manifest_path: m for snapshot in snapshots for m in snapshot.manifests(table.io)}
        return {
            entry.data_file.file_path
            for manifest in manifests.values()
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        }


def versions_written(table: Table, snapshot_id: int) -> int:
    """Count the data files, manifests and manifest list of a commit. Raises KeyError if it expired."""
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise KeyError(snapshot_id)
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    with asking(f"manifests of table {_name(table)}"):
        manifests = sum(
            manifest.added_snapshot_id == snapshot_id for manifest in snapshot.manifests(table.io)
        )
    return int(summary.get("added-data-files", 0)) + manifests + 1


def _name(table: Table) -> str:
    return ".".join(table.name())
