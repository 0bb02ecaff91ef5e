"""Topics that programs of others fill in transactions, which they leave open: Kafka Streams, and a producer
that commits at checkpoints, as Flink's sink does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from local.stack.stack import wait_until
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.config.stream import CONSUMER
from sluice.core.offsets.offset_set import OffsetSet
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.processes.restarts import RestartHistory
from sluice.core.processes.status import ProcessState, ProcessStatus
from sluice.supervision.observer.sampler import Sampler
from sluice.supervision.rules.consumer import assess_consumer
from sluice.supervision.rules.status import Health, HealthReport
from spark_jobs.common.consumer.run import ConsumerRun
from tests.support.checkpointing import RECORDS, sending
from tests.support.declared import Declaration, DeclaredStream, Place, offsets, read
from tests.support.kafka_streams import Counts
from tests.support.services import Services

PARTITIONS = 2
KEYS = 10
_numbers = count()


class Sent(DeclaredStream):
    """A topic with texts as keys, and bytes as values."""

    def plain(self) -> dict[Place, Message]:
        return read(self.services.kafka, self.name)

    def delivered(self) -> dict[Place, Message]:
        """Also of aborted and of open transactions."""
        return read(self.services.kafka, self.name, "read_uncommitted")

    def health(self, since: float) -> HealthReport:
        """The consumer's, a process that runs ``since`` then, after an hour of the same samples."""
        kafka = KafkaAdmin(self.services.stack.platform("observer").kafka)
        runtime: Any = SimpleNamespace(
            status=lambda program: ProcessStatus(program, ProcessState.RUNNING, 1, since)
        )
        with self.systems() as systems:
            tables: Any = SimpleNamespace(check=lambda *_: None, lake=systems.lake)
            sampler = Sampler(kafka, lambda: tables, runtime, self.spec, CONSUMER)
            interval, now = self.spec.supervision.interval_seconds, time.time()
            steps = range(0, 3600, interval)
            sample = sampler.observe(now)
            samples = [replace(sample, at=now + seconds) for seconds in steps]
        return assess_consumer(samples, self.spec.supervision, RestartHistory())

    def await_published(self, running: ConsumerRun, is_all: bool = True) -> None:
        """Wait until the table has all that a plain consumer reads, and, if ``is_all``, is at the topic's
        ends."""

        def is_published() -> bool:
            running.query.processAllAvailable()
            with self.systems() as systems:
                position = systems.lake.position(self.spec.table)
                ends = systems.kafka.ends(self.name)
            is_there = set(self.record_offsets()) == self.plain().keys()
            return is_there and (not is_all or position.ends == ends)

        wait_until("the records behind the transaction", is_published, 60, 0.5)

    def stable(self) -> OffsetRanges:
        """The offsets that no open transaction holds back."""
        kafka = KafkaAdmin(self.services.stack.platform("observer").kafka)
        return OffsetRanges.from_ends({}, kafka.last_stable(self.name))

    def assert_loaded(self, run: str) -> dict[str, Any]:
        """The proof of a load; the table has exactly the topic's records, and each hole its reason."""
        self.plan(run)
        proof = self.verify(run)
        expected, delivered = self.plain(), self.delivered()
        assert self.rows() == {place: row_of(message) for place, message in expected.items()}
        without = self.without_record()
        assert without.aborted == offsets(delivered.keys() - expected.keys())
        assert without.control == self.all_offsets().minus(offsets(delivered))
        assert without.absent.count == without.skipped.count == 0
        assert self.reconcile().present == OffsetSet.of(offsets(expected))
        return proof


def row_of(message: Message) -> dict[str, Any]:
    """The row that a record of the plain consumer is."""
    key, value = message.key(), message.value()
    return {
        "value": None if value is None else bytes(value),
        "key": None if key is None else bytes(key).decode(),
    }


@pytest.fixture
def topic(services: Services) -> str:
    admin = AdminClient({**services.kafka, "log_level": 0})
    name = f"sent-{next(_numbers)}"
    new = [NewTopic(f"{name}{part}", PARTITIONS, 1) for part in ("", "-source")]
    for future in admin.create_topics(new).values():
        future.result(20)
    return name


@pytest.fixture
def sent(
    spark: SparkSession,
    services: Services,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Sent]:
    services.minio, services.postgres  # noqa: B018
    monkeypatch.setenv("SLUICE_STREAMS", str(tmp_path))
    declaration = Declaration(topic, 'format = "bytes"\nkey = "text"')
    made = Sent(spark, services, topic.replace("-", "_"), tmp_path, declaration)
    yield made
    made.stop()


