"""An external SQL database as a sink: create its tables, and read them to compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError, NoSuchTableError

from sluice.clients.databases import postgresql as _deadline  # noqa: F401 - registers the plugin of the engines
from sluice.clients.databases.errors import LOGIN_FIXES, TRANSIENT, DatabaseError, diagnose, server_message
from sluice.config.connection import Database
from sluice.config.sections.query import Query
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Missing, Refused, Unreachable
from sluice.core.queries.fence import FENCE_TABLE, fence_ddl, fence_key
from sluice.core.queries.result import VERSION, WINDOW

READ_ROWS = 10_000
# The longest text of a key column: MySQL allows three of these in one key.
TEXT_CHARACTERS = 255
# Spark's DDL type -> the family of a column.
_FAMILIES = {
    "string": "text",
    "date": "date",
    "boolean": "boolean",
    **dict.fromkeys(("timestamp", "timestamp_ntz"), "timestamp in UTC"),
    **dict.fromkeys(("tinyint", "smallint", "int"), "integer"),
    "bigint": "bigint",
}
# Collations that distinguish every character, trailing blanks included: MariaDB's and MySQL's.
_MARIADB_EXACT, _MYSQL_EXACT = "utf8mb4_nopad_bin", "utf8mb4_0900_bin"


@dataclass(frozen=True)
class ProvisionResult:
    """``made``: names of the tables that were created."""

    database: str
    made: tuple[str, ...]

    def __str__(self) -> str:
        what = f"created {' and '.join(self.made)}" if self.made else "all tables exist"
        return f"{self.database}: {what}"


def provision(
    database: Database, table: str, query: Query, types: Mapping[str, str], key: str | None = None
) -> ProvisionResult:
    """Create the missing ones of a query's results table and the fence table.

    ``types``: result column -> Spark's DDL type. ``key``: the writer's, as ``fence_key`` gives it; if the
    results table is missing, the fence first deletes that writer's batch, so that it writes all results
    again.

    Idempotent, also for two callers at once. Raises Refused, and changes nothing, for a table with other
    columns, another key, or keys that two results could share.
    """
    with _asking(database) as engine:
        made = []
        before = _tables(engine)
        if FENCE_TABLE not in before:
            _create(engine, sa.text(fence_ddl(engine.dialect.name)))
            made.append(FENCE_TABLE)
        if table not in before:
            declared = _declared(engine, table, query, types)
            if key is not None:
                with engine.begin() as connection:
                    # Before the table exists: a step that is killed in between is repeated from here. A
                    # running writer finds no row, and cannot write until it calls open() again.
                    forget = sa.text(f"delete from {FENCE_TABLE} where stream = :key")
                    connection.execute(forget, {"key": key})
            _create(engine, sa.schema.CreateTable(declared, if_not_exists=True))
            made.append(table)
        differences = _differences(engine, table, query, types)
    if differences:
        raise Refused(
            f"table {table} in {database.where}: {'; '.join(differences)}. Fix: rename it and run this step "
            "again, which creates it, or name another table in the sink",
            ErrorCode.DATABASE_TABLE,
        )
    return ProvisionResult(database.where, tuple(made))


def is_provisioned(database: Database, table: str, query: Query, types: Mapping[str, str]) -> bool:
    """Whether :func:`provision` would change nothing, and refuse nothing. Reads only."""
    with _asking(database) as engine:
        has = {FENCE_TABLE, table} <= _tables(engine)
        return has and not _differences(engine, table, query, types)


def counts(
    database: Database, table: str, query: Query, windows: tuple[int, int] | None = None
) -> Iterator[tuple[Any, ...]]:
    """Yield the results: keys, aggregates and version, in any order; times without a zone are in UTC.

    ``windows``: first and last start (seconds since 1970) of the windows to read; all by default. One
    statement reads them, so they are of one moment. Raises Missing without the table.
    """
    names = [*query.keys, *query.aggregates, VERSION]
    with _asking(database) as engine, engine.connect() as connection:
        types = {column["name"]: column["type"] for column in sa.inspect(connection).get_columns(table)}
        families = {name: family_of(types[name]) if name in types else "missing" for name in names}
        wrong = [f"{name} {family}" for name, family in families.items() if family not in _FAMILIES.values()]
        if wrong:
            raise Refused(
                f"table {table} in {database.where} has columns {', '.join(wrong)}. Fix: run provision_sinks "
                "again",
                ErrorCode.DATABASE_TABLE,
            )
        # Typed if a driver returns something else: MySQL's booleans are numbers.
        columns = [sa.column(name, sa.Boolean() if families[name] == "boolean" else None) for name in names]
        statement: Any = sa.select(*columns).select_from(sa.table(table))
        if windows:
            statement = statement.where(within(*windows))
        for row in connection.execution_options(yield_per=READ_ROWS).execute(statement):
            yield tuple(row)


def within(first: int, last: int) -> sa.ColumnElement[bool]:
    """Whether a result's window starts from ``first`` to ``last``, in seconds since 1970."""
    return sa.column(WINDOW).between(datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC))


