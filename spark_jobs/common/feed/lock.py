"""One producer of a feed at a time: a session's advisory lock in the catalog's PostgreSQL.

The lock of a dead producer is free at once: the server sees its connection close. If its machine or network
vanished, the server's probes free it after a minute; the producer has ended by then, because it queries the
server every few seconds without an answer. One gap remains: a process suspended for longer, with its machine,
sends the records in its queue when it resumes, before its next query; those are duplicates.

The session that holds the lock also saves the feed's position, in one row per stream.
"""

from __future__ import annotations

import hashlib
import json
import select
import time
from collections.abc import Callable
from typing import Any

import psycopg2
from psycopg2 import extensions

from sluice.clients.polling import wait_for
from sluice.config.platform_sections.lake import Lake
from spark_jobs.common.feed.position import SavedPosition
from spark_jobs.common.spark.failures import Fenced

CONNECT_TIMEOUT_SECONDS = 10.0
QUERY_TIMEOUT_SECONDS = 15.0
RETRY_SECONDS = 0.5
# The server ends a silent connection after 30 + 3 x 10 s: longer than the query timeout plus the interval
# between two queries.
_KEEPALIVES = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"


def lock_key(name: str) -> int:
    """The number (signed, 64 bits) of the lock ``name``, the same for every producer."""
    digest = hashlib.sha256(f"sluice/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


# Beside the catalog's tables, and with their owner. Text, not JSON: an id may hold what jsonb refuses.
_TABLE = "sluice_feed_positions"
# The lock of the process that creates it: "if not exists" alone may fail for two at once.
_CREATE = f"""
select pg_advisory_xact_lock({lock_key(_TABLE)});
create table if not exists {_TABLE} (
  stream text primary key, position text not null, ids text not null, saved_at timestamptz not null
)"""
_LOAD = f"select position, ids from {_TABLE} where stream = %s"
_SAVE = f"""
insert into {_TABLE} (stream, position, ids, saved_at) values (%s, %s, coalesce(%s, '[]'), now())
on conflict (stream) do update set position = excluded.position, saved_at = excluded.saved_at"""
_WITH_IDS = ", ids = excluded.ids"


class Lost(Fenced):
    """It is unknown whether this process still holds the lock; it must send nothing more."""


class Lock:
    """The lock of one stream's producer, over its own connection. Not thread-safe.

    Raises psycopg2.Error if the database refuses, TimeoutError if it does not answer.
    """

    def __init__(self, lake: Lake, stream: str) -> None:
        self._stream = stream
        self._key = lock_key(f"producer/{stream}")
        self._connection = psycopg2.connect(
            **lake.catalog.libpq(_KEEPALIVES),
            application_name=f"sluice producer of {stream}",
            # libpq itself would wait without end for a stopped server, whose connections stay open.
            async_=True,
        )
        self._wait(CONNECT_TIMEOUT_SECONDS)

    def take(self, seconds: float, give_up: Callable[[], bool] = lambda: False) -> bool:
        """Whether this process holds the lock now; tries for at most ``seconds``, until ``give_up``."""

        def attempt() -> bool:
            ((locked,),) = self._query("select pg_try_advisory_lock(%s)", (self._key,))
            return bool(locked)

        return wait_for(attempt, seconds, RETRY_SECONDS, lambda locked: locked or give_up())

    def load(self) -> SavedPosition | None:
        """The stream's saved position; makes the table if it is missing."""
        if self._query("select to_regclass(%s)::text", (_TABLE,)) == [(None,)]:
            self._query(_CREATE, ())
        rows = self._query(_LOAD, (self._stream,))
        return SavedPosition.parse(*rows[0]) if rows else None

    def save(self, position: SavedPosition, *, with_ids: bool = False) -> None:
        """Save the position, with its ids if they changed. Raises Lost if the session that holds the lock is
        gone or does not answer, psycopg2.Error if the database refuses."""
        ids = json.dumps(position.ids) if with_ids else None
        try:
            self._query(_SAVE + _WITH_IDS * with_ids, (self._stream, position.dump(), ids))
        except TimeoutError as error:
            raise Lost(str(error)) from error
        except psycopg2.Error:
            self._check()
            raise

    def _check(self) -> None:
        try:
            # The lock lives and dies with the session.
            self._query("select 1", ())
        except (psycopg2.Error, TimeoutError) as error:
            raise Lost(str(error).strip()) from error

    def close(self) -> None:
        """Release the lock."""
        self._connection.close()

    def _query(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        cursor = self._connection.cursor()
        cursor.execute(query, values)
        self._wait(QUERY_TIMEOUT_SECONDS)
        return cursor.fetchall() if cursor.description else []

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (state := self._connection.poll()) != extensions.POLL_OK:
            # Not select.select(): it refuses descriptors from 1024 on.
            ready = select.poll()
            ready.register(
                self._connection, select.POLLIN if state == extensions.POLL_READ else select.POLLOUT
            )
            left = deadline - time.monotonic()
            if left <= 0 or not ready.poll(left * 1000):
                raise TimeoutError(f"PostgreSQL did not answer within {seconds:g} s")