def test_of_kafka_streams_each_count_is_a_row_also_after_it_was_killed(sent: Sent, tmp_path: Path) -> None:
    source, number = f"{sent.name}-source", iter(range(10_000))

    def feed(each: int) -> None:
        producer = Producer({**sent.services.kafka, "log_level": 0})
        for _ in range(each):
            for key in range(KEYS):
                producer.produce(source, b"%d" % next(number), f"key-{key}")
        assert producer.flush(30) == 0

    def app(commit_seconds: float) -> Counts:
        settings = {
            "commit.interval.ms": str(int(commit_seconds * 1000)),
            # A broker would end an open one after ten seconds.
            "producer.transaction.timeout.ms": "900000",
        }
        return Counts(sent.services, sent.name, tmp_path / "streams", (source, sent.name), settings)

    began = time.time()
    counts = app(commit_seconds=0.1)
    feed(20)
    wait_until("counts", lambda: len(sent.plain()) == 20 * KEYS, 60, 0.3)
    counts.close()
    running = sent.run(sent.writer())
    proof = sent.assert_loaded("one")
    # Several transactions.
    assert proof["without_record"]["control"] > 2
    assert sent.health(began).health is Health.IDLE

    counts = app(commit_seconds=600)
    feed(3)
    wait_until("uncommitted counts", lambda: len(sent.delivered()) == 23 * KEYS, 60, 0.3)
    (transaction,) = counts.transactions()
    counts.kill()
    running.query.processAllAvailable()
    report = sent.health(began)
    assert report.health is Health.WAITING_FOR_TRANSACTION, report.message
    assert "for a transaction of producer" in report.message
    assert len(sent.record_offsets()) == 20 * KEYS

    # An operator aborts what it left: the next one, which has another transaction's name, waits for that.
    Producer({**sent.services.kafka, "transactional.id": transaction, "log_level": 0}).init_transactions(30)
    counts = app(commit_seconds=0.1)
    # It sends the same once more.
    wait_until("counts again", lambda: len(sent.plain()) == 23 * KEYS, 60, 0.3)
    counts.close()
    sent.await_published(running)
    proof = sent.assert_loaded("two")
    assert proof["without_record"]["aborted"] == 3 * KEYS
    last: dict[str, int] = {}
    for row in sent.rows().values():
        last[row["key"]] = max(last.get(row["key"], 0), int.from_bytes(row["value"], "big"))
    assert last == {f"key-{key}": 23 for key in range(KEYS)}
    assert sent.health(began).health is Health.IDLE


@pytest.mark.exhaustive
def test_a_transaction_of_a_killed_program_is_waited_for_until_it_times_out(sent: Sent) -> None:
    began, each = time.time(), RECORDS * PARTITIONS
    running = sent.run(sent.writer())
    # Long enough for what is looked at meanwhile.
    with sending(sent.services.kafka, sent.name, "first", timeout_ms=20_000):
        pass
    # It starts again, and goes on, with transactions of other names.
    with sending(sent.services.kafka, sent.name, "second", timeout_ms=600_000):
        running.query.processAllAvailable()
        report = sent.health(began)
        assert report.health is Health.WAITING_FOR_TRANSACTION, report.message
        assert "for a transaction of producer" in report.message
        # What was committed before the first record of the open one; no client reads more.
        assert len(sent.record_offsets()) == len(sent.plain()) < 4 * each
        sent.plan("meanwhile")
        assert sent.all_offsets().count > 5 * each

        wait_until("the end of the first one", lambda: len(sent.plain()) == 4 * each, 60, 0.5)
        sent.await_published(running, is_all=False)
        # Now for the second one.
        report = sent.health(began)
        assert report.health is Health.WAITING_FOR_TRANSACTION, report.message
    third = {"transactional.id": f"{sent.name}-second-3", "log_level": 0}
    Producer({**sent.services.kafka, **third}).init_transactions(30)
    wait_until("its end", lambda: sent.stable() == sent.all_offsets(), 30, 0.3)
    sent.await_published(running)
    proof = sent.assert_loaded("after")
    assert (proof["published"], proof["without_record"]["aborted"]) == (4 * each, 2 * each)
    # The one that was planned when both were open, too.
    assert sent.verify("meanwhile")["without_record"]["aborted"] == 2 * each
    assert sent.health(began).health is Health.IDLE
