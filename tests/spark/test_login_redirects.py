"""A token endpoint that redirects: Java's clients would send the client's secret to wherever it says."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from sluice.config.platform import Platform
from sluice.config.platform_sections.catalog import REST, Catalog
from sluice.config.platform_sections.kafka import OAUTHBEARER, Kafka
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.errors import Unreachable
from spark_jobs.common.spark.session import (
    catalog_options,
    kafka_source_options,
    log_in_to_rest,
    stay_with_endpoints,
)
from tests.support.catalog_proxy import Answer, Ask, Asked, CatalogProxy
from tests.support.encrypted_catalog import empty
from tests.support.raising import raising
from tests.support.services import Services

TOKENS = "/v1/oauth/tokens"


@pytest.fixture
def elsewhere() -> Iterator[CatalogProxy]:
    """It would give tokens."""
    with CatalogProxy("http://upstream.test", empty) as made:
        yield made


@pytest.fixture
def endpoint(elsewhere: CatalogProxy) -> Iterator[CatalogProxy]:
    moved = {"Location": f"{elsewhere.url}{TOKENS}"}
    with CatalogProxy("http://upstream.test", lambda *_: Answer(307, b"", moved)) as made:
        yield made


def test_kafkas_login_in_java_follows_none(
    spark: SparkSession, endpoint: CatalogProxy, elsewhere: CatalogProxy
) -> None:
    login = Kafka(
        "127.0.0.1:1",
        "SASL_PLAINTEXT",
        OAUTHBEARER,
        sasl_oauthbearer_token_endpoint_url=f"{endpoint.url}{TOKENS}",
        sasl_oauthbearer_client_id="me",
        sasl_oauthbearer_client_secret="the-secret",
    )
    options = kafka_source_options(login) | {"subscribe": "t", "startingOffsets": "earliest"}
    stay_with_endpoints(spark)
    with raising(Exception, "307") as caught:
        spark.read.format("kafka").options(**options).load().collect()
    assert f"POST {TOKENS}" in endpoint.requests()
    assert elsewhere.requests() == []
    assert "the-secret" not in str(caught.value)


def test_icebergs_login_in_java_is_not_tried(
    spark: SparkSession, services: Services, endpoint: CatalogProxy, elsewhere: CatalogProxy
) -> None:
    found = services.stack.platform("consumer")
    declared = Catalog(REST, elsewhere.url, credential="me:secret")
    declared = replace(declared, oauth2_server_uri=f"{endpoint.url}{TOKENS}")
    platform: Platform = replace(found, lake=replace(found.lake, catalog=declared))
    for key, value in catalog_options(platform).items():
        prefix = f"spark.sql.catalog.{CATALOG}"
        spark.conf.set(key.replace(prefix, "spark.sql.catalog.redirected"), value)
    with raising(Unreachable, "the lake's catalog: token endpoint answered 307: a redirect to"):
        log_in_to_rest(spark, platform)
        spark.sql("show namespaces in redirected").collect()
    assert endpoint.requests() == [f"POST {TOKENS}"]
    assert elsewhere.requests() == []


def test_icebergs_tokens_in_java_are_renewed_without_the_secret(
    spark: SparkSession, services: Services, elsewhere: CatalogProxy
) -> None:
    """The endpoint redirects when Java renews its token, which is long after Python's client logged in."""

    def tokens(asked: Asked, _: Ask) -> Answer:
        given = {"access_token": "t", "token_type": "bearer", "expires_in": 2}
        return Answer(200, json.dumps(given).encode())

    def catalog(asked: Asked, ask: Ask) -> Answer:
        if asked.path == "/v1/namespaces":
            return Answer(200, b'{"namespaces": [["raw"]]}')
        return empty(asked, ask)

    with (
        CatalogProxy("http://upstream.test", tokens) as endpoint,
        CatalogProxy("http://x", catalog) as server,
    ):
        found = services.stack.platform("consumer")
        declared = Catalog(REST, server.url, credential="me:the-secret")
        declared = replace(declared, oauth2_server_uri=f"{endpoint.url}{TOKENS}")
        platform: Platform = replace(found, lake=replace(found.lake, catalog=declared))
        session = spark.newSession()
        for key, value in catalog_options(platform).items():
            session.conf.set(key, value)
        log_in_to_rest(session, platform)
        assert [row[0] for row in session.sql(f"show namespaces in {CATALOG}").collect()] == ["raw"]
        assert "the-secret" not in str(session.conf.get(f"spark.sql.catalog.{CATALOG}.credential"))
        moved = {"Location": f"{elsewhere.url}{TOKENS}"}
        endpoint.rule = lambda *_: Answer(307, b"", moved)
        endpoint.requests()
        asked, until = list[str](), time.monotonic() + 20
        while not asked and time.monotonic() < until:
            time.sleep(0.2)
            asked = endpoint.requests()
        assert set(asked) == {f"POST {TOKENS}"}, "it is renewed"
        time.sleep(1)
    assert elsewhere.requests() == []
