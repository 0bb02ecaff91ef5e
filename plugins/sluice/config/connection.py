"""An external SQL database: an Airflow connection, exported to a private file for a stream's processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sluice.config import postgresql
from sluice.config.reading import files
from sluice.config.reading import toml as config
from sluice.config.reading.toml import ConfigError, build
from sluice.config.reading.urls import is_loopback

DIRECTORY_VARIABLE = "SLUICE_CONNECTIONS_DIR"
POSTGRESQL, MYSQL = "postgresql", "mysql"
# Airflow's type of a connection -> ours. MariaDB speaks MySQL's protocol.
KINDS = {"postgres": POSTGRESQL, "postgresql": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL}
PORTS = {POSTGRESQL: 5432, MYSQL: 3306}
# Options of the driver for encryption. None that could change a timeout or the time zone.
OPTIONS = {
    POSTGRESQL: ("sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs"),
    MYSQL: ("ssl_ca", "ssl_cert", "ssl_key", "ssl_check_hostname", "ssl_disabled"),
}
# Certificate, key, and the key's passphrase. The last is a secret, and so no option.
CERTIFICATE = {
    POSTGRESQL: postgresql.CERTIFICATE_FIELDS,
    MYSQL: ("ssl_cert", "ssl_key", "ssl_key_password"),
}
# The longest a statement may take, with the wait for a lock.
STATEMENT_SECONDS = 120
# For the driver to give up: by then the server should have cancelled the statement.
ANSWER_SECONDS = STATEMENT_SECONDS + 30


@dataclass(frozen=True)
class Database:
    """``kind``: ``postgresql``, or ``mysql`` for MySQL and MariaDB; ``options``: keys of OPTIONS. ``host``,
    ``port``: of the server; ``username``, ``password``: the login to ``database``; ``key_password``: the
    passphrase of the key among the options."""

    kind: str
    host: str
    port: int
    database: str
    username: str
    password: str = field(repr=False)
    options: dict[str, str] = field(default_factory=dict)
    key_password: str = field(default="", repr=False)

    @property
    def where(self) -> str:
        return f"database {self.database} at {self.host}:{self.port}"

    @property
    def certificate(self) -> tuple[str, str, str]:
        """Paths of certificate and key, and the key's passphrase; empty texts for what there is not."""
        certificate, key, _ = (self.options.get(name, "") for name in CERTIFICATE[self.kind])
        return certificate, key, self.key_password

    def sqlalchemy(self) -> dict[str, Any]:
        """Keyword arguments for ``sqlalchemy.create_engine(…)``; clients.databases.postgresql and, for a
        client's certificate, clients.databases.certificates are imported.

        At most one connection, with timeouts, in UTC, strict about values; errors without rows' values.
        """
        from sqlalchemy.engine import URL

        drivers = {POSTGRESQL: "postgresql+psycopg2", MYSQL: "mysql+pymysql"}
        settings = {POSTGRESQL: self._postgresql, MYSQL: self._mysql}
        plugins = []
        further: dict[str, Any] = {}
        if self.kind == POSTGRESQL:
            # PyMySQL has a deadline of its own.
            plugins.append(postgresql.PLUGIN)
            further[postgresql.DEADLINE_KEY] = ANSWER_SECONDS
        if self.certificate[0] or self.kind == MYSQL:
            plugins.append(postgresql.CERTIFICATE_PLUGIN)
            further[postgresql.CERTIFICATE_KEY] = self.certificate
        named = {key: value for key, value in self.options.items() if key not in CERTIFICATE[self.kind]}
        return {
            "url": URL.create(
                drivers[self.kind],
                username=self.username,
                password=self.password,
                host=self.host,
                port=self.port,
                database=self.database,
                query=named | self._ssl(),
            ),
            "connect_args": settings[self.kind](),
            # The same on both; rows that are read twice in a transaction are locked.
            "isolation_level": "READ COMMITTED",
            "pool_size": 1,
            "max_overflow": 0,
            "pool_pre_ping": True,
            "hide_parameters": True,
            "plugins": plugins,
            **further,
        }

    def _ssl(self) -> dict[str, str]:
        # MySQL's driver falls back to plain text only if no option of its names a certificate.
        mode = postgresql.ssl_mode(self.host, self.options.get("sslmode", ""))
        return {"sslmode": mode} if self.kind == POSTGRESQL else {}

    @staticmethod
    def _postgresql() -> dict[str, Any]:
        return {
            **postgresql.libpq_timeouts(STATEMENT_SECONDS, "-c timezone=UTC"),
            "application_name": "sluice",
        }

    @staticmethod
    def _mysql() -> dict[str, Any]:
        return {
            "charset": "utf8mb4",
            "connect_timeout": postgresql.CONNECT_SECONDS,
            "read_timeout": ANSWER_SECONDS,
            "write_timeout": ANSWER_SECONDS,
            # Without the strict mode a text that is too long is cut silently. Only MariaDB reads what is
            # in /*M! */; MySQL has no timeout for statements that write.
            "init_command": "set session time_zone = '+00:00', "
            "sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION' "
            f"/*M!100100 , max_statement_time = {STATEMENT_SECONDS} */",
        }

    def dump(self) -> str:
        """TOML with the password."""
        return config.dump(asdict(self))


