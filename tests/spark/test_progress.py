"""Progress of real queries on a real broker: what is recorded, what a killed driver loses, Kafka failing."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from local.services import kafka, streams
from local.stack.stack import wait_until
from sluice.clients.kafka import progress
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.broker_topics import BrokerTopics
from sluice.clients.kafka.login.properties import librdkafka
from sluice.clients.kafka.progress import ProgressReader
from sluice.clients.kafka.query_progress import (
    ActivityEvent,
    ActivityKind,
    Entry,
    Progress,
    QueryHistory,
    Totals,
    moment_of,
    record_key,
    to_json,
)
from sluice.config.sections.topic import PROGRESS_TOPIC
from sluice.core.errors import Missing, Refused, Unreachable
from spark_jobs.common.spark import progress_listener as module
from spark_jobs.common.spark.progress_listener import SETTINGS, ProgressProducer
from tests.support.raising import raising
from tests.support.services import Services
from tests.support.watched_driver import NAME, STREAM

START_SECONDS = 120
HOUR = 3600
DAY = 86_400
TOPIC = PROGRESS_TOPIC.name


@pytest.fixture
def topic(services: Services) -> str:
    """An empty topic of progress, made with the rights of the role that makes it."""
    admin = AdminClient({**services.kafka, "log_level": 0})
    kafka.provision(services.stack.context, [])
    airflow = KafkaAdmin(services.stack.platform("airflow").kafka)
    if airflow.find(TOPIC):
        admin.delete_topics([TOPIC])[TOPIC].result(20)
        wait_until("the topic's end", lambda: airflow.find(TOPIC) is None, 20, 0.05)
    BrokerTopics(airflow).provision(PROGRESS_TOPIC)
    return TOPIC


@pytest.fixture
def reader(services: Services, topic: str) -> ProgressReader:
    """A reader as Airflow's role, which has read nothing yet."""
    return ProgressReader(services.stack.platform("airflow").kafka)


def found(reader: ProgressReader, stream: str) -> tuple[QueryHistory, ...]:
    return reader.read(time.time() - HOUR, time.time()).queries.get(stream, ())


