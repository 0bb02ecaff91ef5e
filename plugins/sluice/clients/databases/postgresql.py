"""SQLAlchemy's connections to PostgreSQL, with a deadline for each answer.

libpq waits without end for a server that stands still while its kernel answers the probes: a stopped process,
a proxy that went silent. None of its settings changes that.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from threading import Timer
from typing import Any

import psycopg2
from psycopg2 import extensions
from sqlalchemy import Engine, event
from sqlalchemy.dialects import plugins
from sqlalchemy.engine import URL, CreateEnginePlugin

from sluice.clients.databases import certificates as _certificates  # noqa: F401 - registers its plugin
from sluice.config.postgresql import DEADLINE_KEY, PLUGIN


@contextmanager
def deadline(connection: extensions.connection, seconds: float) -> Iterator[None]:
    """Cut the connection if the block takes longer; it then raises OperationalError that says so."""
    expired = False

    def cut() -> None:
        nonlocal expired
        expired = True
        # A copy: the other thread may close the connection at any moment.
        with suppress(psycopg2.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)

    timer = Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except psycopg2.Error as error:
        if expired:
            raise psycopg2.OperationalError(
                f"PostgreSQL did not answer within {seconds:g} s; the connection was closed"
            ) from error
        raise
    finally:
        timer.cancel()


def _bounded(method: Callable[..., Any], connection: Callable[[Any], extensions.connection]) -> Any:
    @wraps(method)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        opened: Any = connection(self)
        with deadline(opened, opened.deadline_seconds):
            return method(self, *arguments, **named)

    return call


def _bounded_type(base: type[Any], names: tuple[str, ...], connection: Callable[[Any], Any]) -> type[Any]:
    return type(
        f"Bounded{base.__name__}", (base,), {n: _bounded(getattr(base, n), connection) for n in names}
    )


# What asks the server. Cursors with a name fetch from it, too.
_Cursor = _bounded_type(
    extensions.cursor,
    ("execute", "executemany", "callproc", "fetchone", "fetchmany", "fetchall", "close"),
    lambda cursor: cursor.connection,
)
_Connection = _bounded_type(
    extensions.connection, ("commit", "rollback", "set_session", "cancel"), lambda connection: connection
)


def connection_factory(seconds: float) -> Callable[..., extensions.connection]:
    """For ``psycopg2.connect``. The time to connect is libpq's own ``connect_timeout``."""

    def make(dsn: str, *arguments: Any, **named: Any) -> extensions.connection:
        made: Any = _Connection(dsn, *arguments, **named)
        made.deadline_seconds = seconds
        made.cursor_factory = _Cursor
        return made

    return make


class DeadlinePlugin(CreateEnginePlugin):
    """``plugins=[PLUGIN]`` of an engine, or ``?plugin=…`` of its URL, with DEADLINE_KEY in the same place."""

    def __init__(self, url: URL, kwargs: dict[str, Any]) -> None:
        found = kwargs.pop(DEADLINE_KEY, None) or url.query[DEADLINE_KEY]
        self._seconds = float(str(found))

    def update_url(self, url: URL) -> URL:
        return url.difference_update_query([DEADLINE_KEY])

    def engine_created(self, engine: Engine) -> None:
        factory = connection_factory(self._seconds)

        @event.listens_for(engine, "do_connect")
        def bound(dialect: Any, record: Any, arguments: Any, parameters: dict[str, Any]) -> None:
            parameters["connection_factory"] = factory


plugins.register(PLUGIN, __name__, DeadlinePlugin.__name__)
