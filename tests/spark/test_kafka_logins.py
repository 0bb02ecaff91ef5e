"""Logins that end under Spark's source: Java plans a batch, the direct path reads it; nothing is lost or
doubled, and the query is not started again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from local.services import kafka as service
from local.stack.stack import wait_until
from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.range_reader import RangeReader
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.offsets.ranges import IntervalSet
from spark_jobs.common.kafka.offsets import Topic
from spark_jobs.common.spark.session import kafka_source_options
from tests.support.kafka_logins import LoginBroker

LIFETIME = 10.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    made = LoginBroker(tmp_path_factory.mktemp("logins"))
    yield made
    made.stop()


class Followed:
    """A topic that Spark's source and the direct path read, batch by batch, with connections that stay."""

    def __init__(
        self, spark: SparkSession, broker: LoginBroker, topic: str, login: Kafka, folder: Path
    ) -> None:
        self._broker, self._topic = broker, topic
        broker.make_topic(topic)
        self._identity = Topic(login, topic)
        self._brokers = Brokers(login)
        self._reader = RangeReader(self._brokers, topic, self._identity.id())
        self.sent, self.direct, self._offsets = 0, list[bytes](), folder / "offsets"
        self._end = 0
        options = kafka_source_options(login) | {"subscribe": topic, "startingOffsets": "earliest"}
        self._query = (
            spark.readStream.format("kafka")
            .options(**options)
            .load()
            .writeStream.option("checkpointLocation", str(folder))
            .trigger(processingTime="300 milliseconds")
            .foreachBatch(self._batch)
            .start()
        )

    def _batch(self, _: DataFrame, batch: int) -> None:
        """Read what Spark planned, as a consumer does: its own source reads no record."""
        planned = (self._offsets / str(batch)).read_text().splitlines()[-1]
        end = json.loads(planned)[self._topic]["0"]
        self._identity.id()
        read = self._reader.read(0, IntervalSet.of([(self._end, end)]))
        self.direct += [value for piece in read for value in piece.column("value").to_pylist()]
        self._end = end

    def send_for(self, seconds: float) -> None:
        began = time.monotonic()
        producer = Producer(service.admin_config(self._broker.context))
        while time.monotonic() - began < seconds:
            producer.produce(self._topic, b"%d" % self.sent)
            self.sent += 1
            assert producer.flush(20) == 0
            assert self._query.isActive, self._query.exception()
            time.sleep(0.1)

    def check(self) -> None:
        """Wait until all was read, and see that it was read once, by the query that was started."""

        def is_read() -> bool:
            assert self._query.isActive, self._query.exception()
            return len(self.direct) >= self.sent

        wait_until("all records to be read", is_read, 60, 0.2)
        assert self.direct == [b"%d" % number for number in range(self.sent)]

    def stop(self) -> None:
        self._query.stop()
        self._brokers.close()


@pytest.fixture
def follow(spark: SparkSession, broker: LoginBroker, tmp_path: Path) -> Iterator[Callable[..., Followed]]:
    made: list[Followed] = []

    def start(topic: str, login: Kafka) -> Followed:
        made.append(Followed(spark, broker, topic, login, tmp_path / "checkpoint"))
        return made[-1]

    yield start
    for one in made:
        one.stop()


@pytest.mark.parametrize("kind", ["endpoint", pytest.param("file", marks=pytest.mark.exhaustive)])
def test_tokens_of_seconds(
    broker: LoginBroker, follow: Callable[..., Followed], tmp_path: Path, kind: str
) -> None:
    broker.tokens.lifetime = LIFETIME
    login, path = broker.by_token(), tmp_path / "token"
    asked, is_over = len(broker.tokens.asked), threading.Event()

    def renew() -> None:
        part = path.with_suffix(".part")
        part.write_text(broker.tokens.token("sluice-consumer"))
        part.rename(path)

    def keep() -> None:
        while not is_over.wait(LIFETIME / 5):
            renew()

    renew()
    if kind == "file":
        login = broker.by_token_file(path)
        threading.Thread(target=keep, daemon=True).start()
    try:
        stream = follow(f"tokens-{kind}", login)
        stream.send_for(1.3 * LIFETIME)
        stream.check()
    finally:
        is_over.set()
    if kind == "endpoint":
        # Java's clients and Python's have tokens of their own.
        assert len(broker.tokens.asked) - asked >= 4


@pytest.mark.exhaustive
def test_a_certificate_of_seconds_that_is_replaced(
    broker: LoginBroker, follow: Callable[..., Followed]
) -> None:
    broker.renew(valid=timedelta(seconds=40))
    ends = time.monotonic() + 40
    stream = follow("certificates", broker.by_certificate())
    stream.send_for(3)
    stream.check()
    broker.renew()
    time.sleep(max(0.0, ends - time.monotonic()) + 1)
    # With the one before no connection is opened any more.
    broker.restart()
    stream.send_for(5)
    stream.check()


@pytest.mark.exhaustive
def test_an_endpoint_that_refuses_for_a_while(broker: LoginBroker, follow: Callable[..., Followed]) -> None:
    broker.tokens.lifetime = 20.0
    stream = follow("refusals", replace(broker.by_token(), sasl_oauthbearer_scope="kafka refused"))
    stream.send_for(2)
    broker.tokens.failure = 401
    # Two thirds of it are over when Java asks for another one, and again 10 s later.
    stream.send_for(17)
    broker.tokens.failure = 0
    stream.send_for(15)
    stream.check()
