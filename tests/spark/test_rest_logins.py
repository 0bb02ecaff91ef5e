"""OAuth2 logins of a REST catalog by both of Iceberg's clients: tokens that expire, refusals, scopes; and a
server's prefix and warehouse."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluice.clients import oauth
from sluice.clients.catalogs import rest
from sluice.clients.lake.catalog import Lake
from sluice.config.platform import Platform
from sluice.config.platform_sections import catalog as catalog_section
from sluice.config.platform_sections.catalog import REST
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Refused, Unreachable
from spark_jobs.common.spark.failures import failure_line
from spark_jobs.common.spark.session import catalog_options
from tests.support.catalog_proxy import CatalogProxy, passed_on, through
from tests.support.lakehouse import Stream
from tests.support.raising import raising
from tests.support.services import Services
from tests.support.token_gate import TOKENS, BehindPrefix, TokenGate

CLIENT, SECRET = "sluice-consumer", "right"
# PyIceberg asks with a session of requests, Java's client with one of Apache.
PYICEBERG, JAVA = "python-requests", "Apache-HttpClient"
_names = count()
Open = Callable[..., Platform]


@pytest.fixture
def proxy(services: Services) -> Iterator[CatalogProxy]:
    services.minio, services.postgres  # noqa: B018
    with CatalogProxy(services.rest_catalog) as made:
        yield made


@pytest.fixture
def gate(services: Services, proxy: CatalogProxy) -> TokenGate:
    made = TokenGate({CLIENT: (SECRET, services.stack.secrets["catalog_consumer"])})
    proxy.rule = made
    return made


@pytest.fixture
def logged_in(services: Services, proxy: CatalogProxy) -> Open:
    """The consumer's platform with the right credential; keys of the catalog override."""
    own = {"token": "", "credential": f"{CLIENT}:{SECRET}", "oauth2_server_uri": f"{proxy.url}{TOKENS}"}
    return lambda **keys: through(proxy.url, services.on_rest("consumer"), **{**own, **keys})


@pytest.fixture
def make(spark: SparkSession, services: Services, tmp_path: Path) -> Iterator[Callable[[Platform], Stream]]:
    made: list[Stream] = []

    def making(platform: Platform) -> Stream:
        name = f"logins_{next(_names)}"
        made.append(Stream(spark, services, name, str(tmp_path), catalog=REST, changed=lambda _: platform))
        return made[-1]

    yield making
    for stream in made:
        stream.stop()


def by_java(spark: SparkSession, platform: Platform) -> Callable[[], object]:
    """A question through a catalog of its own."""
    name = f"logins{next(_names)}"
    session = spark.newSession()
    for key, value in catalog_options(platform).items():
        session.conf.set(key.replace("spark.sql.catalog.lake", f"spark.sql.catalog.{name}"), value)
    return lambda: session.sql(f"show namespaces in {name}").collect()


def by_pyiceberg(platform: Platform) -> None:
    with closing(Lake.open(platform)) as lake:
        lake.location("raw.none")


def programs(gate: TokenGate) -> set[str]:
    return {program for _, _, program in gate.granted}


