"""Upserts.

Many rows by one statement: inserted, or put in place of those with the same key.

A query's results in a table of PostgreSQL, MariaDB or MySQL, by UPSERT, exactly once.

One transaction holds the fence's row (epoch, batch) and the batch's rows: a batch that is replayed, or
written by an owner that is thought dead, changes nothing. Each row carries the batch that gave it, as
``version``. Readers see whole batches. What others write into the table, or delete, it does not notice.
"""

from __future__ import annotations

import threading
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

from sluice.model.queries.database_errors import TRANSIENT, DatabaseError, diagnose, says
from sluice.model.queries.state import FENCE_TABLE, fence_key
from sluice.model.spec.connection import POSTGRESQL, Database
from sluice.model.spec.query import VERSION, Query, Sink
from spark_jobs.common.sinks.base import RetryPolicy, SinkWriteFailed, TransientError
from spark_jobs.common.sinks.fence import Fence, Limits

# Rows, each with a value per column.
Upsert = Callable[[sa.Connection, Sequence[tuple[Any, ...]]], None]
# Spark's DDL type -> the element of an array; whole numbers are BIGINT.
_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    "string": sa.Text(),
    "date": sa.Date(),
    "boolean": sa.Boolean(),
    "timestamp": sa.DateTime(timezone=True),
    "timestamp_ntz": sa.DateTime(timezone=True),
}


def upsert(kind: str, table: str, keys: Sequence[str], columns: Mapping[str, str]) -> Upsert:
    """What writes rows into ``table`` of a database of this kind.

    ``columns``: name -> Spark's DDL type, in the order of a row's values; ``keys`` are its primary key.
    """
    target = sa.table(table, *(sa.column(name) for name in columns))
    others = [name for name in columns if name not in keys]
    make = _postgresql if kind == POSTGRESQL else _mysql
    return make(target, columns, list(keys), others)


