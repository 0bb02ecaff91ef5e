"""A job's login to a REST catalog: Python's client is the first that logs in, and refuses what Java's would
follow."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from sluice.config.platform import Platform
from sluice.config.platform_sections.catalog import REST, Catalog
from sluice.config.platform_sections.s3 import S3
from sluice.core.errors import Refused, Unreachable
from spark_jobs.common.spark.session import log_in_to_rest
from tests.support.catalog_proxy import Answer, Ask, Asked, CatalogProxy
from tests.support.certificates import Authority
from tests.support.encrypted_catalog import empty
from tests.support.raising import raising
from tests.unit.spark_jobs.spark.test_s3_login import on

# No JVM is asked for anything.
NO_SPARK = cast("SparkSession", None)


@pytest.fixture
def plain() -> Iterator[CatalogProxy]:
    """It would give tokens."""
    with CatalogProxy("http://upstream.test", empty) as made:
        yield made


def platform(catalog: Catalog) -> Platform:
    found = on(S3("key", "hidden"))
    return replace(found, lake=replace(found.lake, catalog=catalog))


@pytest.mark.parametrize("key", ["uri", "oauth2-server-uri"])
@pytest.mark.parametrize("login", [{"token": "hidden"}, {"credential": "me:hidden"}], ids=str)
def test_a_servers_configuration_leads_no_login_to_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: CatalogProxy, key: str, login: dict[str, Any]
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    moved = {"uri": plain.url, "oauth2-server-uri": f"{plain.url}/v1/oauth/tokens"}

    def moving(asked: Asked, ask: Ask) -> Answer:
        if asked.path == "/v1/config":
            said = {"defaults": {}, "overrides": {key: moved[key]}}
            return Answer(200, json.dumps(said).encode())
        return empty(asked, ask)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    with CatalogProxy("http://upstream.test", moving, context) as server:
        declared = platform(Catalog(REST, server.url, **login))
        if key != "uri" and "token" in login:
            # It is sent to no endpoint of tokens.
            log_in_to_rest(NO_SPARK, declared)
        else:
            with raising(Refused, f"the catalog overrides {key}", "in plain text. Fix: remove"):
                log_in_to_rest(NO_SPARK, declared)
    assert plain.requests() == []


@pytest.mark.parametrize("key", ["uri", "oauth2-server-uri"])
def test_nor_from_this_machine_to_another_one(plain: CatalogProxy, key: str) -> None:
    def moving(asked: Asked, ask: Ask) -> Answer:
        if asked.path == "/v1/config":
            said = {"defaults": {}, "overrides": {key: "http://other.test"}}
            return Answer(200, json.dumps(said).encode())
        return empty(asked, ask)

    plain.rule = moving
    with raising(Refused, f"the catalog overrides {key} with http://other.test", "in plain text. Fix: rem"):
        log_in_to_rest(NO_SPARK, platform(Catalog(REST, plain.url, credential="me:hidden")))
    with raising(Unreachable, "other.test"):
        # It is declared, and asked.
        declared = Catalog(REST, plain.url, credential="me:hidden", plain_text=True)
        log_in_to_rest(NO_SPARK, platform(declared))


def test_a_database_is_not_asked() -> None:
    log_in_to_rest(NO_SPARK, on(S3("key", "hidden")))
