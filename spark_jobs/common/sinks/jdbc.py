"""Upsert a query's results into a table of PostgreSQL, MariaDB or MySQL, exactly once.

One transaction holds the fence's row (epoch, batch) and the batch's rows, so a replayed batch and a zombie's
batch change nothing, and readers see complete batches. Each row has its batch as ``version``. Changes that
other programs make to the table are not noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

import sqlalchemy as sa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.exc import DBAPIError, NoSuchTableError

from sluice.clients.databases import postgresql as _deadline  # noqa: F401 - registers the plugin of the engine
from sluice.clients.databases.errors import LOGIN_FIXES, TRANSIENT, DatabaseError, diagnose, server_message
from sluice.config.connection import POSTGRESQL, Database
from sluice.core.queries.fence import FENCE_TABLE, fence_key
from sluice.core.queries.result import VERSION
from spark_jobs.common.sinks.base import (
    RetryPolicy,
    SinkLoginRefused,
    SinkWriteFailed,
    Target,
    TransientError,
)
from spark_jobs.common.sinks.fence import Fence

# Rows, each with a value per column.
Upsert = Callable[[sa.Connection, Sequence[tuple[Any, ...]]], None]
# Spark's DDL type -> the element of an array; integers are BIGINT.
_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    "string": sa.Text(),
    "date": sa.Date(),
    "boolean": sa.Boolean(),
    "timestamp": sa.DateTime(timezone=True),
    "timestamp_ntz": sa.DateTime(timezone=True),
}


def upsert(kind: str, table: str, keys: Sequence[str], columns: Mapping[str, str]) -> Upsert:
    """The function that upserts rows. ``columns``: name -> Spark's DDL type, in the order of a row's values;
    ``keys``: the primary key."""
    target = sa.table(table, *(sa.column(name) for name in columns))
    others = [name for name in columns if name not in keys]
    make = _postgresql if kind == POSTGRESQL else _mysql
    return make(target, columns, list(keys), others)


def _postgresql(
    target: sa.TableClause, columns: Mapping[str, str], keys: list[str], others: list[str]
) -> Upsert:
    """One array per column: six times as many rows a second as row by row, and a tenth of the CPU time of
    SQLAlchemy's lists of values."""
    arrays = {
        name: postgresql.ARRAY(_TYPES.get(declared, sa.BigInteger())) for name, declared in columns.items()
    }
    source = (
        sa.func.unnest(*(sa.cast(sa.bindparam(name, type_=array), array) for name, array in arrays.items()))
        .table_valued(*columns, name="source")
        .render_derived()
    )
    selected = sa.select(*(source.c[name] for name in columns))
    insert = postgresql.insert(target).from_select(list(columns), selected)
    statement = insert.on_conflict_do_update(
        index_elements=keys, set_={name: insert.excluded[name] for name in others}
    )

    def write(connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        values = (list(column) for column in zip(*rows, strict=True))
        connection.execute(statement, dict(zip(columns, values, strict=True)))

    return write


def _mysql(target: sa.TableClause, columns: Mapping[str, str], keys: list[str], others: list[str]) -> Upsert:
    """The driver combines rows into statements of up to 1 MB."""
    insert = mysql.insert(target)
    statement = insert.on_duplicate_key_update({name: insert.inserted[name] for name in others})

    def write(connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        connection.execute(statement, [dict(zip(columns, row, strict=True)) for row in rows])

    return write


CHUNK_ROWS = 5_000
PROVISION = "run the DAG's provision_sinks step"
FIX = "repair it and restart the stream: nothing is lost"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMPS = ("timestamp", "timestamp_ntz")
_FIXES = {
    DatabaseError.DENIED: "give the user of the Airflow connection {connection} that right",
    DatabaseError.NO_DATABASE: "create it, or correct the schema of the Airflow connection {connection}",
    DatabaseError.NO_COLUMN: PROVISION + ", which says what differs",
    DatabaseError.DIFFERENT: PROVISION + ", which says what differs",
    DatabaseError.VALUE: "quarantine such rows, or make the column wider",
    DatabaseError.OTHER: FIX,
}
Result = TypeVar("Result")


class JdbcSink:
    """The table of one sink, over at most one connection. Not thread-safe.

    ``types``: result column -> Spark's DDL type.
    """

    def __init__(self, target: Target, types: Mapping[str, str], database: Database) -> None:
        query, sink = target.query, target.sink
        self.name = sink.name
        self._table, self._connection_id = sink.table, sink.connection
        self._target = sa.table(sink.table)
        self._keys = list(query.keys)
        self._columns = [*query.keys, *query.aggregates]
        self._types = types
        self._database = database
        self.engine = sa.create_engine(**database.sqlalchemy())
        self._fence = Fence(self.engine, fence_key(target.stream, target.query_name))
        self._retry = RetryPolicy(self.name, FIX, target.stall_timeout_seconds, target.stop)
        self._version: sa.ColumnElement[int] = sa.column(VERSION)
        columns = {column: types[column] for column in self._columns} | {VERSION: "bigint"}
        self._upsert = upsert(database.kind, sink.table, self._keys, columns)

    def open(self, epoch: int) -> int | None:
        """See base.Sink. Raises SinkWriteFailed if the table has other columns or another key, or the
        database is unavailable for longer than the stall timeout."""

        def attempt() -> int | None:
            self._check_table()
            return self._fence.open(epoch)

        return self._with_retries(attempt)

    def write(self, batch: int, rows: DataFrame, *, is_whole: bool = False) -> bool:
        """See base.Sink, and :meth:`open` for errors. Writes all rows or none, one per key; reads them
        once per attempt, a partition at a time. Around a whole result the database deletes all other rows."""
        # Computed now: within the transaction that would hold the lock of the fence's row.
        rows.count()
        started = False

        def attempt() -> bool:
            nonlocal started
            with self._fence.transaction(batch) as connection:
                if connection is None:
                    # If an attempt started, the batch is its own, and only the answer to its commit was lost.
                    return started
                started = True
                if is_whole:
                    # Not this query's, whose versions grow: an earlier query's, or by hand.
                    connection.execute(sa.delete(self._target).where(self._version >= batch))
                for chunk in self._chunks(rows):
                    self._upsert(connection, [(*row, batch) for row in chunk])
                if is_whole:
                    # Rows of keys that have no result any more.
                    connection.execute(sa.delete(self._target).where(self._version < batch))
            return True

        return self._with_retries(attempt)

    def close(self) -> None:
        self.engine.dispose()

    def _with_retries(self, attempt: Callable[[], Result]) -> Result:
        def translated() -> Result:
            with self._translated_errors():
                return attempt()

        return self._retry.call(translated)

    def _check_table(self) -> None:
        """Without the primary key, an upsert in MariaDB inserts every row again."""
        with self.engine.connect() as connection:
            inspector = sa.inspect(connection)
            columns = {column["name"] for column in inspector.get_columns(self._table)}
            key = inspector.get_pk_constraint(self._table)["constrained_columns"]
        missing = sorted({*self._columns, VERSION} - columns)
        if missing or set(key) != set(self._keys):
            problem = f"has no column {', '.join(missing)}" if missing else f"has the key ({', '.join(key)})"
            raise SinkWriteFailed(
                f"{self.name}: table {self._table} in {self._database.where} {problem}; it must have "
                f"{', '.join([*self._columns, VERSION])} and the key ({', '.join(self._keys)}): {PROVISION}"
            )

    def _chunks(self, rows: DataFrame) -> Iterator[list[tuple[Any, ...]]]:
        is_time = [self._types[column] in _TIMESTAMPS for column in self._columns]
        selected = rows.select(
            # As numbers: a Row's datetimes are in this machine's time zone.
            *(
                F.unix_micros(F.col(column).cast("timestamp")) if is_timestamp else F.col(column)
                for column, is_timestamp in zip(self._columns, is_time, strict=True)
            )
        )
        # MySQL's DATETIME knows no time zone; it holds UTC.
        epoch = _EPOCH if self._database.kind == POSTGRESQL else _EPOCH.replace(tzinfo=None)
        keys = len(self._keys)
        values = iter(selected.toLocalIterator())
        while chunk := list(islice(values, CHUNK_ROWS)):
            converted = [
                tuple(
                    epoch + timedelta(microseconds=value) if is_timestamp and value is not None else value
                    for value, is_timestamp in zip(row, is_time, strict=True)
                )
                for row in chunk
            ]
            for row in converted:
                if None in row[:keys]:
                    raise SinkWriteFailed(
                        f"{self.name}: a result has no {self._columns[row.index(None)]}, which is a part of "
                        f"its key in {self._database.where}; quarantine rows without it, or group by "
                        "another column"
                    )
            # One order of locks for all sessions.
            yield sorted(converted, key=lambda row: row[:keys])

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise the database's errors as TransientError or SinkWriteFailed, without SQLAlchemy's text, which
        holds the statement."""
        try:
            yield
        except DBAPIError as error:
            cause = error.orig if error.orig is not None else error
            kind = diagnose(self._database.kind, cause)
            message = f"{self._database.where} {kind} ({server_message(cause)})"
            if kind in TRANSIENT or error.connection_invalidated:
                raise TransientError(message, kind) from cause
            if kind == DatabaseError.NO_TABLE:
                missing = FENCE_TABLE if FENCE_TABLE in server_message(cause) else self._table
                raise self._missing(missing) from cause
            if kind in LOGIN_FIXES:
                fix = f"{LOGIN_FIXES[kind]} {self._connection_id}"
                raise SinkLoginRefused(f"{self.name}: {message}. Fix: {fix}") from cause
            fix = _FIXES[kind].format(connection=self._connection_id)
            raise SinkWriteFailed(f"{self.name}: {message}. Fix: {fix}") from cause
        except NoSuchTableError as error:
            raise self._missing(self._table) from error
        except (LookupError, ValueError) as error:
            # From the fence, with its fix, or from the driver, for a value that it cannot send.
            raise SinkWriteFailed(f"{self.name}: {self._database.where}: {error}") from error

    def _missing(self, table: str) -> SinkWriteFailed:
        return SinkWriteFailed(
            f"{self.name}: table {table} is missing in {self._database.where}; {PROVISION}"
        )
