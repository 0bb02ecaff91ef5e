"""A fencing epoch for SQL databases: the one owner whose writes can pass, and each batch of it once.

The lake fences a zombie by its branch; a foreign database cannot. So it holds one row per writer, (epoch,
batch), and every write raises that row in its own transaction: what an owner writes passes only together with
the row, and the row does not rise for an owner with a lower epoch, nor for a batch that is there already.

A stream that writes to a foreign database keeps its checkpoint (``checkpoint.fork``), so that its batches
keep their numbers over take-overs: batch 7 of the next owner is batch 7 of this one.

PostgreSQL, MariaDB and MySQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.model.queries.state import FENCE_TABLE, fence_ddl
from spark_jobs.common.spark.process import Fenced

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.exc import DBAPIError

NO_BATCH = -1
TRIES = 3


@dataclass(frozen=True)
class Limits:
    """What the server sees to, in seconds.

    A zombie that was suspended in its transaction holds the row: after ``idle`` the server ends it, or nobody
    could take over. A wait for a ``lock`` ends later than that, so that a successor outlasts the zombie.
    """

    idle: int = 60
    lock: int = 90

    def statements(self, dialect: str) -> tuple[str, ...]:
        """What sets them, at the beginning of a transaction: its connection may be a new one each time."""
        if dialect == "postgresql":
            return (
                f"set local idle_in_transaction_session_timeout = '{self.idle}s'",
                f"set local lock_timeout = '{self.lock}s'",
            )
        # Only MariaDB reads what is in /*M! */, and it does not read comments of MySQL 8. That knows no limit
        # for a transaction that stands still, but one for a connection.
        idle = (
            f"/*M!100300 , idle_transaction_timeout = {self.idle} */ /*!80000 , wait_timeout = {self.idle} */"
        )
        waits = f"innodb_lock_wait_timeout = {self.lock}, lock_wait_timeout = {self.lock}"
        return (f"set session {waits} {idle}",)


class Fence:
    """The row of one writer, by its ``key``, in the database of an engine.

    Not for several threads at once. Only what goes through the connection of :meth:`transaction` is guarded.
    """

    def __init__(self, engine: Engine, key: str, limits: Limits | None = None) -> None:
        self.key = key
        self.epoch = 0
        # The batch that this owner found, or wrote, last.
        self._last = NO_BATCH
        self._engine = engine
        self._limits = limits or Limits()

    def open(self, epoch: int) -> int | None:
        """Become the owner with this epoch: no lower one passes from here on.

        Returns the last batch that is in the database, whoever wrote it (None: none yet), from which this
        owner goes on. Waits for a transaction of an earlier owner to end. Raises Fenced where a higher
        epoch is there. Entering twice is the same as once.
        """
        from sqlalchemy.exc import DBAPIError

        for attempt in range(TRIES):
            try:
                self._ensure_table()
                with self._transaction() as connection:
                    found = self._open(connection, epoch)
            except DBAPIError as error:
                # Another owner made the table, or the row, at the same moment: then it is there now.
                if attempt == TRIES - 1 or not _at_the_same_moment(error):
                    raise
                continue
            self.epoch, self._last = epoch, found
            break
        return None if found == NO_BATCH else found

    def _ensure_table(self) -> None:
        from sqlalchemy import inspect, text

        with self._transaction() as connection:
            # Asked first: who may not make tables may well use the one that there is.
            if not inspect(connection).has_table(FENCE_TABLE):
                connection.execute(text(fence_ddl(self._engine.dialect.name)))

    def _open(self, connection: Connection, epoch: int) -> int:
        from sqlalchemy import text

        given = {"key": self.key, "epoch": epoch, "batch": NO_BATCH}
        # Locked before it is compared: one that came between a change and a look would keep its lower epoch.
        row = self._row(connection, " for update")
        if row is None:
            connection.execute(
                text(f"insert into {FENCE_TABLE} (stream, epoch, batch) values (:key, :epoch, :batch)"), given
            )
            return NO_BATCH
        self._refuse_higher(row[0], epoch)
        connection.execute(text(f"update {FENCE_TABLE} set epoch = :epoch where stream = :key"), given)
        return row[1]

    @contextmanager
    def transaction(self, batch: int) -> Iterator[Connection | None]:
        """One transaction in which a batch is written, once; committed at the end, rolled back on an
        exception.

        Gives the connection to write with, or None where this batch is in the database already: then there is
        nothing to do. Raises Fenced where a later owner has entered, LookupError where the row is not as
        this owner left it. Compute before, write inside: the row is locked until the end, and the database
        ends a transaction that stands still.
        """
        from sqlalchemy import text

        if not self.epoch:
            raise LookupError(f"the fence of {self.key}: nobody has entered; enter before writing")
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
                self._explain(self._row(connection), batch)
                yield None
        self._last = max(self._last, batch)

    def _explain(self, row: tuple[int, int] | None, batch: int) -> None:
        """Returns where the batch is there already; raises what else keeps the row from rising."""
        if row is None:
            raise LookupError(
                f"the fence of {self.key}: its row is gone; start the stream again, and leave the "
                f"table {FENCE_TABLE} alone"
            )
        epoch, found = row
        self._refuse_higher(epoch, self.epoch)
        if epoch < self.epoch or found < batch:
            # What lies between is lost: a group that has not changed since would never be written again.
            raise LookupError(
                f"the fence of {self.key}: {FENCE_TABLE} holds batch {found} of owner {epoch}, and owner "
                f"{self.epoch} left it at {self._last}: the database was put back, or a commit of it was "
                "lost; start the stream again, which goes on from there"
            )

    def _row(self, connection: Connection, lock: str = "") -> tuple[int, int] | None:
        from sqlalchemy import text

        row = connection.execute(
            text(f"select epoch, batch from {FENCE_TABLE} where stream = :key{lock}"), {"key": self.key}
        ).one_or_none()
        return None if row is None else (int(row[0]), int(row[1]))

    def _refuse_higher(self, there: int, epoch: int) -> None:
        if there > epoch:
            raise Fenced(
                f"{self.key}: owner {epoch} may not write: owner {there} has taken over ({FENCE_TABLE})"
            )

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        from sqlalchemy import text

        with self._engine.connect() as connection:
            raw = connection.connection.dbapi_connection
            assert raw is not None, "a connection that was just opened"
            if self._engine.dialect.detect_autocommit_setting(raw):
                raise ValueError(
                    f"the fence of {self.key}: its connection commits by itself, so nothing is guarded; "
                    "take AUTOCOMMIT off its engine"
                )
            with connection.begin():
                for statement in self._limits.statements(self._engine.dialect.name):
                    connection.execute(text(statement))
                yield connection


def _at_the_same_moment(error: DBAPIError) -> bool:
    """Whether it is what a race of two ends in: there already, changed already, or a deadlock."""
    from sqlalchemy.exc import IntegrityError, ProgrammingError

    deadlock = getattr(error.orig, "pgcode", None) == "40P01" or error.orig.args[:1] == (1213,)  # type: ignore[union-attr]
    return deadlock or isinstance(error, IntegrityError | ProgrammingError)
