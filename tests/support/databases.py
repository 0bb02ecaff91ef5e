"""PostgreSQL and MariaDB alike, as a place for queries' counts: its user's way in, root's, and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import pytest
import sqlalchemy as sa

from local.runtime.ports import HOST
from local.services.postgres import RESULTS, SUPERUSER
from sluice.config.connection import POSTGRESQL, Database
from tests.support.mariadb import MariaDB
from tests.support.services import Services

Done = TypeVar("Done")
# For what one database does otherwise than the other.
BOTH_SERVERS = pytest.mark.parametrize("server", ["postgresql", "mariadb"], indirect=True)


class Server(Protocol):
    """One of the two, with an empty database ``results``."""

    database: Database
    """The way in for its user."""

    def engine(self) -> sa.Engine:
        """For what a test does there, as root: each statement by itself, without a pool."""

    def crash(self, seconds: float) -> None:
        """Kill it; after so many seconds it is back, with its data."""


class Postgres:
    """That of the embedded stack, with the stack's own database and user."""

    def __init__(self, services: Services) -> None:
        self._services = services
        services.postgres  # noqa: B018 - started where it does not run yet
        stack = services.stack
        self._port, self._admin = stack.ports["postgres"], stack.secrets["postgres_admin"]
        self.database = Database(
            POSTGRESQL, HOST, self._port, RESULTS, RESULTS, stack.secrets["postgres_results"]
        )

    def engine(self) -> sa.Engine:
        root = Database(POSTGRESQL, HOST, self._port, RESULTS, SUPERUSER, self._admin).sqlalchemy()
        return sa.create_engine(root["url"], poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")

    def crash(self, seconds: float) -> None:
        self._services.crash("postgres", seconds)


class Maria:
    """One of its own."""

    def __init__(self) -> None:
        self._server = MariaDB()
        self.database = self._server.database

    def engine(self) -> sa.Engine:
        return self._server.engine()

    def crash(self, seconds: float) -> None:
        self._server.kill()
        time.sleep(seconds)
        self._server.start()

    def stop(self) -> None:
        self._server.stop()


def run(server: Server, *statements: str) -> None:
    """Run statements as root."""
    with server.engine().connect() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def empty(server: Server) -> None:
    """Drop all tables of its database."""
    engine = server.engine()
    names = sa.inspect(engine).get_table_names()
    if names:
        quoted = ", ".join(engine.dialect.identifier_preparer.quote(name) for name in names)
        run(server, f"drop table {quoted}")


def await_death(server: Server) -> None:
    """Returns once it takes no connection."""
    while True:
        try:
            server.engine().connect().close()
        except sa.exc.OperationalError:
            return
        time.sleep(0.02)


def while_dead(server: Server, seconds: float, work: Callable[[], Done]) -> Done:
    """Kill it, begin ``work`` in a thread, and bring it back after so many seconds; what ``work`` returns.

    From this thread: a server dies with the thread that started it.
    """

    def begin() -> Done:
        await_death(server)
        return work()

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(begin)
        server.crash(seconds)
        return working.result(60)


def kill_within(server: Server, seconds: float, work: Callable[[Callable[[], None]], Done]) -> Done:
    """Run ``work`` in a thread, and kill the server when it calls what it is given; that returns once it is
    dead. After so many seconds it is back."""
    now = threading.Event()

    def kill() -> None:
        now.set()
        await_death(server)

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work, kill)
        assert now.wait(30)
        server.crash(seconds)
        return working.result(60)
