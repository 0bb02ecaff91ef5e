"""A foreign SQL database, as one connection to it: where it is, and one user's way in.

An Airflow connection says it. What runs outside Airflow's tasks (a stream's processes) cannot ask Airflow, so
a step of the DAG writes it into a file of mode 600 in the folder that the environment variable
``SLUICE_CONNECTIONS_DIR`` names: one TOML file per connection id. Its password is in no argv and in no log.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.model.spec import config
from sluice.model.spec.config import ConfigError, build

DIRECTORY_VARIABLE = "SLUICE_CONNECTIONS_DIR"
POSTGRESQL, MYSQL = "postgresql", "mysql"
# Airflow's words for a connection's type -> ours. MariaDB speaks MySQL's protocol.
KINDS = {"postgres": POSTGRESQL, "postgresql": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL}
PORTS = {POSTGRESQL: 5432, MYSQL: 3306}
# What a connection may say besides, in the driver's own words: how it is encrypted. Nothing that could take
# back a timeout or the time zone, and no secret.
OPTIONS = {
    POSTGRESQL: ("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs"),
    MYSQL: ("ssl_ca", "ssl_cert", "ssl_key", "ssl_check_hostname"),
}
CONNECT_SECONDS = 5
# Of one statement, the wait for a lock included.
STATEMENT_SECONDS = 120
# A driver without an answer for longer gives up: the server would have ended the statement by itself.
ANSWER_SECONDS = STATEMENT_SECONDS + 30


@dataclass(frozen=True)
class Database:
    """One database and one user of it. ``kind``: ``postgresql``, or ``mysql`` for MySQL and MariaDB.

    ``options``: keys of OPTIONS. The password is left out of ``repr``.
    """

    kind: str
    host: str
    port: int
    database: str
    username: str
    password: str = field(repr=False)
    options: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """What it is called in messages."""
        return f"database {self.database} at {self.host}:{self.port}"

    def sqlalchemy(self) -> dict[str, Any]:
        """Keyword arguments for ``sqlalchemy.create_engine(…)``: one connection at most, looked at before it
        is used again, with time-outs; sessions in UTC, in which what does not fit is an error.

        Errors of such an engine hold no row's values.
        """
        from sqlalchemy.engine import URL

        drivers = {POSTGRESQL: "postgresql+psycopg2", MYSQL: "mysql+pymysql"}
        settings = {POSTGRESQL: self._postgresql, MYSQL: self._mysql}
        return {
            "url": URL.create(
                drivers[self.kind],
                username=self.username,
                password=self.password,
                host=self.host,
                port=self.port,
                database=self.database,
                query=self.options,
            ),
            "connect_args": settings[self.kind](),
            # Alike on both. What is read twice in a transaction is read under a lock here.
            "isolation_level": "READ COMMITTED",
            "pool_size": 1,
            "max_overflow": 0,
            "pool_pre_ping": True,
            "hide_parameters": True,
        }

    @staticmethod
    def _postgresql() -> dict[str, Any]:
        return {
            "connect_timeout": CONNECT_SECONDS,
            "options": f"-c timezone=UTC -c statement_timeout={STATEMENT_SECONDS * 1000}",
            "application_name": "sluice",
            # Of a host that is gone nobody says so; the driver has no time-out of its own.
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": 60_000,
        }

    @staticmethod
    def _mysql() -> dict[str, Any]:
        return {
            "charset": "utf8mb4",
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": ANSWER_SECONDS,
            "write_timeout": ANSWER_SECONDS,
            # Without the strict mode a text that is too long is cut off, silently. Only MariaDB reads what is
            # in /*M! */; MySQL knows no time-out for statements that write.
            "init_command": "set session time_zone = '+00:00', "
            "sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION' "
            f"/*M!100100 , max_statement_time = {STATEMENT_SECONDS} */",
        }

    def dump(self) -> str:
        """TOML, as :func:`parse` reads it. Holds the password."""
        keys = ("kind", "host", "port", "database", "username", "password")
        lines = [f"{key} = {_toml(getattr(self, key))}" for key in keys]
        if self.options:
            lines += ["", "[options]", *(f"{key} = {_toml(value)}" for key, value in self.options.items())]
        return "\n".join(lines) + "\n"


def _toml(value: str | int) -> str:
    # JSON's texts and numbers are TOML's too, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def parse(text: str, where: str) -> Database:
    """Parse a connection's TOML. Raises ConfigError naming ``where``, the key and the mend; never the
    password."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not valid TOML: {error}") from error
    if not isinstance(data.get("password", ""), str):
        # In its own words: the general ones would show the value.
        raise ConfigError(f"{where}: password is not a text; put it into quotes")
    return _checked(build(Database, data, where), where)


def load(connection: str, environ: Mapping[str, str] | None = None) -> Database:
    """Read the file of a connection from the folder that SLUICE_CONNECTIONS_DIR names.

    Raises ConfigError when the variable is not set, the file is missing, unreadable, or open to other users
    (it holds a password).
    """
    needed = f"the DAG that starts the stream writes it, out of the Airflow connection {connection!r}"
    path, text = config.read(DIRECTORY_VARIABLE, connection, needed, environ)
    return parse(text, path)


def from_connection(
    conn_type: str | None,
    host: str | None,
    port: int | None,
    schema: str | None,
    login: str | None,
    password: str | None,
    options: Mapping[str, str] | None = None,
    name: str = "",
) -> Database:
    """What the fields of an Airflow connection say; ``schema`` is Airflow's word for the database,
    ``options`` comes from its extra, ``name`` is its id, for messages.

    Raises ConfigError for a type that is no PostgreSQL, MySQL or MariaDB, and for what is missing.
    """
    where = f"connection {name}".strip()
    kind = KINDS.get(conn_type or "")
    if kind is None:
        raise ConfigError(
            f"{where}: type {conn_type!r} cannot take a query's results; make it one of {', '.join(KINDS)}"
        )
    given = {"host": host, "schema (the database's name)": schema, "login": login, "password": password}
    for key, value in given.items():
        if not value:
            raise ConfigError(f"{where}: {key} is empty; fill it in")
    made = Database(
        kind=kind,
        host=host or "",
        port=PORTS[kind] if port is None else port,
        database=schema or "",
        username=login or "",
        password=password or "",
        options=dict(options or {}),
    )
    return _checked(made, where)


def _checked(database: Database, where: str) -> Database:
    if database.kind not in PORTS:
        raise ConfigError(f"{where}: kind {database.kind!r} is unknown; kinds are {', '.join(PORTS)}")
    for key in ("host", "database", "username"):
        if not getattr(database, key):
            raise ConfigError(f"{where}: {key} is empty; fill it in")
    if not 0 < database.port < 65536:
        raise ConfigError(f"{where}: port is {database.port}; it must be 1 to 65535")
    known = OPTIONS[database.kind]
    for key in database.options:
        if key not in known:
            raise ConfigError(f"{where}: option {key!r} is unknown; options are {', '.join(known)}")
    return database
