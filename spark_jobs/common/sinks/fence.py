"""A fence for SQL databases: only one writer's transactions pass, and each batch once.

The lake fences a zombie by its branch; a foreign database cannot. So it holds a row (epoch, batch) per
writer, and every transaction raises that row: it does not rise for a lower epoch, nor for a batch that is
there. The writer keeps its checkpoint, so batches keep their numbers over failovers.

PostgreSQL, MariaDB and MySQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError

from sluice.core.queries.committed_batch import NO_BATCH
from sluice.core.queries.fence import FENCE_TABLE, fence_ddl
from spark_jobs.common.spark.failures import check_epoch

TRIES = 3
# The server ends a zombie that was suspended in its transaction and so holds the row; a successor's wait for
# the row lasts longer than that.
IDLE_SECONDS = 60
LOCK_SECONDS = 90


def limits(dialect: str) -> tuple[str, ...]:
    """The statements that set the server's limits; for each transaction, whose connection may be new."""
    if dialect == "postgresql":
        return (
            f"set local idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'",
            f"set local lock_timeout = '{LOCK_SECONDS}s'",
        )
    # Only MariaDB reads /*M! */, and it does not read comments of MySQL 8, which has no limit for an idle
    # transaction, but one for a connection.
    idle = f"/*M!100300 , idle_transaction_timeout = {IDLE_SECONDS} */"
    idle += f" /*!80000 , wait_timeout = {IDLE_SECONDS} */"
    lock = f"innodb_lock_wait_timeout = {LOCK_SECONDS}, lock_wait_timeout = {LOCK_SECONDS}"
    return (f"set session {lock} {idle}",)


class Fence:
    """The row ``key`` of one writer. Guards only the connection of :meth:`transaction`. Not thread-safe."""

    def __init__(self, engine: Engine, key: str) -> None:
        self.key = key
        self.epoch = 0
        # The batch that this writer found, or wrote, last.
        self._last = NO_BATCH
        self._engine = engine

    def open(self, epoch: int) -> int | None:
        """Become the writer with this epoch; the last batch in the database (None: none yet).

        Waits for an earlier writer's transaction. Raises Fenced if the row has this epoch or a higher one.
        """
        for attempt in range(TRIES):
            try:
                self._ensure_table()
                with self._transaction() as connection:
                    batch = self._open(connection, epoch)
            except DBAPIError as error:
                # Another writer created the table, or the row, at the same moment: then it exists now.
                if attempt == TRIES - 1 or not _is_race(error):
                    raise
                continue
            self.epoch, self._last = epoch, batch
            break
        return None if batch == NO_BATCH else batch

    def _ensure_table(self) -> None:
        with self._transaction() as connection:
            # First, because a user without the right to create tables may use an existing one.
            if not inspect(connection).has_table(FENCE_TABLE):
                connection.execute(text(fence_ddl(self._engine.dialect.name)))

    def _open(self, connection: Connection, epoch: int) -> int:
        args = {"key": self.key, "epoch": epoch, "batch": NO_BATCH}
        # Locked before the comparison: else a lower epoch could overwrite one set in between.
        row = self._row(connection, " for update")
        if row is None:
            connection.execute(
                text(f"insert into {FENCE_TABLE} (stream, epoch, batch) values (:key, :epoch, :batch)"), args
            )
            return NO_BATCH
        check_epoch(self.key, epoch, row[0], FENCE_TABLE, opening=True)
        connection.execute(text(f"update {FENCE_TABLE} set epoch = :epoch where stream = :key"), args)
        return row[1]

    @contextmanager
    def transaction(self, batch: int) -> Iterator[Connection | None]:
        """One transaction that writes a batch once; rolled back on an exception.

        Gives the connection to write with, None if the database has this batch. Raises Fenced if a later
        writer opened the fence, LookupError if the row is not as this writer left it. Compute before: the row
        is locked until the end, and the server ends an idle transaction.
        """
        if not self.epoch:
            raise LookupError(f"the fence of {self.key}: no epoch set; call open() before transaction()")
        with self._transaction() as connection:
            raised = connection.execute(
                text(
                    f"update {FENCE_TABLE} set batch = :batch where stream = :key and epoch = :epoch "
                    "and batch = :last and batch < :batch"
                ),
                {"batch": batch, "key": self.key, "epoch": self.epoch, "last": self._last},
            )
            if raised.rowcount == 1:
                yield connection
            else:
                self._check_written(self._row(connection), batch)
                yield None
        self._last = max(self._last, batch)

    def _check_written(self, row: tuple[int, int] | None, batch: int) -> None:
        """Raises unless the row did not rise because the database has the batch."""
        if row is None:
            raise LookupError(
                f"the fence of {self.key}: no row in {FENCE_TABLE}; restart the stream, and do not change "
                "that table"
            )
        epoch, last = row
        check_epoch(self.key, self.epoch, epoch, FENCE_TABLE)
        if epoch < self.epoch or last < batch:
            # The batches in between are lost: a group without later changes would never be written again.
            raise LookupError(
                f"the fence of {self.key}: {FENCE_TABLE} has batch {last} of writer {epoch}, expected batch "
                f"{self._last} of writer {self.epoch}: the database was restored or lost a commit; restart "
                "the stream, which resumes from there"
            )

    def _row(self, connection: Connection, lock: str = "") -> tuple[int, int] | None:
        row = connection.execute(
            text(f"select epoch, batch from {FENCE_TABLE} where stream = :key{lock}"), {"key": self.key}
        ).one_or_none()
        return None if row is None else (int(row[0]), int(row[1]))

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            raw = connection.connection.dbapi_connection
            assert raw is not None, "the connection was just opened"
            if self._engine.dialect.detect_autocommit_setting(raw):
                raise ValueError(
                    f"the fence of {self.key}: its connection is in autocommit mode, so it fences nothing; "
                    "take AUTOCOMMIT off its engine"
                )
            with connection.begin():
                for statement in limits(self._engine.dialect.name):
                    connection.execute(text(statement))
                yield connection


def _is_race(error: DBAPIError) -> bool:
    """Whether another session created or changed the same, or there was a deadlock."""
    deadlock = getattr(error.orig, "pgcode", None) == "40P01" or error.orig.args[:1] == (1213,)  # type: ignore[union-attr]
    return deadlock or isinstance(error, IntegrityError | ProgrammingError)
