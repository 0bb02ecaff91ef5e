from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine

from sluice.clients.databases.errors import TRANSIENT, DatabaseError, diagnose, server_message
from sluice.config import connection
from sluice.config.connection import MYSQL, POSTGRESQL, Database
from sluice.config.reading.toml import ConfigError
from sluice.core.queries.fence import fence_ddl, fence_key
from tests.support.raising import raising

PASSWORD = "pa\"ss\\w%rd\x7f'é"
WAREHOUSE = Database(
    POSTGRESQL,
    "db.example.com",
    5433,
    "counts",
    "writer",
    PASSWORD,
    {"sslmode": "verify-full", "sslrootcert": "/ca.pem"},
)


def made(
    kind: str, host: str, port: int | None, schema: str, login: str, password: str, **extra: object
) -> Database:
    """Return the database of the Airflow connection ``c``."""
    parts = {"host": host, "port": port, "schema": schema, "login": login, "password": password}
    return connection.from_connection(SimpleNamespace(conn_type=kind, extra_dejson=extra, **parts), "c")


def test_a_connection_s_file_is_read_as_it_was_written() -> None:
    for database in (WAREHOUSE, replace(WAREHOUSE, kind=MYSQL, options={"ssl_ca": "/ca.pem"})):
        assert connection.parse(database.dump(), "x.toml") == database
        assert PASSWORD not in repr(database)
        assert "w%rd" not in repr(database)
    assert WAREHOUSE.where == "database counts at db.example.com:5433"


