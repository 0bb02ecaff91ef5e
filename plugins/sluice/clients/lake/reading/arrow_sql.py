"""SQL over Arrow batches by DuckDB, in bounded memory: the rest goes to disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa

MEMORY_LIMIT = "128MB"
THREADS = 2
ROWS_AT_ONCE = 16_384


class ArrowSql:
    """A database of one connection, deleted with it. Times are in UTC."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def rows(self, query: str, **tables: pa.Table | pa.RecordBatchReader) -> list[tuple[Any, ...]]:
        """Run a query over ``tables``; a reader can be used once in it. Raises a reader's error as it was."""
        with self._asking(tables):
            return self._connection.execute(query).fetchall()

    def batches(self, query: str, **tables: pa.Table | pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """As :meth:`rows`, batch by batch."""
        with self._asking(tables):
            yield from self._connection.sql(query).to_arrow_reader(ROWS_AT_ONCE)

    @contextmanager
    def _asking(self, tables: Mapping[str, pa.Table | pa.RecordBatchReader]) -> Iterator[None]:
        failures: list[Exception] = []
        for name, table in tables.items():
            readable = _recorded(table, failures) if isinstance(table, pa.RecordBatchReader) else table
            self._connection.register(name, readable)
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            # DuckDB keeps only the message of a reader's error.
            if failures:
                raise failures[0] from error
            raise


@contextmanager
def open_sql() -> Iterator[ArrowSql]:
    """Open an empty database; what it spills to disk is deleted with it."""
    with connected(MEMORY_LIMIT) as connection:
        yield ArrowSql(connection)


@contextmanager
def connected(memory_limit: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """As :func:`open_sql`, DuckDB's own connection."""
    with (
        TemporaryDirectory(prefix="sluice-sql-") as folder,
        duckdb.connect(
            config={
                "memory_limit": memory_limit,
                "temp_directory": folder,
                "threads": THREADS,
                "preserve_insertion_order": False,
                "python_enable_replacements": False,
                # Each file is read once: its bytes would only fill the limit.
                "enable_external_file_cache": False,
            }
        ) as connection,
    ):
        # Not in ``config``: an extension defines it.
        connection.execute("set TimeZone = 'UTC'")
        yield connection


def quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _recorded(reader: pa.RecordBatchReader, failures: list[Exception]) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except Exception as error:
            failures.append(error)
            raise

    return pa.RecordBatchReader.from_batches(reader.schema, batches())