def last_batch(database: Database, stream: str, query_name: str) -> int | None:
    """The last batch of a query that the database has committed; None before the first.

    Raises Missing if nothing was ever provisioned there.
    """
    statement = sa.text(f"select batch from {FENCE_TABLE} where stream = :key")
    with _asking(database) as engine, engine.connect() as connection:
        found = connection.execute(statement, {"key": fence_key(stream, query_name)}).scalar_one_or_none()
    return None if found is None or found < 0 else int(found)


@contextmanager
def _asking(database: Database) -> Iterator[sa.Engine]:
    """An engine whose errors become Missing, Refused or Unreachable with only the server's own message."""
    engine = sa.create_engine(**database.sqlalchemy())
    try:
        yield engine
    except NoSuchTableError as error:
        table = str(error).strip("`")
        message = f"table {table} does not exist in {database.where}. Fix: run provision_sinks"
        raise Missing(message, ErrorCode.DATABASE_TABLE) from error
    except DBAPIError as error:
        cause = error.orig if error.orig is not None else error
        raise translated(database, cause) from cause
    finally:
        engine.dispose()


def translated(database: Database, error: BaseException) -> ClientError:
    error_class = diagnose(database.kind, error)
    what = f"{database.where} {error_class} ({server_message(error)})"
    if error_class in TRANSIENT:
        return Unreachable(what, ErrorCode.DATABASE_UNREACHABLE)
    if error_class in (DatabaseError.NO_TABLE, DatabaseError.NO_DATABASE):
        return Missing(what, ErrorCode.DATABASE_TABLE)
    if error_class in LOGIN_FIXES:
        return Refused(f"{what}. Fix: {LOGIN_FIXES[error_class]}", ErrorCode.DATABASE_LOGIN)
    is_denied = error_class is DatabaseError.DENIED
    fix = ". Fix: check the rights of the Airflow connection's user" if is_denied else ""
    return Refused(what + fix, ErrorCode.DATABASE_REFUSED)


def _tables(engine: sa.Engine) -> set[str]:
    return set(sa.inspect(engine).get_table_names())


def _create(engine: sa.Engine, statement: sa.Executable) -> None:
    try:
        with engine.begin() as connection:
            connection.execute(statement)
    except DBAPIError as error:
        # PostgreSQL's "if not exists" is not atomic: of two at once, one meets the other's catalog entry.
        if getattr(error.orig, "pgcode", None) not in ("23505", "42P07", "42710"):
            raise


def _declared(engine: sa.Engine, table: str, query: Query, types: Mapping[str, str]) -> sa.Table:
    text: sa.types.TypeEngine[Any] = sa.String(TEXT_CHARACTERS)
    moment: sa.types.TypeEngine[Any] = sa.DateTime(timezone=True)
    if engine.dialect.name != "postgresql":
        text = mysql.VARCHAR(TEXT_CHARACTERS, charset="utf8mb4", collation=_exact(engine))
        moment = mysql.DATETIME(fsp=6)
    made: dict[str, sa.types.TypeEngine[Any]] = {
        "text": text,
        "date": sa.Date(),
        "boolean": sa.Boolean(),
        "timestamp in UTC": moment,
        "integer": sa.BigInteger(),
        "bigint": sa.BigInteger(),
    }
    expected = _expected_families(table, query, types)
    return sa.Table(
        table,
        sa.MetaData(),
        *(
            # No autoincrement: a key of one integer would get it.
            sa.Column(name, made[family], primary_key=name in query.keys, autoincrement=False, nullable=False)
            for name, family in expected.items()
        ),
        mysql_engine="InnoDB",
    )