def test_a_file_that_others_may_read_or_that_is_missing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sluice_results.toml"
    environ = {"SLUICE_CONNECTIONS_DIR": str(tmp_path)}
    with raising(ConfigError, path, "'sluice_results'"):
        connection.load("sluice_results", environ)
    path.write_text(WAREHOUSE.dump())
    path.chmod(0o640)
    with raising(ConfigError, path, "600"):
        connection.load("sluice_results", environ)
    path.chmod(0o600)
    assert connection.load("sluice_results", environ) == WAREHOUSE
    with raising(ConfigError, "SLUICE_CONNECTIONS_DIR"):
        connection.load("sluice_results", {})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('kind = "postgresql"', 'kind = "oracle"'), "kind 'oracle' is unknown; kinds are postgresql, mysql"),
        (("port = 5433", "port = 70000"), "port is 70000; it must be 1 to 65535"),
        (('host = "db.example.com"', 'host = ""'), "host is empty"),
        (("sslmode", "options"), "option 'options' is unknown; options are sslmode"),
        (("port = 5433", "ports = 5433"), "unknown key 'ports'"),
        (("port = 5433", "port = x"), "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_fix(change: tuple[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connection.parse(WAREHOUSE.dump().replace(*change), "x.toml")
    assert str(caught.value).startswith("x.toml: ")
    assert words in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_a_password_that_is_no_text_is_refused_without_showing_it() -> None:
    text = replace(WAREHOUSE, password="x").dump().replace('password = "x"', "password = 424242")
    with raising(ConfigError, "x.toml", "password") as caught:
        connection.parse(text, "x.toml")
    assert "424242" not in str(caught.value)


@pytest.mark.parametrize(
    ("conn_type", "kind", "port"),
    [
        ("postgres", POSTGRESQL, 5432),
        ("postgresql", POSTGRESQL, 5432),
        ("mysql", MYSQL, 3306),
        ("mariadb", MYSQL, 3306),
    ],
)
def test_an_airflow_connection_of_a_kind_that_fits(conn_type: str, kind: str, port: int) -> None:
    assert made(conn_type, "::1", None, "d", "u", "p") == Database(kind, "::1", port, "d", "u", "p")
    assert made(conn_type, "::1", 99, "d", "u", "p").port == 99


@pytest.mark.parametrize(
    ("conn_type", "extra", "named"),
    [
        # Nothing declared: the drivers would take plain text if the server has no encryption.
        ("postgres", {}, ("sslrootcert", "verify-full", "h")),
        ("postgres", {"sslmode": "prefer"}, ("sslmode", "prefer")),
        ("postgres", {"sslmode": "allow"}, ("sslmode", "allow")),
        ("postgres", {"sslmode": "verify-ca"}, ("sslrootcert", "verify-ca")),
        ("postgres", {"sslmode": "off"}, ("sslmode", "off")),
        ("mysql", {}, ("ssl_ca", "ssl_disabled")),
        ("mysql", {"ssl_check_hostname": "true"}, ("ssl_ca",)),
        ("mysql", {"ssl_disabled": "false"}, ("ssl_disabled",)),
        ("mysql", {"ssl_disabled": False}, ("ssl_disabled",)),
        ("mysql", {"ssl_disabled": "true", "ssl_ca": "/ca.pem"}, ("ssl_disabled",)),
        ("mysql", {"ssl_disabled": None}, ("ssl_disabled", "null")),
        ("mysql", {"ssl_ca": ["/ca.pem"]}, ("ssl_ca", '["/ca.pem"]')),
        ("mysql", {"ssl_ca": "/ca.pem", "ssl_check_hostname": "maybe"}, ("ssl_check_hostname", "maybe")),
        ("postgres", {"sslmode": 1}, ("sslmode", "1")),
    ],
)
def test_a_connection_to_another_machine_is_verified_or_declared_as_plain(
    conn_type: str, extra: dict[str, object], named: tuple[str, ...]
) -> None:
    with raising(ConfigError, "connection c", *named):
        made(conn_type, "h", 1, "d", "u", "p", **extra)


@pytest.mark.parametrize(
    ("conn_type", "host", "extra", "mode"),
    [
        ("postgres", "127.0.0.1", {}, "disable"),
        ("postgres", "/run/postgresql,127.0.0.1", {}, "disable"),
        ("postgres", "h", {"sslmode": "disable"}, "disable"),
        ("postgres", "h", {"sslmode": "require"}, "require"),
        ("postgres", "h", {"sslrootcert": "/ca.pem"}, "verify-full"),
        ("mysql", "h", {"ssl_disabled": "true"}, None),
        ("mysql", "h", {"ssl_ca": "/ca.pem"}, None),
        ("mysql", "localhost", {}, None),
    ],
)
def test_what_the_driver_is_told_of_encryption(
    conn_type: str, host: str, extra: dict[str, str], mode: str | None
) -> None:
    url = made(conn_type, host, 1, "d", "u", "p", **extra).sqlalchemy()["url"]
    assert url.query.get("sslmode") == mode
    assert extra.items() <= url.query.items()


def test_a_list_of_hosts_is_this_machine_if_each_is() -> None:
    """As libpq takes one: the folder of a socket, and then another machine."""
    with raising(ConfigError, "sslrootcert", "'verify-full'"):
        made("postgres", "/run/postgresql,db.example.com", 1, "d", "u", "p")


def test_true_and_false_of_an_extra_s_json_are_texts() -> None:
    """As the message of a missing ssl_ca says to write it; SQLAlchemy takes texts only."""
    plain = made("mysql", "h", 1, "d", "u", "p", ssl_disabled=True)
    assert plain.sqlalchemy()["url"].query == {"ssl_disabled": "true"}
    assert connection.parse(plain.dump(), "x.toml") == plain
    unnamed = made("mysql", "h", 1, "d", "u", "p", ssl_ca="/ca.pem", ssl_check_hostname=False)
    engine = create_engine(unnamed.sqlalchemy()["url"])
    _, settings = engine.dialect.create_connect_args(engine.url)
    assert settings["ssl"] == {"ca": "/ca.pem", "check_hostname": False}


def test_an_airflow_connection_that_does_not_fit() -> None:
    with raising(ConfigError, "connection c", "'oracle'", "postgres", "mysql"):
        made("oracle", "h", 1, "d", "u", "secret")
    with raising(ConfigError, "connection c", "schema") as caught:
        made("mysql", "h", 1, "", "u", "secret")
    assert "secret" not in str(caught.value)
    with raising(ConfigError, "'init_command'"):
        made("mysql", "h", 1, "d", "u", "p", init_command="x")


def test_an_engine_has_one_connection_time_outs_utc_and_shows_no_password() -> None:
    for database in (WAREHOUSE, replace(WAREHOUSE, kind=MYSQL, options={"ssl_ca": "/ca.pem"})):
        arguments = database.sqlalchemy()
        assert (arguments["pool_size"], arguments["max_overflow"], arguments["pool_pre_ping"]) == (1, 0, True)
        assert arguments["url"].password == PASSWORD
        assert "w%rd" not in repr(arguments)
        assert arguments["connect_args"]["connect_timeout"] == 5
    assert "timezone=UTC" in WAREHOUSE.sqlalchemy()["connect_args"]["options"]


class Postgres(Exception):
    def __init__(self, text: str, pgcode: str | None = None) -> None:
        super().__init__(text)
        self.pgcode = pgcode


class OperationalError(Postgres):
    """Named as psycopg2's."""


@pytest.mark.parametrize(
    ("kind", "error", "errors"),
    [
        (
            POSTGRESQL,
            OperationalError('connection to server at "h": Connection refused'),
            DatabaseError.UNREACHABLE,
        ),
        (
            POSTGRESQL,
            OperationalError("FATAL:  the database system is starting up"),
            DatabaseError.UNREACHABLE,
        ),
        (POSTGRESQL, OperationalError('FATAL:  password authentication failed for "u"'), DatabaseError.LOGIN),
        (POSTGRESQL, OperationalError('FATAL:  database "x" does not exist'), DatabaseError.NO_DATABASE),
        (
            POSTGRESQL,
            OperationalError("FATAL:  sorry, too many clients already"),
            DatabaseError.TOO_MANY_CONNECTIONS,
        ),
        (POSTGRESQL, Postgres("", "53100"), DatabaseError.DISK_FULL),
        (POSTGRESQL, Postgres("", "57P01"), DatabaseError.UNREACHABLE),
        (POSTGRESQL, Postgres("", "57014"), DatabaseError.STATEMENT_TIMEOUT),
        (POSTGRESQL, Postgres("", "40P01"), DatabaseError.LOCK_TIMEOUT),
        (POSTGRESQL, Postgres("", "42P01"), DatabaseError.NO_TABLE),
        (POSTGRESQL, Postgres("", "22001"), DatabaseError.VALUE),
        (POSTGRESQL, Postgres("", "XX000"), DatabaseError.OTHER),
        (MYSQL, Exception(2003, "Can't connect"), DatabaseError.UNREACHABLE),
        (MYSQL, Exception(1205, "Lock wait timeout"), DatabaseError.LOCK_TIMEOUT),
        (MYSQL, Exception(1969, "max_statement_time"), DatabaseError.STATEMENT_TIMEOUT),
        (MYSQL, Exception(1114, "full"), DatabaseError.DISK_FULL),
        (MYSQL, Exception(1146, "no table"), DatabaseError.NO_TABLE),
        (MYSQL, Exception(1142, "denied"), DatabaseError.DENIED),
        (MYSQL, Exception(1406, "too long"), DatabaseError.VALUE),
        (MYSQL, Exception(9999, "new"), DatabaseError.OTHER),
    ],
)
def test_what_a_driver_s_error_means(kind: str, error: Exception, errors: DatabaseError) -> None:
    assert diagnose(kind, error) == errors


def test_what_passes_and_what_is_said() -> None:
    assert {DatabaseError.UNREACHABLE, DatabaseError.DISK_FULL, DatabaseError.LOCK_TIMEOUT} < TRANSIENT
    assert not TRANSIENT & {
        DatabaseError.LOGIN,
        DatabaseError.NO_TABLE,
        DatabaseError.VALUE,
        DatabaseError.OTHER,
    }
    assert server_message(Exception(1146, "no such table\nrow (1, secret)")) == "no such table"
    assert server_message(Exception()) == "Exception"


def test_the_fence_s_row_and_table() -> None:
    assert fence_key("isp_hits", "windows") == "isp_hits/windows"
    with raising(ValueError, "255"):
        fence_key("s" * 200, "q" * 60)
    assert "InnoDB" not in fence_ddl("postgresql")
    assert "engine = InnoDB" in fence_ddl("mysql")


@pytest.mark.parametrize(
    ("conn_type", "extra"),
    [
        ("postgres", {"sslrootcert": "/c", "sslcert": "/t.crt", "sslkey": "/t.key", "sslpassword": "phrase"}),
        ("mysql", {"ssl_ca": "/c", "ssl_cert": "/t.crt", "ssl_key": "/t.key", "ssl_key_password": "phrase"}),
    ],
)
def test_a_certificate_of_a_connection_is_given_to_each_connection_and_shown_by_none(
    conn_type: str, extra: dict[str, str]
) -> None:
    # The password may be empty: a server may go by the certificate alone.
    database = made(conn_type, "h", 1, "d", "u", "", **extra)
    assert database.certificate == ("/t.crt", "/t.key", "phrase")
    assert connection.parse(database.dump(), "x.toml") == database
    given = database.sqlalchemy()
    assert given["client_certificate"] == ("/t.crt", "/t.key", "phrase")
    assert "phrase" not in repr(database) + repr(given["url"])
    assert "/t.crt" not in str(given["url"])


@pytest.mark.parametrize(
    ("conn_type", "extra", "said"),
    [
        ("postgres", {"sslkey": "/t.key"}, "sslkey is there, and sslcert is missing"),
        ("postgres", {"sslpassword": "phrase"}, "sslpassword is there, and sslcert is missing"),
        (
            "postgres",
            {"sslmode": "disable", "sslcert": "/t.crt"},
            "sslcert is there, and the connection",
        ),
        ("mysql", {"ssl_key_password": "phrase"}, "ssl_key_password is there, and ssl_cert is missing"),
        (
            "mysql",
            {"ssl_disabled": True, "ssl_cert": "/t.crt"},
            "ssl_cert is there, and the connection",
        ),
        ("postgres", {"sslpassword": 7}, "option sslpassword is no text"),
    ],
)
def test_a_certificate_of_a_connection_that_would_not_be_sent_is_refused(
    conn_type: str, extra: dict[str, object], said: str
) -> None:
    with raising(ConfigError, "connection c", said) as raised:
        made(conn_type, "127.0.0.1", 1, "d", "u", "p", **extra)
    assert "phrase" not in str(raised.value)
    assert "7" not in str(raised.value)
