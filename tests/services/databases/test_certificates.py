"""Databases that ask for a client's certificate, by Python's clients of a catalog and of a sink; and what is
said of a certificate, an authority or a host that is another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.clients.catalogs.errors import asking
from sluice.clients.catalogs.pointers import opened
from sluice.clients.databases.results import translated
from sluice.config.connection import POSTGRESQL, Database
from sluice.config.platform_sections import catalog as section
from sluice.config.platform_sections.catalog import SQL, Catalog
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from tests.support.certificates import Authority
from tests.support.postgres_front import HOST, Front
from tests.support.postgres_tls import BOTH, CERTIFIED, DATABASE, PASSWORD, TlsPostgres
from tests.support.raising import raising

PHRASE = "a phrase of the key"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsPostgres]:
    made = TlsPostgres(Authority(tmp_path_factory.mktemp("authority")))
    try:
        yield made
    finally:
        made.stop()


def declared(server: TlsPostgres, **changed: Any) -> Catalog:
    """A catalog of who logs in by a certificate alone, whose key is encrypted."""
    certificate, key = server.authority.issue(CERTIFIED, passphrase=PHRASE)
    given = {
        "uri": f"postgresql://{HOST}:{server.port}/{DATABASE}",
        "username": CERTIFIED,
        "sslmode": "verify-full",
        "sslrootcert": str(server.authority.ca),
        "sslcert": str(certificate),
        "sslkey": str(key),
        "sslpassword": PHRASE,
    }
    made = Catalog(SQL, **given | changed)
    section.check(made, "consumer.toml: [lake.catalog]")
    return made


def ask_catalog(catalog: Catalog) -> None:
    with closing(opened(catalog.pyiceberg())) as pointers, asking("table raw.t"):
        engine = pointers.catalog.engine  # type: ignore[attr-defined]
        assert PHRASE not in f"{engine.url!r} {engine.url} {engine!r}"
        with engine.connect() as connection:
            used = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
            assert connection.execute(sa.text(used)).scalar() is True


def ask_sink(catalog: Catalog) -> None:
    options = {key: getattr(catalog, key) for key in ("sslmode", "sslrootcert", "sslcert", "sslkey")}
    database = Database(
        POSTGRESQL,
        catalog.host,
        int(catalog.uri.rsplit(":")[-1].split("/")[0]),
        DATABASE,
        catalog.username,
        catalog.password,
        {key: text for key, text in options.items() if text},
        catalog.sslpassword,
    )
    assert PHRASE not in repr(database)
    engine = sa.create_engine(**database.sqlalchemy())
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("select 1"))
    except sa.exc.DBAPIError as error:
        raise translated(database, error.orig or error) from error
    finally:
        engine.dispose()


ASKED = {ErrorCode.CATALOG_LOGIN: ask_catalog, ErrorCode.DATABASE_LOGIN: ask_sink}


def refused(catalog: Catalog, *words: str) -> None:
    """By both clients, each with its code."""
    for code, ask in ASKED.items():
        with raising(Refused, *words, "Fix: ") as raised:
            ask(catalog)
        assert raised.value.code is code
        assert PHRASE not in str(raised.value)


def test_a_certificate_logs_in_and_is_read_again_when_it_was_replaced(server: TlsPostgres) -> None:
    catalog = declared(server)
    for ask in ASKED.values():
        ask(catalog)
    # Under the same names, with another phrase than is declared, and then with the right one.
    server.authority.issue(CERTIFIED, passphrase="another")
    refused(catalog, "certificate ", " cannot be used (")
    server.authority.issue(CERTIFIED, passphrase=PHRASE)
    for ask in ASKED.values():
        ask(catalog)


@pytest.mark.exhaustive
def test_each_other_certificate_authority_and_host_is_told_in_one_line(
    server: TlsPostgres, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other", "another authority")
    foreign, key = other.issue(CERTIFIED)
    no_files = {"sslcert": "", "sslkey": "", "sslpassword": "", "password": "x"}
    refused(declared(server, **no_files), "connection requires a valid client certificate")
    given = {"sslcert": str(foreign), "sslkey": str(key), "sslpassword": ""}
    refused(declared(server, **given), "alert unknown ca")
    own, own_key = server.authority.issue("someone", passphrase="")
    given = {"sslcert": str(own), "sslkey": str(own_key), "sslpassword": ""}
    refused(declared(server, **given), f'certificate authentication failed for user "{CERTIFIED}"')
    ended, key = server.authority.issue(CERTIFIED, file="ended", valid=timedelta(hours=-3))
    given = {"sslcert": str(ended), "sslkey": str(key), "sslpassword": ""}
    refused(declared(server, **given), f"the certificate {ended} ended 3 h ago")
    early, key = server.authority.issue(CERTIFIED, file="early", since=timedelta(hours=1, seconds=30))
    given = {"sslcert": str(early), "sslkey": str(key), "sslpassword": ""}
    refused(declared(server, **given), f"{early} is not valid for another 1 h, by the clock of this machine")
    refused(declared(server, sslkey=str(own_key), sslpassword=""), " cannot be used (")
    refused(declared(server, sslrootcert=str(other.ca)), "certificate verify failed")
    refused(declared(server, sslrootcert="/none.pem"), 'root certificate file "/none.pem" does not exist')
    server.certify("elsewhere.test")
    server.reload()
    try:
        refused(declared(server), 'server certificate for "elsewhere.test"', f'match host name "{HOST}"')
    finally:
        server.certify()
        server.reload()
    plain = Front(server.port)
    uri = f"postgresql://{HOST}:{plain.port}/{DATABASE}"
    try:
        refused(declared(server, uri=uri), "server does not support SSL")
        assert plain.sessions == 0
    finally:
        plain.stop()


@pytest.mark.exhaustive
def test_a_password_and_a_certificate_are_asked_for_together(server: TlsPostgres) -> None:
    certificate, key = server.authority.issue(BOTH)
    both = {
        "username": BOTH,
        "password": PASSWORD,
        "sslcert": str(certificate),
        "sslkey": str(key),
        "sslpassword": "",
    }
    for ask in ASKED.values():
        ask(declared(server, **both))
    refused(declared(server, **both | {"password": "wrong"}), "password authentication failed")