def _expected_families(table: str, query: Query, types: Mapping[str, str]) -> dict[str, str]:
    expected = {}
    for name in query.keys:
        if types[name] not in _FAMILIES:
            raise Refused(
                f"table {table}: column {name} of type {types[name]} cannot be a key. Fix: group by a column "
                f"of type {', '.join(_FAMILIES)}",
                ErrorCode.INVALID_CONFIGURATION,
            )
        expected[name] = _FAMILIES[types[name]]
    return expected | dict.fromkeys([*query.aggregates, VERSION], "bigint")


def _differences(engine: sa.Engine, table: str, query: Query, types: Mapping[str, str]) -> list[str]:
    expected = _expected_families(table, query, types)
    seen = sa.inspect(engine)
    existing = {column["name"]: column for column in seen.get_columns(table)}
    found = [f"has no column {name} ({family})" for name, family in expected.items() if name not in existing]
    found += [
        f"has column {name}, which the query does not give" for name in existing if name not in expected
    ]
    for name, family in expected.items():
        if name in existing and not _fits(existing[name]["type"], family):
            found.append(f"column {name} is {existing[name]['type']} where {_needed(family)} is needed")
    key = seen.get_pk_constraint(table)["constrained_columns"]
    if set(key) != set(query.keys):
        found.append(f"its primary key is ({', '.join(key)}) where ({', '.join(query.keys)}) is needed")
    # MySQL's upsert uses the first unique key that a row violates; PostgreSQL's fails.
    for index in seen.get_indexes(table):
        if index["unique"]:
            columns = ", ".join(str(name) for name in index["column_names"])
            found.append(f"has another unique key ({columns})")
    if engine.dialect.name != "postgresql":
        found += _inexact(engine, table, [name for name in query.keys if expected[name] == "text"])
    return found


def _fits(kind: sa.types.TypeEngine[Any], family: str) -> bool:
    existing = family_of(kind)
    if family == "integer":
        return existing in ("integer", "bigint")
    if family == "text":
        length = getattr(kind, "length", None)
        return existing == "text" and (length is None or length >= TEXT_CHARACTERS)
    return existing == family


def _needed(family: str) -> str:
    return f"text of {TEXT_CHARACTERS} characters" if family == "text" else family


def family_of(kind: sa.types.TypeEngine[Any]) -> str:
    """The family of an existing column; its type's name if it has none."""
    if isinstance(kind, sa.String) and not isinstance(kind, sa.Enum):
        return "text"
    if isinstance(kind, sa.BigInteger):
        return "bigint"
    if isinstance(kind, sa.Boolean) or (
        isinstance(kind, mysql.TINYINT) and getattr(kind, "display_width", 0) == 1
    ):
        return "boolean"
    if isinstance(kind, sa.Integer):
        return "integer"
    if isinstance(kind, sa.DateTime):
        fraction = getattr(kind, "fsp", None) == 6 if isinstance(kind, mysql.DATETIME) else kind.timezone
        return "timestamp in UTC" if fraction else str(kind)
    return "date" if isinstance(kind, sa.Date) else str(kind)


def _exact(engine: sa.Engine) -> str:
    with engine.connect():
        # The dialect is known after a connection.
        return _MARIADB_EXACT if getattr(engine.dialect, "is_mariadb", False) else _MYSQL_EXACT


def _inexact(engine: sa.Engine, table: str, columns: list[str]) -> list[str]:
    """Properties by which two results could share a row, or an aborted transaction could leave one."""
    exact = _exact(engine)
    with engine.connect() as connection:
        collations = connection.execute(
            sa.text(
                "select column_name, collation_name from information_schema.columns "
                "where table_schema = database() and table_name = :name"
            ),
            {"name": table},
        )
        by_name = {str(name): str(collation) for name, collation in collations}
        storage_engine = connection.execute(
            sa.text(
                "select engine from information_schema.tables "
                "where table_schema = database() and table_name = :name"
            ),
            {"name": table},
        ).scalar_one()
    found = [
        f"column {name} has the collation {by_name[name]}, in which two texts can be one key; "
        f"{exact} is needed"
        for name in columns
        if name in by_name and by_name[name] != exact
    ]
    if storage_engine != "InnoDB":
        found.append(f"its engine {storage_engine} knows no transactions; InnoDB is needed")
    return found
