"""Read a table's files: bounds from metadata, and columns if those are not conclusive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

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
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import ManifestContent, ManifestEntry
from pyiceberg.table import FileScanTask, ManifestGroupPlanner, Table

from sluice.clients.lake.commits import MAIN
from sluice.clients.lake.errors import asking
from sluice.clients.lake.reading import data_files
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.verify import FileStats
from sluice.core.tables.storage import WrittenObject

ALL_ROWS = AlwaysTrue()
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


def committed_since(
    table: Table,
    sequence_number: int,
    rows: BooleanExpression = ALL_ROWS,
    note: Callable[[ManifestEntry], bool] = lambda entry: True,
) -> list[FileScanTask]:
    """The data files of ``main`` in manifests with a higher sequence number, from these manifests only: those
    that may hold ``rows``. ``note``: is told each entry, and says whether its file counts.

    A file is never newer than a manifest that names it, so none that was committed later is missing; a merged
    or rewritten manifest names older files too.
    """
    snapshot = table.snapshot_by_name(MAIN)
    if snapshot is None:
        return []
    with asking(f"manifests of table {_name(table)}"):
        manifests = [
            manifest
            for manifest in snapshot.manifests(table.io)
            # Deleted rows may be in files that are older than the manifest.
            if manifest.content == ManifestContent.DELETES
            or (manifest.sequence_number or 0) > sequence_number
        ]
        return list(ManifestGroupPlanner(table.metadata, table.io, rows).plan_files(manifests, note))


def file_stats(table: Table, tasks: Iterable[FileScanTask]) -> list[FileStats]:
    """Each file's offset bounds from metadata.

    None if the manifest has none, if a row has no offset, or if delete files apply (the metadata then counts
    deleted rows): such a file's columns need to be read.
    """
    fields = {name: table.schema().find_field(name) for name in (PARTITION, OFFSET)}

    def bound(bounds: dict[int, bytes] | None, name: str) -> int | None:
        raw = (bounds or {}).get(fields[name].field_id)
        return None if raw is None else int(from_bytes(fields[name].field_type, raw))  # type: ignore[arg-type]

    found = []
    for task in tasks:
        # Rows that the producer rejected have no offset: the bounds say nothing of them.
        nulls = task.file.null_value_counts or {}
        has_none = any(nulls.get(field.field_id) for field in fields.values())
        is_unknown = bool(task.delete_files) or has_none
        lower, upper = (None, None) if is_unknown else (task.file.lower_bounds, task.file.upper_bounds)
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


def read(
    table: Table,
    rows: BooleanExpression,
    columns: tuple[str, ...],
    snapshot_id: int | None = None,
    tasks: Sequence[FileScanTask] | None = None,
    by: Callable[..., Iterator[RecordBatch]] = data_files.read,
) -> RecordBatchReader:
    """Columns of the rows that match, batch by batch: in ``tasks``, or at a snapshot (None: the newest of
    ``main``). ``by``: :func:`data_files.read`, or another with its promises.

    Raises Missing, Refused or Unreachable while it is read.
    """
    scan = table.scan(row_filter=rows, selected_fields=columns, snapshot_id=snapshot_id)

    def batches() -> Iterator[RecordBatch]:
        with asking(f"rows of table {_name(table)}"):
            chosen = list(scan.plan_files() if tasks is None else tasks)
            yield from by(table, chosen, scan.projection(), rows)

    return RecordBatchReader.from_batches(schema_to_pyarrow(scan.projection()), batches())


def quarantined(
    table: Table, rows: BooleanExpression, tasks: Sequence[FileScanTask] | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of a quarantine table, without the raw bytes; as :func:`read`."""
    columns = ("stage", "reason", PARTITION, OFFSET, SOURCE, ROW, "object", "line")
    for batch in read(table, rows, columns, tasks=tasks):
        yield from batch.to_pylist()


def written_since(table: Table, sequence_number: int) -> list[WrittenObject]:
    """The manifest list of ``main``, its manifests with a higher sequence number, and of these the data files
    with one; nothing if ``main`` has none."""
    snapshot = table.snapshot_by_name(MAIN)
    if snapshot is None or (snapshot.sequence_number or 0) <= sequence_number:
        return []
    found = [WrittenObject(snapshot.manifest_list)]
    with asking(f"manifests of table {_name(table)}"):
        for manifest in snapshot.manifests(table.io):
            if (manifest.sequence_number or 0) <= sequence_number:
                continue
            found.append(WrittenObject(manifest.manifest_path, manifest.manifest_length))
            found += [
                WrittenObject(entry.data_file.file_path, entry.data_file.file_size_in_bytes)
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                if (entry.sequence_number or 0) > sequence_number
            ]
    return found


def _name(table: Table) -> str:
    return ".".join(table.name())
