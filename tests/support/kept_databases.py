"""DuckDB's databases, kept for the next reader: to open one costs 15 ms, of which most tests want nothing.

In place of :func:`sluice.clients.lake.reading.arrow_sql.connected`, for readers of data files, which leave no
table behind. The tests of that reader open their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import duckdb

from sluice.clients.lake.reading.arrow_sql import connected

# Closed, and their folders deleted, when Python ends.
_opened = ExitStack()
# Those that no reader has, by their memory limit: a reader's file system is its database's.
_free: dict[str, list[duckdb.DuckDBPyConnection]] = defaultdict(list)


@contextmanager
def kept(memory_limit: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own to a database that no other reader has meanwhile."""
    free = _free[memory_limit]
    database = free.pop() if free else _open(memory_limit)
    with database.cursor() as connection:
        connection.execute("set TimeZone = 'UTC'")
        yield connection
        for name in connection.list_filesystems():
            connection.unregister_filesystem(name)
    # Not after an error: what that left of it is for no other reader.
    free.append(database)


def _open(memory_limit: str) -> duckdb.DuckDBPyConnection:
    database = _opened.enter_context(connected(memory_limit))
    # Each reader's files have the same names.
    database.execute("set enable_external_file_cache = false")
    return database
