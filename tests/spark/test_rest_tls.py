"""A REST catalog behind TLS that asks for a client's certificate, by Iceberg's Java client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluice.clients.catalogs.login import encrypt
from sluice.clients.polling import wait_for
from sluice.clients.tls import certificates
from sluice.config.platform import Platform
from sluice.config.platform_sections.catalog import Catalog
from sluice.config.platform_sections.lake import CATALOG
from spark_jobs.common.lake import login
from spark_jobs.common.spark.failures import failure_line
from spark_jobs.common.spark.session import catalog_options
from tests.support.catalog_proxy import CatalogProxy
from tests.support.certificates import Authority
from tests.support.encrypted_catalog import PHRASE, context_of, declared, empty
from tests.support.services import Services

# The JVM's own encryption is changed: after the other tests of a REST catalog, which have none.
pytestmark = pytest.mark.exhaustive
_names = count()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> Iterator[CatalogProxy]:
    with CatalogProxy("http://upstream.test", empty, context_of(authority)) as made:
        yield made


@pytest.fixture
def kept(spark: SparkSession) -> Iterator[None]:
    """The JVM's own encryption, as it was."""
    context = spark._jvm.javax.net.ssl.SSLContext  # type: ignore[union-attr]
    before = context.getDefault()
    yield
    context.setDefault(before)


def line_of(spark: SparkSession, services: Services, catalog: Catalog) -> Callable[[], str]:
    """What a new client of Java's ends with; empty if it is let in."""
    found = services.stack.platform("consumer")
    platform: Platform = replace(found, lake=replace(found.lake, catalog=catalog))

    def ask() -> str:
        name = f"encrypted{next(_names)}"
        for key, value in catalog_options(platform).items():
            prefix = f"spark.sql.catalog.{CATALOG}"
            spark.conf.set(key.replace(prefix, f"spark.sql.catalog.{name}"), value)
        try:
            with login.explained(platform):
                spark.sql(f"describe table {name}.raw.t").collect()
        except Exception as error:
            return "" if "TABLE_OR_VIEW_NOT_FOUND" in str(error) else failure_line(error)
        return ""

    # Without Python's client, which logs in before Java's.
    encrypt(spark._jvm, catalog)
    return ask


@pytest.mark.usefixtures("kept")
def test_java_logs_in_by_the_certificate_that_is_there_now(
    spark: SparkSession,
    services: Services,
    server: CatalogProxy,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(certificates, "KEYSTORE_SECONDS", 0.05)
    ask = line_of(spark, services, declared(server, authority))
    assert ask() == ""
    assert "POST /v1/oauth/tokens" in server.requests()
    authority.issue("sluice", passphrase=PHRASE, valid=timedelta(hours=-1))
    said = wait_for(ask, 20, 0.2, bool)
    assert said.startswith("SLU-228 LoginRefused: the lake's catalog: the catalog refuses the login"), said
    authority.issue("sluice", passphrase=PHRASE)
    assert wait_for(ask, 20, 0.2, lambda found: not found) == ""


@pytest.mark.usefixtures("kept")
def test_java_tells_another_authority_and_no_certificate_in_one_line(
    spark: SparkSession, services: Services, server: CatalogProxy, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other", "another authority")
    none = {"sslcert": "", "sslkey": "", "sslpassword": ""}
    for changed, words in (
        ({"sslrootcert": str(other.ca)}, "the catalog is not verified, and got no login"),
        (none, "the catalog refuses the login"),
    ):
        said = line_of(spark, services, declared(server, authority, **changed))()
        assert said.startswith(f"SLU-228 LoginRefused: the lake's catalog: {words}"), said
