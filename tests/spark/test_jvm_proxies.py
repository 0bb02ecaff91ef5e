"""The clients of a job's JVM go through the proxy of the environment, and not where NO_PROXY says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from sluice.clients.jvm_proxies import JvmProxies, jvm_proxies
from sluice.config.platform import Platform
from sluice.config.platform_sections.catalog import REST, Catalog
from sluice.config.platform_sections.kafka import OAUTHBEARER, Kafka
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.platform_sections.s3 import S3
from spark_jobs.common.spark.session import catalog_options, go_through, kafka_source_options
from tests.support.raising import raising
from tests.support.services import Services

LOGIN = Kafka(
    "127.0.0.1:1",
    "SASL_PLAINTEXT",
    OAUTHBEARER,
    sasl_oauthbearer_token_endpoint_url="https://idp.test/token",
    sasl_oauthbearer_client_id="me",
    sasl_oauthbearer_client_secret="the-secret",
)


CLIENTS = count()


class Proxy:
    """Keeps what it is asked, and passes nothing on."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                outer.asked.append(self.path)
                self.send_error(403)

            def log_message(self, *_: object) -> None:
                """Not in the test's output."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made = Proxy()
    monkeypatch.setenv("HTTPS_PROXY", made.url)
    yield made
    made.stop()


@pytest.fixture
def platform(services: Services) -> Platform:
    found = services.stack.platform("consumer")
    s3 = S3("key", "secret-key", "https://s3.test", path_style=True)
    catalog = Catalog(REST, "https://catalog.test", token="t")
    return replace(found, kafka=LOGIN, s3=s3, lake=replace(found.lake, catalog=catalog))


@pytest.fixture
def told(spark: SparkSession, platform: Platform) -> Iterator[None]:
    yield
    system = cast("Any", spark._jvm).java.lang.System
    for scheme in ("http", "https"):
        for name in ("proxyHost", "proxyPort", "nonProxyHosts"):
            system.clearProperty(f"{scheme}.{name}")


def asked_by_kafka(spark: SparkSession) -> None:
    options = kafka_source_options(LOGIN) | {"subscribe": "t", "startingOffsets": "earliest"}
    with raising(Exception, ":"):
        spark.read.format("kafka").options(**options).load().collect()


def asked_by_iceberg(spark: SparkSession, platform: Platform, proxies: JvmProxies) -> None:
    session = spark.newSession()
    own = {f"spark.sql.catalog.{CATALOG}.{key}": value for key, value in proxies.catalog.items()}
    for key, value in (catalog_options(platform) | own).items():
        session.conf.set(key, value)
    with raising(Exception, ":"):
        session.sql(f"show namespaces in {CATALOG}").collect()


def asked_by_s3(spark: SparkSession, platform: Platform) -> None:
    jvm = cast("Any", spark._jvm)
    options, prefix = jvm.java.util.HashMap(), f"spark.sql.catalog.{CATALOG}."
    for key, value in catalog_options(platform).items():
        options.put(key.removeprefix(prefix), value)
    # Iceberg shares a client among those of one configuration, also other tests', which went by no proxy.
    options.put("http-client.apache.connection-timeout-ms", f"{5000 + next(CLIENTS)}")
    files = jvm.org.apache.iceberg.aws.s3.S3FileIO()
    files.initialize(options)
    with raising(Exception, ":"):
        files.newInputFile("s3://bucket/key").exists()
    files.close()


@pytest.mark.usefixtures("told")
def test_each_goes_through_it(spark: SparkSession, platform: Platform, proxy: Proxy) -> None:
    proxies = jvm_proxies(platform)
    go_through(spark, proxies)
    for ask, host in (
        (lambda: asked_by_kafka(spark), "idp.test:443"),
        (lambda: asked_by_iceberg(spark, platform, proxies), "catalog.test:443"),
        (lambda: asked_by_s3(spark, platform), "s3.test:443"),
    ):
        proxy.asked.clear()
        ask()
        assert set(proxy.asked) == {host}


@pytest.mark.usefixtures("told")
def test_what_no_proxy_names_does_not(
    spark: SparkSession, platform: Platform, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a domain, which AWS's client does not read in the variable; also where it finds HTTP_PROXY."""
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", "test")
    go_through(spark, jvm_proxies(platform))
    asked_by_kafka(spark)
    asked_by_iceberg(spark, platform, jvm_proxies(platform))
    asked_by_s3(spark, platform)
    assert proxy.asked == []
