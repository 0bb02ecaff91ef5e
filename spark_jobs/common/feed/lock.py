"""One producer of a feed at a time: an advisory lock of the catalog's PostgreSQL, held by a session.

A producer that dies lets go at once: the server sees its connection close. One that vanished without that
(its machine, the network) is let go of after a minute by the server's own probes, and it ends itself before
that, because it asks every few seconds and the server does not answer. What remains: a process that is
suspended for longer than that on a machine that is suspended too, and has records in its queue when it
wakes. What it sends before it asks again comes twice.
"""

from __future__ import annotations

import hashlib
import select
import time
from collections.abc import Callable
from typing import Any

import psycopg2
from psycopg2 import extensions

from sluice.io.retry import wait_for
from sluice.model.spec.platform import Lake
from spark_jobs.common.spark.process import Fenced

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 15.0
AGAIN_SECONDS = 0.5
# The server's probes of a connection that says nothing: gone after 30 + 3 x 10 s, which is more than
# ANSWER_SECONDS and the time between two questions.
_PROBES = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"


def lock_key(stream: str) -> int:
    """The lock's number (signed, 64 bits): the same for everybody who produces for this stream."""
    digest = hashlib.sha256(f"sluice/producer/{stream}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


class Lost(Fenced):
    """Whether this process still holds the lock cannot be said: it must send nothing more."""


class Lock:
    """The lock of one stream's producer, over a connection of its own. Not for several threads at once."""

    def __init__(self, lake: Lake, stream: str) -> None:
        """Connects. Raises psycopg2.Error when the database refuses, TimeoutError when it does not answer."""
        self._key = lock_key(stream)
        self._connection = psycopg2.connect(
            host=lake.catalog_host,
            port=lake.catalog_port,
            dbname=lake.catalog_database,
            user=lake.catalog_user,
            password=lake.catalog_password,
            application_name=f"sluice producer of {stream}",
            options=_PROBES,
            # A server that is stopped keeps its connections open and silent: none of the waiting is libpq's.
            async_=True,
        )
        self._await(CONNECT_SECONDS)

    def take(self, seconds: float, give_up: Callable[[], bool] = lambda: False) -> bool:
        """Whether this process holds the lock now; tries for so many seconds, until ``give_up``.

        Raises as the constructor.
        """

        def ask() -> bool:
            return bool(self._ask("select pg_try_advisory_lock(%s)", (self._key,)))

        return wait_for(ask, seconds, AGAIN_SECONDS, lambda held: held or give_up())

    def check(self) -> None:
        """Raises Lost when the session that holds the lock is gone, or does not answer in ANSWER_SECONDS."""
        try:
            # The lock lives and dies with the session.
            self._ask("select 1", ())
        except (psycopg2.Error, TimeoutError) as error:
            raise Lost(str(error).strip()) from error

    def close(self) -> None:
        """Let go."""
        self._connection.close()

    def _ask(self, question: str, values: tuple[Any, ...]) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(question, values)
        self._await(ANSWER_SECONDS)
        return cursor.fetchone()[0]

    def _await(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (state := self._connection.poll()) != extensions.POLL_OK:
            left = deadline - time.monotonic()
            ready: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
            if left > 0:
                reading = [self._connection] if state == extensions.POLL_READ else []
                writing = [self._connection] if state == extensions.POLL_WRITE else []
                ready = select.select(reading, writing, [], left)
            if not any(ready):
                raise TimeoutError(f"PostgreSQL did not answer within {seconds:g} s")
