"""Count the offsets and the rows of data files, record batch by record batch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import RecordBatch
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import BooleanExpression, In
from pyiceberg.table import FileScanTask, Table

from sluice.clients.lake.reading import files
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.messages import summarize
from sluice.core.offsets.counts import Counts

UNPLACED_FIX = (
    "end the program that writes to the table, and delete these rows or restore the catalog to before them "
    "(docs/operating.md, Restore the catalog)"
)
# Rows of files of one source for which these are read without its id.
MIN_ROWS_OF_ONE = 1_000_000


class NullValue(TypeError):
    """A row has none in ``column``, by which it would be counted."""

    code = ErrorCode.ROWS_UNPLACED

    def __init__(self, column: str) -> None:
        super().__init__(f"a row has no {column}")
        self.column = column


@contextmanager
def null_named(
    table: Table, tasks: Sequence[FileScanTask], rows: BooleanExpression = files.ALL_ROWS
) -> Iterator[None]:
    """Within it NullValue becomes Refused with ROWS_UNPLACED, which names the files that have such ``rows``,
    by a read of the column."""
    try:
        yield
    except NullValue as error:
        counts = {
            task.file.file_path: sum(
                batch[error.column].null_count
                for batch in files.read(table, rows, (error.column,), tasks=[task])
            )
            for task in tasks
        }
        named = [f"{count} in {path}" for path, count in counts.items() if count]
        raise Refused(
            f"table {'.'.join(table.name())}: {sum(counts.values())} rows have no {error.column}: "
            f"{summarize(named)}. Fix: {UNPLACED_FIX}",
            ErrorCode.ROWS_UNPLACED,
        ) from error


def count_offsets(
    table: Table, tasks: Sequence[FileScanTask], rows: BooleanExpression = files.ALL_ROWS
) -> Counts[int]:
    """The offsets in these files (of the rows that match), by partition. Raises as :func:`~.files.read` and
    :func:`null_named`."""
    found = Counts[int]()
    if tasks:
        with null_named(table, tasks, rows):
            for batch in files.read(table, rows, (files.PARTITION, files.OFFSET), tasks=tasks):
                add_offsets(found, batch)
    return found


def add_offsets(found: Counts[int], batch: RecordBatch) -> None:
    """Count the offsets of these rows too. Raises NullValue if one has none."""
    if not batch.num_rows:
        return
    _check_no_null(batch, files.PARTITION, files.OFFSET)
    partitions, values = (
        batch.column(name).to_numpy(zero_copy_only=False) for name in (files.PARTITION, files.OFFSET)
    )
    # Most files are of one partition.
    if partitions.min() == partitions.max():
        found.at(int(partitions[0])).add(values)
        return
    numbers, codes = np.unique(partitions, return_inverse=True)
    found.add_grouped(codes, numbers.tolist(), values)


def rows_by_source(
    table: Table, source_ids: Collection[str], tasks: Sequence[FileScanTask] | None = None
) -> Counts[str]:
    """The row numbers that these files hold (``tasks``; None: the whole table's), by source id.

    Each file is read once, however many sources it has rows of.
    """
    within = files.committed_since(table, 0) if tasks is None else tasks
    ordered = sorted(source_ids)
    chosen = [task for task in within if may_hold(table, task, ordered)]
    found, rows = Counts[str](), In(files.SOURCE, source_ids)
    with null_named(table, chosen, rows):
        for batch in files.read(table, rows, (files.SOURCE, files.ROW), tasks=chosen):
            add_rows(found, batch)
    return found


def count_held(
    table: Table, tasks: Sequence[FileScanTask], source_ids: Collection[str]
) -> tuple[Counts[int], Counts[str]]:
    """The offsets in these files, by partition, and the row numbers of the sources, by source id: by one read
    of both. Raises as :func:`count_offsets`."""
    offsets, rows, wanted = Counts[int](), Counts[str](), pa.array(sorted(source_ids), pa.string())
    for source, of_source in _by_source(table, tasks):
        columns = (files.PARTITION, files.OFFSET, *([] if source else [files.SOURCE]), files.ROW)
        with null_named(table, of_source):
            for batch in files.read(table, files.ALL_ROWS, columns, tasks=of_source):
                add_offsets(offsets, batch)
                only = source or _only_source(batch)
                if only is None:
                    add_rows(rows, batch.filter(pc.is_in(batch[files.SOURCE], wanted)))
                elif only in source_ids and batch.num_rows:
                    _add_rows_of(rows, only, batch)
    return offsets, rows


def _only_source(batch: RecordBatch) -> str | None:
    """The source that all of these rows have; None if they have several, or none."""
    named = batch.column(files.SOURCE)
    # A comparison takes a fraction of the time of numbers for all texts, and most batches are of one source.
    if len(named) and named[0].is_valid and pc.equal(named, named[0]).true_count == len(named):
        return str(named[0].as_py())
    return None


def _add_rows_of(found: Counts[str], source: str, batch: RecordBatch) -> None:
    _check_no_null(batch, files.ROW)
    found.at(source).add(batch.column(files.ROW).to_numpy(zero_copy_only=False))


def _by_source(
    table: Table, tasks: Sequence[FileScanTask]
) -> Iterator[tuple[str | None, list[FileScanTask]]]:
    """The tasks by the source that all rows of their file have, as its bounds say; None: of several, or of
    one with few rows, for which a read by itself does not pay."""
    found = dict[str | None, list[FileScanTask]]()
    for task in tasks:
        # A feed's table has none, and no tasks come from it.
        column = table.schema().find_field(files.SOURCE).field_id
        bounds, nulls = _source_bounds(table, task), task.file.null_value_counts or {}
        is_one = bounds is not None and bounds[0] == bounds[1] and nulls.get(column) == 0
        found.setdefault(bounds[0] if bounds and is_one else None, []).append(task)
    of_several = found.pop(None, [])
    for source, of_source in found.items():
        if sum(task.file.record_count for task in of_source) < MIN_ROWS_OF_ONE:
            of_several += of_source
        else:
            yield source, of_source
    if of_several:
        yield None, of_several


def add_rows(found: Counts[str], batch: RecordBatch) -> None:
    """Count the row numbers of these rows, each of which has a source. Raises NullValue if one has none."""
    if not batch.num_rows:
        return
    _check_no_null(batch, files.SOURCE, files.ROW)
    if only := _only_source(batch):
        _add_rows_of(found, only, batch)
        return
    sources = batch.column(files.SOURCE).dictionary_encode()
    codes = sources.indices.to_numpy(zero_copy_only=False)
    rows = batch.column(files.ROW).to_numpy(zero_copy_only=False)
    found.add_grouped(codes, sources.dictionary.to_pylist(), rows)


def _check_no_null(batch: RecordBatch, *columns: str) -> None:
    for name in columns:
        if batch.column(name).null_count:
            raise NullValue(name)


def may_hold(table: Table, task: FileScanTask, source_ids: Sequence[str]) -> bool:
    """False only if the file's bounds show that it has no row of the sorted sources."""
    bounds = _source_bounds(table, task)
    if bounds is None:
        return bool(source_ids)
    first = bisect_left(source_ids, bounds[0])
    return first < len(source_ids) and source_ids[first] <= bounds[1]


def _source_bounds(table: Table, task: FileScanTask) -> tuple[str, str] | None:
    column = table.schema().find_field(files.SOURCE)
    lower, upper = (
        (bounds or {}).get(column.field_id) for bounds in (task.file.lower_bounds, task.file.upper_bounds)
    )
    if lower is None or upper is None:
        return None
    least, greatest = (str(from_bytes(column.field_type, raw)) for raw in (lower, upper))  # type: ignore[arg-type]
    return least, greatest
