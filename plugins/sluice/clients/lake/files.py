"""What a table holds, file by file: from metadata where that is enough, by column where it is not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
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
    In,
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
    """The rows whose coordinates lie in ``expected``."""
    parts = [
        And(equal(PARTITION, partition), _is(GreaterThanOrEqual, OFFSET, start), _is(LessThan, OFFSET, until))
        for partition, ranges in expected.partitions.items()
        for start, until in ranges
    ]
    # Or(a, b, *rest) nests by itself; it wants two.
    return Or(AlwaysFalse(), AlwaysFalse(), *parts)


def equal(column: str, value: int | str) -> BooleanExpression:
    """The rows with that value in that column."""
    return _is(EqualTo, column, value)


def at_least(column: str, value: int | str) -> BooleanExpression:
    """The rows with that value or a higher one in that column; a moment is written as ISO 8601 does."""
    return _is(GreaterThanOrEqual, column, value)


def among(column: str, values: Collection[str]) -> BooleanExpression:
    """The rows with one of these values in that column; a date is written as ISO 8601 does."""
    return _is(In, column, values)


def between(column: str, begins_and_ends: Iterable[tuple[str, str]]) -> BooleanExpression:
    """The rows whose value lies in one of these half-open ranges; moments are written as ISO 8601 does."""
    parts = [
        And(_is(GreaterThanOrEqual, column, begin), _is(LessThan, column, end))
        for begin, end in begins_and_ends
    ]
    return Or(AlwaysFalse(), AlwaysFalse(), *parts)


def union(left: BooleanExpression, right: BooleanExpression) -> BooleanExpression:
    """The rows that meet both."""
    return And(left, right)


def _is(predicate: Any, column: str, value: int | str | Collection[str]) -> BooleanExpression:
    # Any: mypy sees the fields of PyIceberg's pydantic models in place of their constructors.
    expression: BooleanExpression = predicate(column, value)
    return expression


def plan(table: Table, rows: BooleanExpression) -> list[FileScanTask]:
    """The data files of ``main`` that may hold such rows; reads manifests, no data."""
    if table.snapshot_by_name(MAIN) is None:
        return []
    with asking(f"manifests of table {_name(table)}"):
        return list(table.scan(row_filter=rows).use_ref(MAIN).plan_files())


def facts(table: Table, tasks: Iterable[FileScanTask]) -> list[FileStats]:
    """What metadata says of each file's coordinates.

    Bounds are None where the manifest has none, and where delete files apply (then the metadata counts rows
    that are gone): such a file is settled by reading its columns.
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


def coordinates(table: Table, tasks: Iterable[FileScanTask], paths: Collection[str]) -> dict[int, Any]:
    """Partition -> every offset of the files named, as often as it is there; two columns are read.

    As arrays of NumPy, in no order: a load has millions.
    """
    chosen = [task for task in tasks if task.file.file_path in paths]
    found: dict[int, list[Any]] = {}
    for partitions, offsets in pairs(table, chosen):
        for partition in np.unique(partitions):
            found.setdefault(int(partition), []).append(offsets[partitions == partition])
    return {partition: np.concatenate(parts) for partition, parts in found.items()}


def pairs(
    table: Table, tasks: Sequence[FileScanTask], trigger_immediately: int = FILES_AT_ONCE
) -> Iterator[tuple[Any, Any]]:
    """Batches of (partitions, offsets) of these files, both as arrays of NumPy."""
    with asking(f"{len(tasks)} files of table {_name(table)}"):
        for batch in _batches(
            table, table.schema().select(PARTITION, OFFSET), AlwaysTrue(), tasks, trigger_immediately
        ):
            yield (
                batch.column(PARTITION).to_numpy(zero_copy_only=False),
                batch.column(OFFSET).to_numpy(zero_copy_only=False),
            )


def read(
    table: Table, rows: BooleanExpression, columns: tuple[str, ...], snapshot_id: int | None = None
) -> RecordBatchReader:
    """The rows that match at a snapshot (None: the newest of ``main``), with those columns, batch by batch.

    Raises Missing or Unreachable while it is read.
    """
    scan = table.scan(row_filter=rows, selected_fields=columns, snapshot_id=snapshot_id)
    schema = schema_to_pyarrow(scan.projection())

    def batches() -> Iterator[RecordBatch]:
        with asking(f"rows of table {_name(table)}"):
            yield from _batches(table, scan.projection(), rows, list(scan.plan_files()))

    # The files' types may be larger than the schema's (large_string); a cast of the reader evens them out.
    return RecordBatchReader.from_batches(schema, batches()).cast(schema)


def _batches(
    table: Table,
    schema: Schema,
    rows: BooleanExpression,
    tasks: Sequence[FileScanTask],
    trigger_immediately: int = FILES_AT_ONCE,
) -> Iterator[RecordBatch]:
    scan = ArrowScan(table.metadata, table.io, schema, rows)
    # PyIceberg holds all files of one question in memory at once.
    for start in range(0, len(tasks), trigger_immediately):
        yield from scan.to_record_batches(tasks[start : start + trigger_immediately])


def source_rows(table: Table, source_id: str) -> Iterator[int]:
    """The row numbers of one source that are published, as often as they are there."""
    for batch in read(table, equal(SOURCE, source_id), (ROW,)):
        yield from batch.column(ROW).to_pylist()


def quarantined(table: Table, rows: BooleanExpression) -> Iterator[dict[str, Any]]:
    """Rows of a quarantine table, without the raw bytes."""
    columns = ("stage", "reason", PARTITION, OFFSET, SOURCE, ROW, "object", "line")
    for batch in read(table, rows, columns):
        yield from batch.to_pylist()


def known_files(table: Table) -> set[str]:
    """Every data and delete file that any kept snapshot knows, of any branch."""
    manifests = {}
    with asking(f"manifests of table {_name(table)}"):
        for snapshot in table.snapshots():
            for manifest in snapshot.manifests(table.io):
                manifests[manifest.manifest_path] = manifest
        return {
            entry.data_file.file_path
            for manifest in manifests.values()
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        }


def versions_written(table: Table, snapshot_id: int) -> int:
    """Objects that a commit wrote besides metadata files: its data files, its manifests, its manifest list.

    Raises KeyError for a snapshot that is not kept.
    """
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
