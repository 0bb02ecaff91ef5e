"""A catalog in a database, and databases of results: TLS, clock, and the user's rights on tables."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sluice.clients.catalogs.errors import asking
from sluice.config.connection import MYSQL, POSTGRESQL
from sluice.connection_check.probing import certificates
from sluice.connection_check.probing import tls as handshakes
from sluice.connection_check.probing.tls import Tls
from sluice.connection_check.rights.tables import CATALOG_TABLE, WRITE, privileges
from sluice.connection_check.rows import PLAIN_TEXT, Row, compared
from sluice.core.errors import Refused
from sluice.core.messages import summarize

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from sluice.config.connection import Database
    from sluice.config.platform import Platform
    from sluice.config.platform_sections.catalog import Catalog

# What a user of a catalog, or of results, needs none of.
_SUPERUSER = "superuser"


def ask_catalog(platform: Platform, rows: list[Row]) -> None:
    """Fill the row of ``[lake.catalog]`` of type sql. Raises ClientError."""
    from sluice.clients.catalogs.pointers import opened

    row, catalog = rows[0], platform.lake.catalog
    needed = privileges(platform.role)
    tls = _tls_of(catalog)
    if tls is None:
        row.tls = PLAIN_TEXT
    elif not _is_trusted(row, catalog.database, catalog.host, _port(catalog), tls):
        return
    pointers = opened(platform.lake.pyiceberg(platform.s3))
    try:
        engine: Any = pointers.catalog
        with asking("the lake's catalog"), engine.engine.connect() as connection:
            _fill(row, connection, catalog.sslrootcert)
            found = _on_table(connection, CATALOG_TABLE)
            asked = [
                (f"{one} on table {CATALOG_TABLE}", one in needed, one in (found or ())) for one in WRITE
            ]
            if found is None:
                row.remarks.append(
                    f"rights on table {CATALOG_TABLE} are not asked: a writer makes it at its first start"
                )
                asked = [("CREATE in the schema", True, _may_create(connection))] if needed == WRITE else []
            row.rights = compared([*asked, (_SUPERUSER, False, _is_superuser(connection))])
    except Refused:
        if needed:
            raise
        row.remarks.append("the catalog does not let it in, and it needs nothing there")
    finally:
        pointers.close()


def ask_results(database: Database, tables: Sequence[str], rows: list[Row]) -> None:
    """Fill the row of a database of results; ``tables``: of the sinks. Raises ClientError."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError

    # It registers the plugins of the engine's URL, too.
    from sluice.clients.databases.results import translated

    row, options = rows[0], database.options
    mode = options.get("sslmode", "") if database.kind == POSTGRESQL else ""
    tls = Tls.declared(
        options,
        database.key_password,
        is_verified=any(options.get(key) for key in ("sslrootcert", "ssl_ca")),
        names_host=mode != "verify-ca" and options.get("ssl_check_hostname", "true").lower() == "true",
    )
    said = database.sqlalchemy()["url"].query
    is_plain = said.get("sslmode") == "disable" or bool(said.get("ssl_disabled"))
    if is_plain or (database.kind == MYSQL and not tls.ca):
        row.tls = PLAIN_TEXT
    elif not _is_trusted(row, database.kind, database.host, database.port, tls):
        return
    engine = create_engine(**database.sqlalchemy())
    try:
        with engine.connect() as connection:
            _fill(row, connection, tls.ca)
            _ask_tables(row, connection, tables)
    except DBAPIError as error:
        raise translated(database, error.orig or error) from error
    finally:
        engine.dispose()


def _ask_tables(row: Row, connection: Connection, tables: Sequence[str]) -> None:
    asked, missing = [], []
    for table in tables:
        found = _on_table(connection, table)
        if found is None:
            missing.append(table)
            continue
        asked += [(f"{one} on table {table}", True, one in found) for one in WRITE]
    if missing:
        asked.append(("CREATE in the schema", True, _may_create(connection)))
        row.remarks.append(f"provision_sinks makes what is not there yet: {summarize(missing, 8)}")
    row.rights = compared([*asked, (_SUPERUSER, False, _is_superuser(connection))])


