"""A fencing token for SQL databases: the one owner whose writes can pass, and each batch of it once.

The lake fences a zombie by its branch; a foreign database cannot. So it holds one row per stream, (token,
batch), and every write raises that row in its own transaction: what an owner writes passes only together with
the row, and the row does not rise for an owner with a lower token, nor for a batch that is there already.

A stream that writes to a foreign database keeps its checkpoint (``checkpoint.fork``), so that its batches
keep their numbers over take-overs: batch 7 of the next owner is batch 7 of this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

TABLE = """
create table if not exists sluice_fence (
    stream varchar(255) not null primary key,
    token bigint not null,
    batch bigint not null
)
"""
# A zombie that was suspended in its transaction holds the row. The database ends it, or nobody could take
# over.
POSTGRESQL = ("set idle_in_transaction_session_timeout = '60s'", "set lock_timeout = '90s'")
NO_BATCH = -1
TRIES = 3


class Superseded(RuntimeError):
    """A later owner has taken over; this one must end and not come back."""


class Fence:
    """The row of one stream, over one connection (DB-API 2.0, ``%s`` parameters, autocommit off).

    Not for several threads at once. The connection is the caller's, who writes through it too: only what goes
    through the cursor of :meth:`guarded` is guarded. ``settings`` are run once: they must see to it that the
    server ends a transaction in which nothing happens, and a wait for a lock, after a time.
    """

    def __init__(self, connection: Any, stream: str, settings: Sequence[str] = POSTGRESQL) -> None:
        if getattr(connection, "autocommit", False):
            raise ValueError(
                f"the fence of {stream}: its connection commits by itself, so nothing is guarded; "
                "set autocommit = False"
            )
        self.stream = stream
        self.token = 0
        self._connection = connection
        with self._transaction() as cursor:
            for statement in settings:
                cursor.execute(statement)

    def enter(self, token: int) -> int | None:
        """Become the owner with this token: no lower one passes from here on.

        Returns the last batch that is in the database, whoever wrote it (None: none yet), from which this
        owner goes on. Waits for a transaction of an earlier owner to end. Raises Superseded where a higher
        token is there. Entering twice is the same as once.
        """
        for attempt in range(TRIES):
            try:
                with self._transaction() as cursor:
                    found = self._enter(cursor, token)
            except (self._connection.IntegrityError, self._connection.ProgrammingError):
                # Another owner made the table, or the row, at the same moment: then it is there now.
                if attempt == TRIES - 1:
                    raise
                continue
            self.token = token
            break
        return None if found == NO_BATCH else found

    def _enter(self, cursor: Any, token: int) -> int:
        cursor.execute(TABLE)
        cursor.execute(
            "update sluice_fence set token = %s where stream = %s and token < %s", (token, self.stream, token)
        )
        row = self._row(cursor)
        if row is None:
            cursor.execute("insert into sluice_fence values (%s, %s, %s)", (self.stream, token, NO_BATCH))
            return NO_BATCH
        self._refuse_higher(row[0], token)
        return row[1]

    @contextmanager
    def guarded(self, batch: int) -> Iterator[Any]:
        """One transaction in which a batch is written, once; committed at the end, rolled back on an
        exception.

        Gives the cursor to write with, or None where this batch is in the database already: then there is
        nothing to do. Raises Superseded where a later owner has entered. Compute before, write inside: the
        row is locked until the end, and the database ends a transaction that stands still.
        """
        if not self.token:
            raise LookupError(f"the fence of {self.stream}: nobody has entered; enter before writing")
        with self._transaction() as cursor:
            cursor.execute(
                "update sluice_fence set batch = %s where stream = %s and token = %s and batch < %s",
                (batch, self.stream, self.token, batch),
            )
            if cursor.rowcount == 1:
                yield cursor
                return
            row = self._row(cursor)
            if row is None:
                raise LookupError(
                    f"the fence of {self.stream}: its row is gone; start the stream again, and leave the "
                    "table sluice_fence alone"
                )
            self._refuse_higher(row[0], self.token)
            yield None

    def _row(self, cursor: Any) -> tuple[int, int] | None:
        cursor.execute("select token, batch from sluice_fence where stream = %s", (self.stream,))
        row = cursor.fetchone()
        return None if row is None else (int(row[0]), int(row[1]))

    def _refuse_higher(self, there: int, token: int) -> None:
        if there > token:
            raise Superseded(
                f"{self.stream}: owner {token} may not write: owner {there} has taken over (sluice_fence)"
            )

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        cursor = self._connection.cursor()
        try:
            yield cursor
        except BaseException:
            # Of a connection that the server has closed, there is nothing left to roll back.
            if not getattr(self._connection, "closed", False):
                self._connection.rollback()
            raise
        else:
            self._connection.commit()
        finally:
            cursor.close()