@pytest.mark.parametrize("is_opaque", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_a_stream_goes_on_over_tokens_that_expire(
    make: Callable[[Platform], Stream], logged_in: Open, gate: TokenGate, is_opaque: bool
) -> None:
    gate.seconds, gate.is_opaque = 5, is_opaque
    stream = make(logged_in())
    running = stream.run(stream.writer())
    began, sent = time.monotonic(), 0
    while time.monotonic() - began < 1.5 * gate.seconds:
        stream.send(1)
        sent += 1
        running.query.processAllAvailable()
        time.sleep(0.5)
    stream.assert_exact(sent)
    assert {one["epoch"] for one in stream.summaries()} == {"1"}
    assert programs(gate) == {PYICEBERG, JAVA}
    assert gate.refused == [], "each was renewed before it expired"


def test_a_refused_login_is_named_with_the_words_of_the_server(
    spark: SparkSession, logged_in: Open, gate: TokenGate
) -> None:
    wrong = logged_in(credential=f"{CLIENT}:wrong")
    with raising(Refused, "invalid_client", f"client {CLIENT} has another secret") as caught:
        by_pyiceberg(wrong)
    assert caught.value.code is ErrorCode.CATALOG_LOGIN
    with pytest.raises(Exception, match="another secret") as by_spark:
        by_java(spark, wrong)()
    line = failure_line(by_spark.value)
    assert ErrorCode.CATALOG_LOGIN in line
    assert "another secret" in line
    assert "wrong" not in line + str(caught.value)


def test_a_process_that_is_refused_says_so_before_it_makes_a_table(
    make: Callable[[Platform], Stream], logged_in: Open, gate: TokenGate
) -> None:
    with raising(Refused, "another secret") as caught:
        make(logged_in(credential=f"{CLIENT}:wrong"))
    assert caught.value.code is ErrorCode.CATALOG_LOGIN


@pytest.mark.parametrize("declared", ["", pytest.param("lake:write", marks=pytest.mark.exhaustive)])
def test_a_scope_is_asked_for_and_a_refused_one_is_named(
    spark: SparkSession, logged_in: Open, gate: TokenGate, declared: str
) -> None:
    gate.scopes = (declared or "catalog",)
    by_pyiceberg(logged_in(scope=declared))
    by_java(spark, logged_in(scope=declared))()
    assert {scope for _, scope, _ in gate.granted} == set(gate.scopes)
    assert programs(gate) == {PYICEBERG, JAVA}
    other = logged_in(scope="another")
    with raising(Refused, "invalid_scope", "no scope another"):
        by_pyiceberg(other)
    with pytest.raises(Exception, match="no scope another"):
        by_java(spark, other)()


def test_tokens_are_asked_for_from_the_catalog_itself_without_another_server(
    spark: SparkSession, logged_in: Open, gate: TokenGate
) -> None:
    own = logged_in(oauth2_server_uri="")
    by_pyiceberg(own)
    by_java(spark, own)()
    assert programs(gate) == {PYICEBERG, JAVA}


def test_a_server_of_tokens_that_hangs_is_given_up(
    spark: SparkSession, logged_in: Open, gate: TokenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (rest, catalog_section, oauth):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 1)
    gate.hangs = 4
    began = time.monotonic()
    with raising(Unreachable, "lake's catalog"):
        by_pyiceberg(logged_in())
    with pytest.raises(Exception, match="timed out"):
        by_java(spark, logged_in())()
    assert time.monotonic() - began < 2 * gate.hangs


def test_a_catalog_that_says_its_prefix_is_asked_below_it(
    make: Callable[[Platform], Stream], services: Services, proxy: CatalogProxy
) -> None:
    proxy.rule = BehindPrefix("w/7", "lake")
    plain = services.on_rest("consumer")
    stream = make(through(proxy.url, plain, warehouse="lake"))
    stream.send(2)
    stream.run(stream.writer()).query.stop()
    stream.assert_exact(2)
    assert all(one.partition(" ")[2].startswith(("/v1/w/7/", "/v1/config")) for one in proxy.requests())
    with raising(ClientError, "no such warehouse"):
        by_pyiceberg(through(proxy.url, plain, warehouse="another"))


def test_a_prefix_is_declared_for_a_server_that_does_not_say_it(
    spark: SparkSession, services: Services, proxy: CatalogProxy
) -> None:
    behind = BehindPrefix("w/7", "lake")
    proxy.rule = lambda asked, ask: (passed_on if asked.path == "/v1/config" else behind)(asked, ask)
    declared = through(proxy.url, services.on_rest("consumer"), prefix="w/7")
    by_pyiceberg(declared)
    by_java(spark, declared)()
    assert [one for one in proxy.requests() if "/v1/w/7/" in one]
