"""Rows of a table's data files, read by DuckDB: another library than the one that wrote them, PyArrow.

A check that reads by its writer's library shares the writer's mistakes. Columns are found by field id, at
every depth, so a renamed one is the same and one that a file lacks is null. Rows that a table's delete files
name are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import bind, extract_field_ids
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.types import BinaryType, LongType, NestedField, StringType

from sluice.clients.lake.reading.arrow_sql import connected
from sluice.clients.lake.reading.opened_files import OpenedFiles
from sluice.clients.lake.reading.sql_condition import condition
from sluice.clients.lake.reading.sql_schema import column, schema_map
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.tables.file_removal import MISSING_FIX

# Up to the last MB of each is in memory, and of two that are read a row group's columns.
FILES_AT_ONCE = 16
ROWS_AT_ONCE = 16_384
# The least is enough for offsets, so that a proof fits into a small task; row groups of wide rows need more.
MIN_MEMORY_MB, MAX_MEMORY_MB = 64, 1024
# Columns of a file, compressed, that are in memory: of two threads, packed and unpacked.
_COPIES = 4
# Bytes of a column of texts, compressed, for each row.
_SHORT_TEXT = 64
NAMED = 3
# The consumer rejects such records.
TEXT_FIX = "docs/operating.md, A table cannot be read"
# All others come of bytes that are no Parquet, also those without a class of their own.
_NOT_OF_A_FILE = (duckdb.OutOfMemoryException, duckdb.BinderException, duckdb.ParserException)
# Iceberg's reserved field ids, of its files of deleted rows.
_DELETES = Schema(
    NestedField(2147483546, "file_path", StringType()), NestedField(2147483545, "pos", LongType())
)
_PATH, _POSITION = (column(field.field_id) for field in _DELETES.fields)


class InvalidText(Refused):
    """A data file has text that is not UTF-8, which DuckDB does not read. Sluice writes none."""

    code = ErrorCode.CORRUPT_OBJECT


def read(
    table: Table, tasks: Sequence[FileScanTask], projection: Schema, rows: BooleanExpression
) -> Iterator[pa.RecordBatch]:
    """The columns of ``projection`` of the rows that match, in any order.

    Raises as the table's FileIO does, and Refused with CORRUPT_OBJECT for a file that DuckDB cannot read; of
    these InvalidText for one with such a text.
    """
    bound = bind(table.schema(), rows, case_sensitive=True)
    names, schema = [column(field.field_id) for field in projection.fields], schema_to_pyarrow(projection)
    needed = {field.field_id: field for field in projection.fields}
    for field_id in extract_field_ids(bound):
        needed.setdefault(field_id, table.schema().find_field(field_id))
    limit = f"{memory_mb([task.file for task in tasks], needed.values())}MB"
    reader = _Reader(table, schema_map(Schema(*needed.values())), limit)
    where, parameters = condition(bound)
    with reader:
        # A file with deleted rows by itself: its rows are counted from its first.
        plain = [task for task in tasks if not task.delete_files]
        groups = [plain[begin : begin + FILES_AT_ONCE] for begin in range(0, len(plain), FILES_AT_ONCE)]
        groups += [[task] for task in tasks if task.delete_files]
        for group in groups:
            for batch in reader.batches(group, names, where, parameters):
                yield pa.RecordBatch.from_arrays(
                    [values.cast(field.type) for values, field in zip(batch.columns, schema, strict=True)],
                    schema=schema,
                )


def memory_mb(files: Sequence[DataFile], columns: Collection[NestedField]) -> int:
    """Memory that reading these columns of any of the files may take: DuckDB reads a column of a row group at
    once, which is no larger than the file has it by its metadata. Of long texts it unpacks 2,048 at once."""
    ids = [field.field_id for field in columns if field.field_type.is_primitive]
    if len(ids) < len(columns):
        return MAX_MEMORY_MB
    texts = [one.field_id for one in columns if isinstance(one.field_type, StringType | BinaryType)]
    largest = 0
    for file in files:
        sizes = file.column_sizes
        if sizes is None or any(sizes.get(one, 0) > _SHORT_TEXT * file.record_count for one in texts):
            return MAX_MEMORY_MB
        largest = max(largest, sum(sizes.get(number, 0) for number in ids))
    return min(MIN_MEMORY_MB + _COPIES * largest // (1 << 20), MAX_MEMORY_MB)


class _Reader:
    """A connection to DuckDB that reads a table's files. In its context."""

    def __init__(self, table: Table, columns: str, memory_limit: str) -> None:
        """``columns``: DuckDB's `schema`."""
        self._table, self._columns = table, columns
        self._files = OpenedFiles(table.io)
        self._context = connected(memory_limit)

    def __enter__(self) -> None:
        self._sql = self._context.__enter__()
        self._sql.register_filesystem(self._files)

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def batches(
        self, tasks: Sequence[FileScanTask], names: Sequence[str], where: str, parameters: Sequence[Any]
    ) -> Iterator[pa.RecordBatch]:
        files = [task.file for task in tasks]
        deleted = [one for task in tasks for one in sorted(task.delete_files, key=lambda one: one.file_path)]
        if deleted:
            self._sql.register("deleted", self._deleted(files[0], deleted))
            where = f"({where}) and file_row_number not in (select pos from deleted)"
        source = self._source(files, self._columns)
        # Without columns, as of a count, a row is still a row.
        query = f"select {', '.join(names) or 'null'} from {source} where {where}"
        yield from self._asked(files, query, parameters)

    def _source(self, files: Sequence[DataFile], columns: str) -> str:
        """SQL for the rows of these files, which are open afterwards. Raises Refused for one without field
        ids: DuckDB would find null in all its columns."""
        if other := [one.file_path for one in files if one.file_format != FileFormat.PARQUET]:
            raise self._damaged(other, "it is no Parquet file, as each that Sluice writes")
        paths = ", ".join(f"'{name}'" for name in self._files.opened(one.file_path for one in files))
        without = (
            f"select file_name from parquet_schema([{paths}]) group by file_name having count(field_id) = 0"
        )
        nameless = [name for batch in self._asked(files, without, ()) for name in batch[0].to_pylist()]
        if nameless:
            raise self._damaged([*map(self._files.location, nameless)], "it has no field ids, so no columns")
        return f"read_parquet([{paths}], schema = {columns}, hive_partitioning = false, can_have_nan = true)"

    def _deleted(self, file: DataFile, deletes: Sequence[DataFile]) -> pa.Table:
        """Column ``pos``: the numbers of the file's rows that these say are deleted."""
        found = []
        for one in deletes:
            if one.file_format == FileFormat.PUFFIN:
                # A bitmap, which no library of Parquet reads.
                with self._table.io.new_input(one.file_path).open() as stream:
                    vectors = deletion_vectors_from_puffin_file(PuffinFile(stream.read()))
                of_file = [one for one in vectors if one.referenced_data_file == file.file_path]
                found += [number for vector in of_file for number in vector.to_vector().to_pylist()]
                continue
            source = self._source([one], schema_map(_DELETES))
            query = f"select {_POSITION} from {source} where {_PATH} = $1"
            for batch in self._asked([one], query, [file.file_path]):
                found += batch[0].to_pylist()
        return pa.table({"pos": pa.array(found, pa.int64())})

    def _asked(
        self, files: Sequence[DataFile], query: str, parameters: Sequence[Any]
    ) -> Iterator[pa.RecordBatch]:
        """The answer; DuckDB's errors as those of reading the files."""
        try:
            yield from self._sql.sql(query, params=list(parameters)).to_arrow_reader(ROWS_AT_ONCE)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            # Arrow's and OSError: those in the middle of an answer.
            if self._files.failures:
                raise self._files.failures[0] from error
            if isinstance(error, _NOT_OF_A_FILE):
                raise
            raise self._damaged([one.file_path for one in files], str(error).partition("\n")[0]) from error

    def _damaged(self, locations: Sequence[str], how: str) -> Refused:
        shown = ", ".join(locations[:NAMED])
        what = (
            f"data file {shown}" if len(locations) == 1 else f"one of {len(locations)} data files ({shown})"
        )
        name = ".".join(self._table.name())
        if "not valid UTF8" in how:
            return InvalidText(
                f"table {name}: {what} has another program's text: {_line(how)}. Fix: {TEXT_FIX}"
            )
        message = f"table {name}: {what} is damaged: {_line(how)}. Fix: {MISSING_FIX}"
        return Refused(message, ErrorCode.CORRUPT_OBJECT)


def _line(text: str) -> str:
    return " ".join(text.split())
