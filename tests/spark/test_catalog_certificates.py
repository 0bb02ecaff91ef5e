"""A catalog's database that asks for a client's certificate, by Iceberg's Java catalog: with a key that is
encrypted, read again after it was replaced; and what a process ends with when it is another one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.clients.polling import wait_for
from sluice.clients.tls import certificates
from sluice.config.platform import Platform
from sluice.config.platform_sections import catalog as section
from sluice.config.platform_sections.catalog import SQL, Catalog
from sluice.config.platform_sections.lake import CATALOG
from spark_jobs.common.lake import login
from spark_jobs.common.spark.failures import failure_line
from spark_jobs.common.spark.session import catalog_options
from tests.support.certificates import Authority
from tests.support.mysql_catalog import MysqlCatalog
from tests.support.postgres_front import HOST
from tests.support.postgres_tls import CERTIFIED, DATABASE, TlsPostgres
from tests.support.services import Services

PHRASE = "a phrase of the key"
Declared = Callable[..., Catalog]
_names = count()

# PostgreSQL's and MariaDB's start takes seconds each; the clients of Python are tested in tests/services.
pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def certified(authority: Authority, uri: str, **changed: Any) -> Catalog:
    certificate, key = authority.issue(CERTIFIED, passphrase=PHRASE)
    files = {"sslrootcert": str(authority.ca), "sslcert": str(certificate), "sslkey": str(key)}
    given = {"uri": uri, "username": CERTIFIED, "sslmode": "verify-full", **files, "sslpassword": PHRASE}
    made = Catalog(SQL, **given | changed)
    section.check(made, "consumer.toml: [lake.catalog]")
    return made


@pytest.fixture(scope="module")
def postgresql(authority: Authority) -> Iterator[Declared]:
    server = TlsPostgres(authority)
    yield lambda **changed: certified(authority, f"postgresql://{HOST}:{server.port}/{DATABASE}", **changed)
    server.stop()


@pytest.fixture(scope="module")
def mysql(authority: Authority) -> Iterator[Declared]:
    folder = Path(tempfile.mkdtemp(prefix="sluice-mariadb-tls-"))
    # The server runs as another user.
    shutil.copymode("/usr", folder)
    certificate, key = authority.issue("server")
    settings = []
    for source, name in ((certificate, "cert"), (key, "key"), (authority.ca, "ca")):
        shutil.copyfile(source, folder / name)
        settings.append(f"--ssl-{name}={folder / name}")
    server = MysqlCatalog(*settings)
    server.run(f"alter user {CERTIFIED}@'{HOST}' require x509")
    uri, password = server.catalog("consumer").uri, server.catalog("consumer").password
    yield lambda **changed: certified(authority, uri, **{"password": password} | changed)
    server.stop()
    shutil.rmtree(folder)


def on(services: Services, catalog: Catalog) -> Platform:
    found = services.stack.platform("consumer")
    return replace(found, lake=replace(found.lake, catalog=catalog))


def told(services: Services, catalog: Catalog, error: Exception) -> str:
    """The last line of a stream's process that meets the error."""
    with pytest.raises(Exception) as caught, login.explained(on(services, catalog)):  # noqa: PT011
        raise error
    return failure_line(caught.value)


def asked(spark: SparkSession, services: Services, catalog: Catalog) -> Callable[[], object]:
    """A question over Spark's catalog, whose connections are its own."""
    platform = on(services, catalog)
    name = f"certified{next(_names)}"
    for key, value in catalog_options(platform).items():
        prefix = f"spark.sql.catalog.{CATALOG}"
        spark.conf.set(key.replace(prefix, f"spark.sql.catalog.{name}"), value)
    return lambda: spark.sql(f"show namespaces in {name}").collect()


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_java_logs_in_by_the_certificate_that_is_there_now(
    spark: SparkSession,
    services: Services,
    authority: Authority,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    monkeypatch.setattr(certificates, "KEYSTORE_SECONDS", 0.05)
    certificates.keystore.cache_clear()
    catalog = request.getfixturevalue(kind)()

    def line() -> str:
        """What a new connection ends with; empty if it is let in."""
        ask = asked(spark, services, catalog)
        try:
            ask()
        except Exception as error:
            return told(services, catalog, error)
        return ""

    assert line() == ""
    # Under the same names, one that has ended: the file for Java follows.
    authority.issue(CERTIFIED, passphrase=PHRASE, valid=timedelta(hours=-1))
    said = wait_for(line, 20, 0.2, bool)
    assert said.startswith("SLU-228 Refused: the lake's catalog: the catalog refuses the login"), said
    authority.issue(CERTIFIED, passphrase=PHRASE)
    assert wait_for(line, 20, 0.2, lambda found: not found) == ""


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_java_tells_each_other_certificate_and_authority_in_one_line(
    spark: SparkSession, services: Services, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    declared = request.getfixturevalue(kind)
    other = Authority(tmp_path / "other", "another authority")
    foreign, key = other.issue(CERTIFIED)
    files = {"sslcert": str(foreign), "sslkey": str(key), "sslpassword": ""}
    none = {"sslcert": "", "sslkey": "", "sslpassword": "", "password": "x"}
    refused = "SLU-228 Refused: the lake's catalog: the catalog refuses the login: "
    unverified = "SLU-228 Refused: the lake's catalog: the catalog is not verified, and got no login: "
    for changed, words in (
        (files, refused),
        (none, refused),
        ({"sslcert": "/none.pem"}, f"{refused}'certificate /none.pem with"),
        ({"sslrootcert": str(other.ca)}, unverified),
        ({"sslrootcert": "/none.pem"}, unverified),
    ):
        catalog = declared(**changed)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each client has its own
            asked(spark, services, catalog)()
        said = told(services, catalog, caught.value)
        assert said.startswith(words), said
        assert PHRASE not in said