def _tls_of(catalog: Catalog) -> Tls | None:
    """None for plain text."""
    from sluice.config import postgresql

    mode = postgresql.ssl_mode(catalog.host, catalog.sslmode)
    if mode == postgresql.DISABLE:
        return None
    is_verified = mode in postgresql.VERIFYING
    names_host = mode == postgresql.VERIFY_FULL
    return Tls.declared(catalog, is_verified=is_verified, names_host=names_host)


def _port(catalog: Catalog) -> int:
    from urllib.parse import urlsplit

    from sluice.config.platform_sections.catalog import PORTS

    return urlsplit(catalog.uri).port or PORTS[catalog.database]


def _is_trusted(row: Row, kind: str, host: str, port: int, tls: Tls) -> bool:
    handshakes.read_files(row, tls)
    # MySQL's handshake is its driver's: its connection shows the certificate.
    return kind == MYSQL or handshakes.look(row, host, port, tls, is_postgresql=True)


def _fill(row: Row, connection: Connection, ca: str) -> None:
    """The server's clock; and its certificates, where the driver's connection has them."""
    began = time.time()
    text = "extract(epoch from clock_timestamp())" if _is_postgresql(connection) else "unix_timestamp(now(6))"
    at = float(_scalar(connection, f"select {text}"))
    row.clock = at - (began + time.time()) / 2
    # PyMySQL's; libpq's is its own.
    if opened := getattr(connection.connection.dbapi_connection, "_sock", None):
        certificates.note(row, opened, ca)


def _is_postgresql(connection: Connection) -> bool:
    return connection.dialect.name == POSTGRESQL


def _scalar(connection: Connection, statement: str, **values: Any) -> Any:
    from sqlalchemy import text

    return connection.execute(text(statement), values).scalar()


def _on_table(connection: Connection, table: str) -> Iterable[str] | None:
    """SQL's words for what the user may do with a table; None without such a table."""
    if not _is_postgresql(connection):
        return _mysql_privileges(connection, table)
    if _scalar(connection, "select to_regclass(quote_ident(:table))", table=table) is None:
        return None
    asked = "select has_table_privilege(quote_ident(:table), :privilege)"
    return [one for one in WRITE if _scalar(connection, asked, table=table, privilege=one)]


_GRANTEE = "concat(\"'\", replace(current_user(), '@', \"'@'\"), \"'\")"
_MYSQL_PRIVILEGES = f"""
select privilege_type from information_schema.user_privileges where grantee = {_GRANTEE}
union select privilege_type from information_schema.schema_privileges
 where grantee = {_GRANTEE} and database() like table_schema
union select privilege_type from information_schema.table_privileges
 where grantee = {_GRANTEE} and table_schema = database() and table_name = :table"""  # noqa: S608


def _mysql_privileges(connection: Connection, table: str) -> set[str] | None:
    # It is shown to who has any right on it; and it is not there, or not to be told from that, to others.
    there = (
        "select count(*) from information_schema.tables where table_schema = database() and table_name = "
        ":table"
    )
    if not _scalar(connection, there, table=table):
        return None
    return _granted(connection, table)


def _granted(connection: Connection, table: str) -> set[str]:
    from sqlalchemy import text

    return set(connection.execute(text(_MYSQL_PRIVILEGES), {"table": table}).scalars())


def _may_create(connection: Connection) -> bool:
    if _is_postgresql(connection):
        return bool(_scalar(connection, "select has_schema_privilege(current_schema(), 'CREATE')"))
    return "CREATE" in _granted(connection, "")


def _is_superuser(connection: Connection) -> bool:
    if _is_postgresql(connection):
        statement = "select bool_or(rolsuper) from pg_roles where rolname in (current_user, session_user)"
        return bool(_scalar(connection, statement))
    return "SUPER" in _granted(connection, "")