def parse(text: str, where: str) -> Database:
    """Raises ConfigError naming ``where`` and the key, never the password."""
    data = config.toml(text, where)
    for key in ("password", "key_password"):
        if not isinstance(data.get(key, ""), str):
            # The general message would show the value.
            raise ConfigError(f"{where}: {key} is not a text. Fix: put it into quotes")
    return _checked(build(Database, data, where), where)


def load(connection: str, environ: Mapping[str, str] | None = None) -> Database:
    """Read the file of a connection. Raises ConfigError as :func:`files.read`."""
    needed = f"the DAG that starts the stream writes it from the Airflow connection {connection!r}"
    path, text = files.read(DIRECTORY_VARIABLE, connection, needed, environ)
    return parse(text, path)


def from_connection(connection: Any, name: str) -> Database:
    """Read an Airflow connection. Raises ConfigError for another type of database, and for an empty field."""
    where = f"connection {name}"
    kind = KINDS.get(connection.conn_type or "")
    if kind is None:
        raise ConfigError(
            f"{where}: type {connection.conn_type!r} cannot take a query's results. Fix: make it one of "
            f"{', '.join(KINDS)}"
        )
    host, schema = connection.host or "", connection.schema or ""
    login, password = connection.login or "", connection.password or ""
    extra = dict(connection.extra_dejson)
    secret = extra.pop(CERTIFICATE[kind][2], "")
    if not isinstance(secret, str):
        # A message that shows the value is for others.
        raise ConfigError(f"{where}: option {CERTIFICATE[kind][2]} is no text. Fix: put it into quotes")
    fields = {"host": host, "schema (the database's name)": schema, "login": login, "password": password}
    if extra.get(CERTIFICATE[kind][0]):
        # A server may go by the certificate alone.
        del fields["password"]
    for key, value in fields.items():
        if not value:
            raise ConfigError(f"{where}: {key} is empty. Fix: fill it in")
    port = PORTS[kind] if connection.port is None else connection.port
    options = _options(kind, extra, where)
    return _checked(Database(kind, host, port, schema, login, password, options, secret), where)


def _options(kind: str, extra: Mapping[str, Any], where: str) -> dict[str, str]:
    """Options of a connection's JSON, with true and false as the texts that SQLAlchemy takes."""
    unknown = sorted(extra.keys() - set(OPTIONS[kind]))
    if unknown:
        raise _unknown_option(kind, unknown[0], where)
    options = {}
    for key, value in extra.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if not isinstance(value, str | bool):
            raise ConfigError(f"{where}: option {key} is {text}, no text. Fix: write a text, or leave it out")
        options[key] = text
    return options


def _unknown_option(kind: str, key: str, where: str) -> ConfigError:
    known = ", ".join((*OPTIONS[kind], CERTIFICATE[kind][2]))
    return ConfigError(f"{where}: option {key!r} is unknown; options are {known}")


def _checked(database: Database, where: str) -> Database:
    if database.kind not in PORTS:
        raise ConfigError(f"{where}: kind {database.kind!r} is unknown; kinds are {', '.join(PORTS)}")
    for key in ("host", "database", "username"):
        if not getattr(database, key):
            raise ConfigError(f"{where}: {key} is empty. Fix: fill it in")
    if not 0 < database.port < 65536:
        raise ConfigError(f"{where}: port is {database.port}; it must be 1 to 65535")
    for key in database.options:
        if key not in OPTIONS[database.kind]:
            raise _unknown_option(database.kind, key, where)
    _check_ssl(database, where)
    return database


def _check_ssl(database: Database, where: str) -> None:
    """Raise ConfigError if the connection to another machine may be in plain text without a declaration."""
    options = database.options
    files = dict(zip(CERTIFICATE[database.kind], database.certificate, strict=True))
    if database.kind == POSTGRESQL:
        mode, ca = options.get("sslmode", ""), options.get("sslrootcert", "")
        postgresql.check_ssl(where, database.host, mode, ca, ("sslmode", "sslrootcert"))
        is_encrypted = postgresql.ssl_mode(database.host, mode) != postgresql.DISABLE
        postgresql.check_certificate(where, is_encrypted, files)
        return
    is_disabled = options.get("ssl_disabled", "").lower()
    if is_disabled not in ("", "true") or (is_disabled and "ssl_ca" in options):
        raise ConfigError(
            f"{where}: ssl_disabled is {is_disabled!r}. Fix: write true without ssl_ca, or leave it out"
        )
    if options.get("ssl_check_hostname", "true").lower() not in ("true", "false"):
        raise ConfigError(
            f"{where}: ssl_check_hostname is {options['ssl_check_hostname']!r}. Fix: write true or false"
        )
    if not is_disabled and not options.get("ssl_ca") and not is_loopback(database.host):
        raise ConfigError(
            f"{where}: ssl_ca is missing, and {database.host} is another machine. Fix: give the path of a "
            "PEM file with its CA, or, in a network that you trust, write ssl_disabled = true"
        )
    postgresql.check_certificate(where, not is_disabled, files)
