"""SQL over Arrow batches: DuckDB computes, its memory is bounded, and what is more goes to disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa

MEMORY_LIMIT = "128MB"
THREADS = 2


class ArrowSql:
    """A database of one connection; its tables end with it. Times are in UTC."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def rows(self, query: str, **tables: pa.Table | pa.RecordBatchReader) -> list[tuple[Any, ...]]:
        """Run a query over ``tables``; a reader can be read once, by one place of the query.

        Raises what a reader raised while DuckDB read it, as it was.
        """
        failures: list[Exception] = []
        for name, table in tables.items():
            readable = _recorded(table, failures) if isinstance(table, pa.RecordBatchReader) else table
            self._connection.register(name, readable)
        try:
            return self._connection.execute(query).fetchall()
        except duckdb.Error as error:
            # DuckDB passes on the text of a reader's error, not its type.
            if failures:
                raise failures[0] from error
            raise


@contextmanager
def open_sql(memory_limit: str = MEMORY_LIMIT) -> Iterator[ArrowSql]:
    """Open an empty database; what it spills to disk is deleted with it."""
    with (
        TemporaryDirectory(prefix="sluice-sql-") as folder,
        duckdb.connect(
            config={
                "memory_limit": memory_limit,
                "temp_directory": folder,
                "threads": THREADS,
                "preserve_insertion_order": False,
                "python_enable_replacements": False,
            }
        ) as connection,
    ):
        # Known only once the connection is there: it belongs to an extension (inside the wheel).
        connection.execute("set TimeZone = 'UTC'")
        yield ArrowSql(connection)


def quoted(column: str) -> str:
    """A column's name as an identifier in SQL."""
    return '"' + column.replace('"', '""') + '"'


def _recorded(reader: pa.RecordBatchReader, failures: list[Exception]) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except Exception as error:
            failures.append(error)
            raise

    return pa.RecordBatchReader.from_batches(reader.schema, batches())