@pytest.fixture
def drive(services: Services, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Starts a driver over a topic; what it prints is in ``out``."""
    context = services.stack.context
    streams.prepare(context)
    started: list[subprocess.Popen[bytes]] = []
    # Its modules are the tests' own.
    repo = Path(__file__).resolve().parents[2]
    environment = context.job_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(repo), environment["PYTHONPATH"]])

    def start(topic: str) -> subprocess.Popen[bytes]:
        module = "tests.support.watched_driver"
        command = [str(context.python), "-m", module, topic]
        with (tmp_path / "out").open("wb") as out, (tmp_path / "log").open("wb") as log:
            started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=log))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.exhaustive
def test_a_killed_driver_loses_the_progress_of_its_last_seconds_and_no_more(
    services: Services,
    reader: ProgressReader,
    drive: Callable[[str], subprocess.Popen[bytes]],
    tmp_path: Path,
) -> None:
    services.make_topic("watched", 2)
    now = int(time.time()) // 600 * 600
    # An hour ago, then now, then an hour ago again: too late by 50 minutes.
    values = [now - HOUR] * 20 + [now] * 10
    services.send("watched", {0: [str(value).encode() for value in values]})
    driver = drive("watched")

    def batches_now() -> tuple[Progress, ...]:
        return found(reader, STREAM)[0].batches if found(reader, STREAM) else ()

    def started() -> bool:
        assert driver.poll() is None, (tmp_path / "log").read_text()[-3000:]
        return sum(batch.rows for batch in batches_now()) == 30

    wait_until("the first batches", started, START_SECONDS, 0.2)
    services.send("watched", {0: [str(now - HOUR).encode()] * 3, 1: [str(now).encode()] * 20})
    wait_until("late rows", lambda: batches_now()[-1].totals.rows == 53, 30, 0.5)

    def said() -> list[tuple[int, float]]:
        """Which batches are done, and when."""
        lines = [line.split() for line in (tmp_path / "out").read_text().splitlines()]
        return [(int(number), float(at)) for number, at in lines]

    def batch_behind(done: int) -> Callable[[], bool]:
        return lambda: len(said()) > done

    begun = time.time()
    while time.time() - begun < 3:
        done = len(said())
        services.send("watched", {1: [str(now).encode()] * 10})
        wait_until("another batch", batch_behind(done), 30, 0.05)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    killed = time.time()

    (query,) = found(reader, STREAM)
    batches = query.batches
    assert query.query == NAME
    # None is missing in between, and at the end only those of the last seconds.
    assert [batch.batch for batch in batches] == list(range(len(batches)))
    old = [number for number, at in said() if killed - at > 2]
    assert len(old) >= 2
    assert batches[-1].batch >= old[-1]
    print(f"{len(said())} batches were done, {len(batches)} are kept")
    # It could not say that it ended: its silence must tell.
    assert not query.is_ended
    assert query.activity is not None

    last = batches[-1]
    assert last.totals.rows == sum(batch.rows for batch in batches)
    assert last.totals.batches == len(batches)
    # Spark counts what reaches the state: rows of one window in one task are one by then.
    assert 1 <= last.totals.late <= 3
    assert last.totals.late == sum(batch.late for batch in batches)
    assert last.state is not None
    assert last.state.rows >= 1
    assert last.state.memory_bytes > 0
    assert sum(batch.state.removed for batch in batches if batch.state) >= 1
    assert last.watermark == now - 600
    assert batches[0].watermark is None
    behind = [batch.behind for batch in batches if batch.behind]
    assert max(partition.most for partition in behind) >= 10
    assert behind[-1].least == 0
    assert {"addBatch", "walCommit", "queryPlanning", "latestOffset"} <= set(last.phases)
    assert 0 < sum(last.phases.values()) <= last.seconds + 0.1
    assert any(batch.input_rate and batch.processed_rate for batch in batches)


def test_a_query_that_ends_reports_it_and_loses_nothing(
    spark: SparkSession, services: Services, reader: ProgressReader, tmp_path: Path
) -> None:
    """A process that ends, or fails, sends its last records at its end."""
    platform = services.stack.platform("consumer")
    began = time.monotonic()
    with module.attach(spark, platform, "ending"):
        for name, fails in (("good one", False), ("bad/one", True)):
            rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
            broken = "raise_error('no such luck')" if fails else "value"
            query = (
                rows.selectExpr(broken)
                .writeStream.queryName(name)
                .format("noop")
                .option("checkpointLocation", str(tmp_path / str(fails)))
                .trigger(processingTime="300 milliseconds")
                .start()
            )
            wait_until("its end", partial(_is_through, query, fails), 30, 0.1)
            query.stop()
    assert time.monotonic() - began < 25
    # After the block there is no listener any more.
    bad, good = found(reader, "ending")
    assert (bad.query, good.query) == ("bad/one", "good one")
    assert isinstance(good.newest, ActivityEvent)
    assert (good.newest.kind, good.newest.detail) == (ActivityKind.ENDED, "")
    assert [batch.batch for batch in good.batches] == list(range(len(good.batches)))
    assert good.batches[-1].rows > 0
    assert (good.batches[-1].state, good.batches[-1].watermark, good.batches[-1].behind) == (None, None, None)
    assert isinstance(bad.newest, ActivityEvent)
    assert bad.newest.kind == ActivityKind.ENDED
    assert "no such luck" in bad.newest.detail
    assert "\n" not in bad.newest.detail


def _is_through(query: StreamingQuery, fails: bool) -> bool:
    if fails:
        return not query.isActive
    return query.isActive and any(progress["numInputRows"] for progress in query.recentProgress)


def batch(number: int, at: float, query: str = "q") -> Progress:
    return Progress(query, "run", number, at - 1, 1.0, 10, Totals(0.0, number + 1))


def send(services: Services, stream: str, *entries: Entry) -> None:
    """Entries with the timestamps of their moments."""
    producer = Producer({**librdkafka(services.stack.platform("consumer").kafka), "linger.ms": 5})
    for entry in entries:
        at = int(moment_of(entry) * 1000)
        producer.produce(TOPIC, to_json(entry), record_key(stream, entry.query), timestamp=at)
    assert producer.flush(30) == 0


def test_streams_share_a_topic_and_what_is_older_than_the_window_comes_with_the_next_reads(
    services: Services, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "OLDER_RECORDS", 2)
    now = time.time()
    ended = ActivityEvent("gone", "run", now - 3 * DAY + 1, ActivityKind.ENDED)
    send(services, "a", *(batch(n, now - 3 * DAY + n / 10, "gone") for n in range(4)), ended)
    send(services, "b", batch(0, now - 2 * HOUR), batch(1, now - 600), batch(1, now - 600))
    send(services, "a", batch(7, now - 60), ActivityEvent("q", "run", now - 30, ActivityKind.IDLE))
    reader = ProgressReader(services.stack.platform("airflow").kafka)

    first = reader.read(now - HOUR, now)
    assert not first.complete
    assert {stream: [query.query for query in found] for stream, found in first.queries.items()} == {
        "a": ["gone", "q"],
        "b": ["q"],
    }
    (other,) = first.queries["b"]
    # Sent twice, as after an answer that was lost; the earlier one is older than the window.
    assert [one.batch for one in other.batches] == [1]
    assert first.queries["a"][1].batches == (batch(7, now - 60),)
    while not (last := reader.read(now - HOUR, now)).complete:
        pass
    gone = last.queries["a"][0]
    assert (gone.progress, gone.activity, gone.batches) == (batch(3, now - 3 * DAY + 0.3, "gone"), ended, ())

    send(services, "b", batch(2, now))
    (other,) = reader.read(now - HOUR, now).queries["b"]
    assert [one.batch for one in other.batches] == [1, 2]
    later = reader.read(now + 5 * DAY - HOUR, now + 5 * DAY)
    assert [query.query for query in later.queries["a"]] == ["q"], "what retention has deleted is forgotten"


def test_a_malformed_record_is_reported_and_skipped(
    services: Services, reader: ProgressReader, caplog: pytest.LogCaptureFixture
) -> None:
    now = time.time()
    send(services, "a", batch(0, now))
    services.send(TOPIC, {0: [b'{"kind": "idle", "query": "q"}', b"\xff"]})
    send(services, "a", batch(1, now))
    for _ in range(2):
        read = reader.read(now - HOUR, now)
        assert [one.batch for one in read.queries["a"][0].batches] == [0, 1]
        for word in ("2 ", TOPIC, "partition 0", "offset 2"):
            assert word in read.malformed
    assert [record.levelname for record in caplog.records] == ["WARNING"], "once"


def test_only_the_consumer_may_write_and_only_who_shows_it_may_read(services: Services, topic: str) -> None:
    now = time.time()
    errors: dict[str, KafkaError | None] = {}
    for role in ("airflow", "producer", "consumer", "reader"):
        platform = services.stack.platform(role)

        def delivered(error: KafkaError | None, message: Message, role: str = role) -> None:
            errors[role] = error

        producer = Producer({**librdkafka(platform.kafka), "log_level": 2})
        producer.produce(topic, to_json(batch(0, now)), record_key(role, "q"), on_delivery=delivered)
        producer.flush(10)
        if role in ("airflow", "reader"):
            ProgressReader(platform.kafka).read(now - HOUR, now)
        else:
            with raising(Refused, TOPIC, "[kafka]", "rights"):
                ProgressReader(platform.kafka).read(now - HOUR, now)
    denied = {role for role, error in errors.items() if error is not None}
    assert denied == {"airflow", "producer", "reader"}


def polled(producer: ProgressProducer) -> bool:
    producer.poll(0.1)
    return True


@pytest.mark.exhaustive
def test_while_kafka_is_away_queries_go_on_and_their_progress_comes_later(
    services: Services, reader: ProgressReader, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, module.__name__)

    def said() -> list[str]:
        """The listener's own lines: librdkafka logs each refused connection besides."""
        return [record.levelname for record in caplog.records if record.name == module.__name__]

    producer = ProgressProducer(services.stack.platform("consumer").kafka, "a")
    now = time.time()
    producer.send(batch(0, now))
    wait_until("the first batch", lambda: polled(producer) and bool(found(reader, "a")), 30)

    services.signal("kafka", signal.SIGKILL)
    wait_until("its absence", lambda: polled(producer) and bool(said()), 20)
    begun = time.monotonic()
    for number in range(1, 1000):
        producer.send(batch(number, now))
    assert time.monotonic() - begun < 1
    with raising(Unreachable, "Kafka"):
        reader.read(now - HOUR, now)
    services.crash("kafka", 0)
    wait_until("its return", lambda: polled(producer) and len(said()) > 1, 60)
    wait_until("the rest", lambda: len(found(reader, "a")[0].batches) == 1000, 30)
    assert said() == ["WARNING", "INFO"]
    assert producer.lost == 0
    producer.close()


def test_a_topic_that_is_missing_or_recreated(
    services: Services,
    reader: ProgressReader,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = time.time()
    send(services, "a", batch(0, now))
    assert found(reader, "a")
    admin = AdminClient({**services.kafka, "log_level": 0})
    admin.delete_topics([TOPIC])[TOPIC].result(20)
    airflow = KafkaAdmin(services.stack.platform("airflow").kafka)
    wait_until("its end", lambda: airflow.find(TOPIC) is None, 20, 0.05)
    with raising(Missing, TOPIC, "provision_topic"):
        reader.read(now - HOUR, now)
    for key, milliseconds in {"topic.metadata.propagation.max.ms": 100, "linger.ms": 0}.items():
        monkeypatch.setitem(SETTINGS, key, milliseconds)
    producer = ProgressProducer(services.stack.platform("consumer").kafka, "a")
    producer.send(batch(1, now))
    wait_until("its failure", lambda: polled(producer) and producer.lost == 1, 20)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    BrokerTopics(airflow).provision(PROGRESS_TOPIC)
    assert found(reader, "a") == ()
    send(services, "a", batch(2, now))
    assert [one.batch for one in found(reader, "a")[0].batches] == [2]
