"""Faults between a writer and a REST catalog: no row is lost, none is there twice, and a commit whose outcome
is unknown is taken neither for refused nor for made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sluice.clients.catalogs import rest
from sluice.config.platform_sections.catalog import REST
from spark_jobs.common.consumer.run import ConsumerRun
from spark_jobs.common.lake.writer_lease import ConcurrentCommit
from tests.support.catalog_proxy import Answer, Ask, Asked, CatalogProxy, passed_on, refusal, through
from tests.support.lakehouse import Stream
from tests.support.services import Services

_numbers = count()
DEADLINE = 1
# One of each kind: an answer that says nothing, none, and one that comes too late.
ALWAYS = ("503 after the commit", "reset after it", "made after the deadline")


def made(status: int) -> Callable[[Asked, Ask], Answer]:
    def rule(asked: Asked, ask: Ask) -> Answer:
        ask(asked)
        return refusal(status, "ServiceFailureException", "injected")

    return rule


def not_made(status: int, **headers: str) -> Callable[[Asked, Ask], Answer]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda asked, ask: refusal(status, "ServiceFailureException", "injected", given)


def reset_before(asked: Asked, ask: Ask) -> None:
    return None


def reset_after(asked: Asked, ask: Ask) -> None:
    ask(asked)


def answered_late(asked: Asked, ask: Ask) -> Answer:
    answer = ask(asked)
    time.sleep(DEADLINE * 2)
    return answer


def made_late(asked: Asked, ask: Ask) -> Answer:
    """After the client has given up, and has asked again."""
    time.sleep(DEADLINE * 2)
    return ask(asked)


def cut_text(asked: Asked, ask: Ask) -> Answer:
    answer = ask(asked)
    return Answer(200, answer.body[: len(answer.body) // 2], {"Content-Type": "application/json"})


def cut_body(asked: Asked, ask: Ask) -> Answer:
    answer = ask(asked)
    headers = {"Content-Type": "application/json", "Content-Length": str(len(answer.body))}
    return Answer(200, answer.body[: len(answer.body) // 2], headers)


FAULTS: dict[str, Callable[[Asked, Ask], Answer | None]] = {
    **{f"{status} after the commit": made(status) for status in (500, 502, 503, 504)},
    "503 in place of it": not_made(503),
    "429 in place of it": not_made(429, Retry_After="1"),
    "reset before it": reset_before,
    "reset after it": reset_after,
    "answered after the deadline": answered_late,
    "made after the deadline": made_late,
    "half of the answer's text": cut_text,
    "half of the answer": cut_body,
}


@pytest.fixture(scope="module")
def proxy(services: Services) -> Iterator[CatalogProxy]:
    with CatalogProxy(services.rest_catalog) as made_here:
        yield made_here


class Running:
    """A writer that has published; another one takes its place only if it ended."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.sent = stream, 1
        self.consumption = self._start()

    def _start(self) -> ConsumerRun:
        self.stream.send(1)
        return self.stream.run(self.stream.writer())

    def alive(self) -> Running:
        if not self.consumption.query.isActive:
            self.consumption = self._start()
            self.sent += 1
        return self

    def publish(self) -> None:
        self.stream.send(1)
        self.sent += 1
        self.consumption.query.processAllAvailable()


@pytest.fixture(scope="module")
def stream(
    spark: SparkSession, services: Services, proxy: CatalogProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stream]:
    services.minio, services.postgres  # noqa: B018
    root = str(tmp_path_factory.mktemp("faults"))
    made_here = Stream(
        spark, services, "rest_faults", root, catalog=REST, changed=lambda one: through(proxy.url, one)
    )
    yield made_here
    made_here.stop()


@pytest.fixture(scope="module")
def running(stream: Stream) -> Running:
    return Running(stream)


def at_the_next_publish(
    proxy: CatalogProxy, fault: Callable[[Asked, Ask], Answer | None], times: int = 1
) -> list[Asked]:
    """Put the fault in place of what the catalog does; return the requests that met it."""
    met, guard = list[Asked](), threading.Lock()

    def rule(asked: Asked, ask: Ask) -> Answer | None:
        refs = {one.get("ref-name") for one in asked.json["updates"]} if asked.is_commit else set[str]()
        with guard:
            is_met = "main" in refs and len(met) < times
            if is_met:
                met.append(asked)
        return fault(asked, ask) if is_met else ask(asked)

    proxy.rule = rule
    return met


@pytest.mark.parametrize(
    "fault", [pytest.param(one, marks=[] if one in ALWAYS else [pytest.mark.exhaustive]) for one in FAULTS]
)
def test_a_publish_that_meets_a_fault_is_one_publish(
    running: Running, proxy: CatalogProxy, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.alive()
    monkeypatch.setattr(rest, "ANSWER_SECONDS", DEADLINE)
    epoch, before = running.stream.summaries()[0]["epoch"], len(running.stream.summaries())
    met = at_the_next_publish(proxy, FAULTS[fault])
    running.publish()
    proxy.rule = passed_on
    assert len(met) == 1
    running.stream.assert_exact(running.sent)
    # The writer goes on, with its lease, and each batch is one snapshot; what is sent may be two of them.
    running.publish()
    running.stream.assert_exact(running.sent)
    found = running.stream.summaries()
    batches = found[: len(found) - before]
    assert {one["epoch"] for one in batches} == {epoch}
    assert len({one["batch-id"] for one in batches}) == len(batches)


@pytest.fixture
def another(spark: SparkSession, services: Services, proxy: CatalogProxy, tmp_path: Path) -> Iterator[Stream]:
    """A stream with rows, which no writer has."""
    stream = Stream(
        *(spark, services, f"rest_branch_{next(_numbers)}", str(tmp_path)),
        catalog=REST,
        changed=lambda one: through(proxy.url, one),
    )
    stream.send(2)
    stream.run(stream.writer()).query.stop()
    yield stream
    stream.stop()


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", ["503 after the commit", "reset after it", "reset before it"])
def test_what_spark_commits_to_a_branch_with_an_unknown_outcome_is_not_published(
    another: Stream, proxy: CatalogProxy, fault: str
) -> None:
    """Java's client commits, for results of queries: the writer drops what may be there."""
    writer = another.writer()
    writer.acquire()
    rows = another.spark.table(f"lake.{another.spec.table}")
    met = list[Asked]()

    def rule(asked: Asked, ask: Ask) -> Answer | None:
        if not asked.is_commit or met:
            return ask(asked)
        met.append(asked)
        return FAULTS[fault](asked, ask)

    proxy.rule = rule
    kinds = (ConcurrentCommit,) if "after" in fault else (Py4JJavaError, PySparkException)
    with pytest.raises(kinds) as caught:
        writer.write_branch(rows, {"sluice.kind": "batch"})
    proxy.rule = passed_on
    assert len(met) == 1, caught.value
    another.assert_exact(2)
    writer.acquire()
    writer.write_branch(rows.limit(0), {"sluice.kind": "batch"})
    writer._publish(1)
    another.assert_exact(2)
