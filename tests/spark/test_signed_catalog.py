"""A REST catalog to which both of Iceberg's clients sign their requests (AWS's SigV4), by keys that are none
of S3. The writer's tests run on it, too, as on each kind of catalog (`make test-all`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from itertools import count

import pytest
from pyspark.sql import SparkSession

from sluice.catalog_check.promises import RACES, STEPS
from sluice.catalog_check.trial import findings
from sluice.clients.catalogs.errors import LoginRefused
from sluice.clients.lake.catalog import Lake
from sluice.config.platform import Platform
from sluice.core.error_codes import ErrorCode
from spark_jobs.common.lake import login
from spark_jobs.common.spark.failures import failure_line
from spark_jobs.common.spark.session import catalog_options
from tests.support.catalog_proxy import Answer, Ask, Asked, through
from tests.support.catalogs import SIGNED
from tests.support.lakehouse import Stream
from tests.support.raising import raising
from tests.support.services import Services
from tests.support.signature_gate import SignatureGate
from tests.support.token_gate import BehindPrefix

PYICEBERG, JAVA = "PyIceberg", "Apache-HttpClient"
_names = count()


@pytest.fixture
def gate(services: Services) -> Iterator[SignatureGate]:
    services.minio, services.postgres  # noqa: B018
    proxy, made = services.signed
    made.let_in.clear()
    made.refused.clear()
    yield made
    proxy.rule = made
    made.ended, made.clock, made.seconds, made.session_token = frozenset(), timedelta(), 300, ""


def by_java(spark: SparkSession, platform: Platform) -> Callable[[], object]:
    """A question through a catalog of its own."""
    name, session = f"signed{next(_names)}", spark.newSession()
    for key, value in catalog_options(platform).items():
        session.conf.set(key.replace("spark.sql.catalog.lake", f"spark.sql.catalog.{name}"), value)
    return lambda: session.sql(f"show namespaces in {name}").collect()


@pytest.mark.parametrize("stream", [SIGNED], indirect=True)
def test_batches_are_published_until_the_keys_end(stream: Stream, gate: SignatureGate) -> None:
    running = stream.run(stream.writer())
    for _ in range(2):
        stream.send(2)
        running.query.processAllAvailable()
    stream.assert_exact(4)
    assert {program for _, _, program in gate.let_in} == {PYICEBERG, JAVA}
    assert gate.refused == []
    gate.ended = frozenset(gate.keys)
    stream.send(2)
    words = "ExpiredTokenException", "is expired", "[lake.catalog]"
    with raising(LoginRefused, *words) as caught, login.explained(stream.platform):
        stream.await_end(running)
    assert caught.value.code is ErrorCode.CATALOG_LOGIN
    # It goes on as soon as they are others.
    gate.ended = frozenset()
    stream.run(stream.writer())
    stream.assert_exact(6)


@pytest.mark.exhaustive
def test_it_keeps_what_a_writer_relies_on(services: Services, gate: SignatureGate) -> None:
    consumer = services.on_signed("consumer")
    with closing(Lake.open(consumer)) as one, closing(Lake.open(consumer)) as other:
        one.catalog.create_namespace_if_not_exists("scratch")
        found = list(findings(one.catalog, other.catalog, "scratch.signed", rounds=3))
    assert [finding for finding in found if not finding.is_kept] == []
    assert len(found) == len(STEPS) + len(RACES)
    assert gate.refused == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("in_iceberg", [False, True])
def test_what_aws_says_of_a_login_is_said_by_java_too(
    spark: SparkSession, services: Services, gate: SignatureGate, in_iceberg: bool
) -> None:
    gate.in_iceberg = in_iceberg
    wrong = through(services.signed[0].url, services.on_signed("consumer"), secret_key="wrong")
    with raising(LoginRefused, "The request signature we calculated"), login.explained(wrong):
        by_java(spark, wrong)()
    right = services.on_signed("consumer")
    question = by_java(spark, right)
    question()
    gate.clock = timedelta(minutes=61, seconds=20)
    with pytest.raises(Exception, match="Forbidden") as caught:
        question()
    assert "SLU-228 LoginRefused: the lake's catalog" in (line := failure_line(caught.value))
    assert "Signature expired" in line
    words = "clock is 1 h 1 min behind the catalog's", "Fix: set the clock"
    with raising(LoginRefused, *words), login.explained(right):
        question()


@pytest.mark.exhaustive
def test_keys_of_a_session_go_with_their_token(
    spark: SparkSession, services: Services, gate: SignatureGate
) -> None:
    gate.session_token = "session"
    declared = through(services.signed[0].url, services.on_signed("reader"), session_token="session")
    by_java(spark, declared)()
    with closing(Lake.open(declared)) as lake:
        assert lake.location("raw.none") is None
    assert gate.refused == []


@pytest.mark.exhaustive
def test_a_prefix_that_is_an_arn_is_signed_as_it_is_sent(
    spark: SparkSession, services: Services, gate: SignatureGate
) -> None:
    """As Amazon S3 Tables says it: its colons and its slash are escaped in each path."""
    proxy = services.signed[0]
    prefix, arn = "arn%3Aaws%3As3tables%3Aeu-central-1%3A1%3Abucket%2Flake", "arn:aws:s3tables:eu-central-1:1"
    behind = BehindPrefix(prefix, arn)
    proxy.rule = lambda asked, ask: gate(asked, lambda inner: refuse_none(behind(inner, ask)))
    proxy.requests()
    declared = through(proxy.url, services.on_signed("reader"), warehouse=arn)
    by_java(spark, declared)()
    with closing(Lake.open(declared)) as lake:
        assert lake.location("raw.none") is None
    assert gate.refused == []
    below = [one for one in proxy.requests() if f"/v1/{prefix}/" in one]
    assert len(below) >= 2


def refuse_none(answer: Answer | None) -> Answer:
    assert answer is not None
    return answer


@pytest.mark.exhaustive
def test_a_request_that_java_sends_again_is_still_signed(
    spark: SparkSession, services: Services, gate: SignatureGate
) -> None:
    """It sends the same one, for about half a minute, and a signature counts for five."""
    proxy, asked = services.signed[0], list[str]()

    def busy(request: Asked, ask: Ask) -> Answer | None:
        answer = gate(request, ask)
        asked.append(request.path)
        return Answer(503) if asked.count(request.path) == 1 else answer

    proxy.rule = busy
    began = time.monotonic()
    by_java(spark, services.on_signed("reader"))()
    assert asked.count("/v1/namespaces") == 2
    assert time.monotonic() - began < 20
    assert gate.refused == []