def _postgresql(
    target: sa.TableClause, columns: Mapping[str, str], keys: list[str], others: list[str]
) -> Upsert:
    """One array per column. Row by row the driver writes a sixth of the rows a second; SQLAlchemy's lists of
    values cost ten times the processor."""
    arrays = {
        name: postgresql.ARRAY(_TYPES.get(declared, sa.BigInteger())) for name, declared in columns.items()
    }
    given = (
        sa.func.unnest(*(sa.cast(sa.bindparam(name, type_=array), array) for name, array in arrays.items()))
        .table_valued(*columns, name="given")
        .render_derived()
    )
    selected = sa.select(*(given.c[name] for name in columns))
    insert = postgresql.insert(target).from_select(list(columns), selected)
    statement = insert.on_conflict_do_update(
        index_elements=keys, set_={name: insert.excluded[name] for name in others}
    )

    def write(connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        values = (list(column) for column in zip(*rows, strict=True))
        connection.execute(statement, dict(zip(columns, values, strict=True)))

    return write


def _mysql(target: sa.TableClause, columns: Mapping[str, str], keys: list[str], others: list[str]) -> Upsert:
    """The driver makes statements of up to 1 MB of many rows."""
    insert = mysql.insert(target)
    statement = insert.on_duplicate_key_update({name: insert.inserted[name] for name in others})

    def write(connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        connection.execute(statement, [dict(zip(columns, row, strict=True)) for row in rows])

    return write


CHUNK_ROWS = 5_000
STALL_TIMEOUT_SECONDS = 120.0
PROVISION = "run the DAG's provision_sinks step"
FIX = "mend it, and start the stream again: nothing is lost"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENTS = ("timestamp", "timestamp_ntz")
_FIXES = {
    DatabaseError.LOGIN: "check login and password of the Airflow connection {connection}",
    DatabaseError.DENIED: "give the user of the Airflow connection {connection} that right",
    DatabaseError.NO_DATABASE: "make it, or correct the schema of the Airflow connection {connection}",
    DatabaseError.NO_COLUMN: PROVISION + ", which says what differs",
    DatabaseError.DIFFERENT: PROVISION + ", which says what differs",
    DatabaseError.VALUE: "quarantine such rows, or make the column wider",
    DatabaseError.OTHER: FIX,
}
Done = TypeVar("Done")


class JdbcSink:
    """The table of one sink, over one connection at most. For one thread at a time.

    ``types``: result column -> Spark's DDL type. ``patience``: seconds for which a database that is down,
    slow, full or locked is tried again, from its first failure on; ``stop`` ends that waiting. ``limits``:
    what its server sees to. ``chunk_rows``: in one statement at most.
    """

    def __init__(
        self,
        stream: str,
        query_name: str,
        query: Query,
        sink: Sink,
        types: Mapping[str, str],
        database: Database,
        stop: threading.Event,
        patience: float = STALL_TIMEOUT_SECONDS,
        limits: Limits | None = None,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        self.name = sink.name
        self._table, self._connection_id = sink.table, sink.connection
        self._keys = list(query.keys)
        self._columns = [*query.keys, *query.aggregates]
        self._types, self._chunk_rows = types, chunk_rows
        self._database = database
        self.engine = sa.create_engine(**database.sqlalchemy())
        self._fence = Fence(self.engine, fence_key(stream, query_name), limits)
        self._patience = RetryPolicy(self.name, FIX, patience, stop)
        columns = {column: types[column] for column in self._columns} | {VERSION: "bigint"}
        self._upsert = upsert(database.kind, sink.table, self._keys, columns)

    def __repr__(self) -> str:
        return f"JdbcSink({self.name}, {self._database.where})"

    def open(self, epoch: int) -> int | None:
        """Become the writer with this epoch. The last batch that the database holds; None: none yet.

        Raises Fenced where a higher epoch is there, SinkWriteFailed where the table is not as it must be, or
        the database stays away for longer than the patience, or until ``stop``.
        """

        def attempt() -> int | None:
            self._check_table()
            return self._fence.open(epoch)

        return self._try(attempt)

    def write(self, batch: int, rows: DataFrame) -> bool:
        """Write a batch, all of it or nothing; False where it was there already.

        ``rows``: the query's keys and measures, one row per key; the caller has persisted them, and they are
        read once per try, a partition at a time. Raises Fenced where a later owner has entered,
        and SinkWriteFailed as :meth:`enter`.
        """
        # So that they are: what would be computed in the transaction would hold the fence's row as long.
        rows.count()
        began = False

        def attempt() -> bool:
            nonlocal began
            with self._fence.transaction(batch) as connection:
                if connection is None:
                    # There, and it was not when this call began: then it was this call's, and the answer to
                    # its commit was lost.
                    return began
                began = True
                for chunk in self._chunks(rows):
                    self._upsert(connection, [(*row, batch) for row in chunk])
            return True

        return self._try(attempt)

    def close(self) -> None:
        """Close its connection."""
        self.engine.dispose()

    def _try(self, attempt: Callable[[], Done]) -> Done:
        def translated() -> Done:
            with self._asking():
                return attempt()

        return self._patience.call(translated)

    def _check_table(self) -> None:
        """Without its key an upsert would, in MariaDB, insert every row anew."""
        with self.engine.connect() as connection:
            seen = sa.inspect(connection)
            columns = {column["name"] for column in seen.get_columns(self._table)}
            key = seen.get_pk_constraint(self._table)["constrained_columns"]
        lacking = sorted({*self._columns, VERSION} - columns)
        if lacking or set(key) != set(self._keys):
            what = f"lacks {', '.join(lacking)}" if lacking else f"has the key ({', '.join(key)})"
            raise SinkWriteFailed(
                f"{self.name}: table {self._table} in {self._database.where} {what}; it must have "
                f"{', '.join([*self._columns, VERSION])} and the key ({', '.join(self._keys)}): {PROVISION}"
            )

    def _chunks(self, rows: DataFrame) -> Iterator[list[tuple[Any, ...]]]:
        """The rows, as the database's driver takes them, in the order of ``_columns``."""
        moments = [self._types[column] in _MOMENTS for column in self._columns]
        selected = rows.select(
            # As numbers: a Row's datetimes are in the time zone of whatever machine this is.
            *(
                F.unix_micros(F.col(column).cast("timestamp")) if moment else F.col(column)
                for column, moment in zip(self._columns, moments, strict=True)
            )
        )
        # MySQL's DATETIME knows no time zone; it holds UTC.
        epoch = _EPOCH if self._database.kind == POSTGRESQL else _EPOCH.replace(tzinfo=None)
        keys = len(self._keys)
        found = iter(selected.toLocalIterator())
        while chunk := list(islice(found, self._chunk_rows)):
            made = [
                tuple(
                    epoch + timedelta(microseconds=value) if moment and value is not None else value
                    for value, moment in zip(row, moments, strict=True)
                )
                for row in chunk
            ]
            for row in made:
                if None in row[:keys]:
                    self._refuse_null(row)
            # One order of locks, whoever else writes there.
            yield sorted(made, key=lambda row: row[:keys])

    def _refuse_null(self, row: Sequence[object]) -> None:
        raise SinkWriteFailed(
            f"{self.name}: a result has no {self._columns[row.index(None)]}, which is a part of its key in "
            f"{self._database.where}; quarantine rows without it, or group by another column"
        )

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turns the database's errors into TransientError and SinkWriteFailed. Only their words are kept:
        what SQLAlchemy says of them holds the statement."""
        try:
            yield
        except DBAPIError as error:
            cause = error.orig if error.orig is not None else error
            trouble = diagnose(self._database.kind, cause)
            what = f"{self._database.where} {trouble} ({says(cause)})"
            if trouble in TRANSIENT or error.connection_invalidated:
                raise TransientError(what, trouble) from cause
            if trouble == DatabaseError.NO_TABLE:
                missing = FENCE_TABLE if FENCE_TABLE in says(cause) else self._table
                raise self._missing(missing) from cause
            mend = _FIXES[trouble].format(connection=self._connection_id)
            raise SinkWriteFailed(f"{self.name}: {what}; {mend}") from cause
        except NoSuchTableError as error:
            raise self._missing(self._table) from error
        except (LookupError, ValueError) as error:
            # The fence's, which says its mend, and the driver's, of a value that it cannot send.
            raise SinkWriteFailed(f"{self.name}: {self._database.where}: {error}") from error

    def _missing(self, table: str) -> SinkWriteFailed:
        return SinkWriteFailed(
            f"{self.name}: table {table} is missing in {self._database.where}; {PROVISION}"
        )
