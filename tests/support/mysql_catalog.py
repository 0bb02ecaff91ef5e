"""A catalog's database in MariaDB, with a user for each role, who has the rights that the docs name."""

from __future__ import annotations

import asyncio
import secrets

import sqlalchemy as sa

from local.runtime.ports import HOST
from local.runtime.roles import CATALOG_READERS, CATALOG_WRITERS
from sluice.config.platform_sections.catalog import SQL, Catalog
from tests.support.mariadb import MariaDB
from tests.support.postgres_front import Front

DATABASE = "lake"
WRITE, READ = "select, insert, update, delete, create, alter", "select"


class MysqlCatalog:
    """``server``: the MariaDB, with the database and users of docs/catalogs.md."""

    def __init__(self, *settings: str) -> None:
        self.server = MariaDB(*settings)
        self._passwords = {role: secrets.token_urlsafe(24) for role in (*CATALOG_WRITERS, *CATALOG_READERS)}
        self.run(f"create database {DATABASE} character set utf8mb4 collate utf8mb4_bin")
        for role, password in self._passwords.items():
            rights = WRITE if role in CATALOG_WRITERS else READ
            self.run(f"create user lake_{role}@'{HOST}' identified by '{password}'")
            self.run(f"grant {rights} on {DATABASE}.* to lake_{role}@'{HOST}'")

    def run(self, *statements: str) -> list[sa.Row[tuple[object, ...]]]:
        """Statements as root; the rows of the last."""
        rows: list[sa.Row[tuple[object, ...]]] = []
        with self.server.engine().connect() as connection:
            for statement in statements:
                done = connection.execute(sa.text(statement))
                rows = list(done.all()) if done.returns_rows else []
        return rows

    def catalog(self, role: str, host: str = HOST, port: int = 0) -> Catalog:
        """``port``: of a front before it."""
        uri = f"mysql://{host}:{port or self.server.port}/{DATABASE}"
        return Catalog(SQL, uri, f"lake_{role}", self._passwords[role])

    def stop(self) -> None:
        self.server.stop()


class MysqlFront(Front):
    """Passes connections on to a server that speaks first, as it is; loses an answer, or goes silent."""

    def __init__(self, upstream: int) -> None:
        self._statement = b""
        super().__init__(upstream)

    def lose_answer(self, statement: str) -> None:
        """To the next message that has this text: the server carries it out, and the connection is cut."""
        self._statement = statement.encode()

    @property
    def has_lost(self) -> bool:
        return not self._statement

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.sessions += 1
        upstream, back = await asyncio.open_connection(HOST, self._upstream)
        loses = asyncio.Event()

        async def ask() -> None:
            while data := await reader.read(65536):
                await self._talks.wait()
                if self._statement and self._statement in data:
                    self._statement = b""
                    loses.set()
                back.write(data)
            back.close()

        async def answer() -> None:
            while data := await upstream.read(65536):
                await self._talks.wait()
                if loses.is_set():
                    break
                writer.write(data)
            writer.close()

        try:
            await asyncio.gather(ask(), answer())
        except OSError:
            writer.close()
