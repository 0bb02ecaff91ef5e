"""The real producer of wiki_changes, on a real Kafka and PostgreSQL, as a process or in a thread, and what it
left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from local.base import REPO
from local.services import postgres
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.broker_topics import BrokerTopics
from sluice.clients.kafka.consumers import written_offsets
from sluice.config import overrides, streams
from sluice.config.sections.topic import POSITIONS_TOPIC
from sluice.core.processes import exits
from spark_jobs.common.feed.event import Source
from spark_jobs.common.feed.position import SavedPosition
from spark_jobs.common.feed.records import ids_key, position_key
from spark_jobs.common.feed.resume import load_position
from spark_jobs.common.feed.run import start
from spark_jobs.wiki_changes.events import read, rewind
from tests.support.services import Services

NAME = "wiki_changes"
SPEC = streams.load(NAME)
assert SPEC.feed is not None
FEED = SPEC.feed
TOPIC = SPEC.topic.name
PARTITIONS = SPEC.topic.partitions
# What tests need not wait for.
HEARTBEAT_INTERVAL = 0.2


@dataclass(frozen=True)
class Record:
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: dict[str, bytes]

    @property
    def event_id(self) -> str:
        return self.headers["event-id"].decode()

    @property
    def sequence(self) -> int:
        return int(self.headers["feed-sequence"])


class ProducerProcess:
    """One producer process. ``log`` is what it said so far."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, number: int) -> None:
        self._log = folder / f"producer-{number}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, cwd=REPO, stderr=log)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def ends(self, seconds: float = 60) -> int:
        """Its exit code, once it has ended by itself."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(
                f"the producer has not ended in {seconds:g} s:\n{self.log[-4000:]}"
            ) from error

    def stop(self) -> None:
        self.send(signal.SIGTERM)
        assert self.ends() == exits.STOPPED, self.log

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


class Thread:
    """A producer in a thread of this process, which sends heartbeats often. :meth:`end` stops it."""

    def __init__(self, services: Services, url: str) -> None:
        self.failure: BaseException | None = None
        self._platform, self._url = services.stack.platform("producer"), url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            source = Source(read, rewind)
            producer = start(SPEC, FEED, self._url, self._platform, source, self._stop)
            producer.heartbeat_seconds = HEARTBEAT_INTERVAL
            producer.run_until(self._stop)
        except BaseException as error:
            self.failure = error

    def ends(self, seconds: float = 20) -> BaseException | None:
        """What it failed by, once it has ended by itself; that is no failure of the test's any more."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"it has not ended in {seconds:g} s"
        failure, self.failure = self.failure, None
        return failure

    def end(self) -> None:
        """Stop it; raises what it failed by."""
        self._stop.set()
        failure = self.ends()
        if failure is not None:
            raise failure


class Feeding:
    """Producers of one topic, reading the feed at ``url``, with other values of ``[feed]`` as ``declared``;
    :meth:`close` ends those that still run."""

    def __init__(self, services: Services, folder: Path, url: str, declared: dict[str, int]) -> None:
        self.services = services
        self._folder, self._url = folder, url
        self._started: list[ProducerProcess] = []
        self._threads: list[Thread] = []
        services.make_topic(TOPIC, PARTITIONS)
        assert self.end() == 0
        self._forget_position()
        platform = services.stack.home.platform / "producer.toml"
        own = folder / "producer.toml"
        own.touch(mode=0o600)
        own.write_text(f'{platform.read_text()}\n[feeds]\n{NAME} = "{url}"\n')
        self._overriding = folder / "overrides.toml"
        values = "".join(f"{key} = {value}\n" for key, value in declared.items())
        self._overriding.write_text(f"[{NAME}.feed]\n{values}")
        self._environment = os.environ | {
            overrides.VARIABLE: str(self._overriding),
            "SLUICE_PLATFORM_DIR": str(folder),
            "PYTHONPATH": f"{REPO}:{REPO / 'plugins'}",
            "PYTHONFAULTHANDLER": "1",
        }

    def _forget_position(self) -> None:
        """The feed never ran: the tests share a broker and a database."""
        self.make_positions_topic()
        producer = Producer({**self.services.kafka, "log_level": 0})
        for key in (position_key(NAME), ids_key(NAME)):
            producer.produce(POSITIONS_TOPIC.name, None, key, 0)
        assert producer.flush(30) == 0
        self.services.postgres().close()
        with postgres.cursor(self.services.stack.context, "lake") as cursor:
            cursor.execute("drop table if exists sluice_feed_positions")

    def make_positions_topic(self) -> None:
        """As a load does."""
        airflow = KafkaAdmin(self.services.stack.platform("airflow").kafka)
        BrokerTopics(airflow).provision(POSITIONS_TOPIC)

    def saved(self) -> SavedPosition | None:
        """The position that is committed."""
        return load_position(self.services.stack.platform("producer").kafka, NAME)

    def count(self) -> int:
        """How many events are committed. Raises what a producer in a thread failed by unless
        :meth:`Thread.ends` told of it: no event would come."""
        for failed in (thread.failure for thread in self._threads if thread.failure is not None):
            raise failed
        saved = self.saved()
        return 0 if saved is None else saved.next_sequence - 1

    def start(self, script: str = "") -> ProducerProcess:
        """``script``: Python that runs the producer, with something changed."""
        arguments = ["-c", script] if script else SPEC.component("producer").arguments
        command = [sys.executable, *arguments]
        running = ProducerProcess(command, self._environment, self._folder, len(self._started))
        self._started.append(running)
        return running

    def start_thread(self) -> Thread:
        self._threads.append(Thread(self.services, self._url))
        return self._threads[-1]

    def finish(self, producer: ProducerProcess, total: int, seconds: float = 120) -> list[Record]:
        """Stop the producer when the topic holds so many records, and give them."""
        wait_for(f"{total} records", lambda: self.count() >= total, seconds)
        producer.stop()
        return self.records()

    def close(self) -> None:
        for running in self._started:
            if running.process.poll() is None:
                running.kill()
        for thread in self._threads:
            thread.end()

    def admin(self) -> AdminClient:
        return AdminClient({**self.services.kafka, "log_level": 0})

    def heartbeat(self) -> tuple[dict[str, Any], dict[int, int]] | None:
        """The producer's newest heartbeat, and the offsets with it."""
        # As a consumer of the group that never joins it: librdkafka's AdminClient crashes on this question
        # while a broker looks for the group's coordinator.
        consumer = Consumer({**self.services.kafka, "group.id": f"sluice-{NAME}-producer", "log_level": 0})
        wanted = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        found = consumer.committed(wanted, timeout=20)
        consumer.close()
        texts = [place.metadata for place in found if place.metadata]
        return (json.loads(texts[0]), {p.partition: p.offset for p in found}) if texts else None

    def declare(self, text: str) -> None:
        """Override more of the stream's declaration."""
        with self._overriding.open("a") as file:
            file.write(text)

    def write_foreign(self, each: int) -> None:
        """Write so many records of another program to each partition."""
        self.services.send(TOPIC, {partition: [b"foreign"] * each for partition in range(PARTITIONS)})

    def delete_records(self) -> None:
        """Delete every record, as retention does."""
        # Offset -1 is the end.
        ends = [TopicPartition(TOPIC, partition, -1) for partition in range(PARTITIONS)]
        admin = self.admin()
        for deleted in admin.delete_records(ends).values():
            deleted.result(20)

    def recreate_topic(self) -> None:
        admin = self.admin()
        admin.delete_topics([TOPIC])[TOPIC].result(20)
        wait_for("the topic's end", lambda: TOPIC not in admin.list_topics(timeout=10).topics)
        self.services.make_topic(TOPIC, PARTITIONS)
        assert self.end() == 0

    def records(self) -> list[Record]:
        """The feed's committed records that the topic keeps, each partition in its order."""
        consumer = Consumer(
            {**self.services.kafka, "group.id": "sluice-reader-test", "log_level": 0}
            | {"enable.auto.commit": False, "auto.offset.reset": "earliest", "enable.partition.eof": True}
        )
        bounds = {
            partition: consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=20)
            for partition in range(PARTITIONS)
        }
        consumer.assign([TopicPartition(TOPIC, *place) for place in ((p, b) for p, (b, _) in bounds.items())])
        found: list[Record] = []
        left = {partition for partition, (begin, end) in bounds.items() if begin < end}
        deadline = time.monotonic() + 60
        while left:
            assert time.monotonic() < deadline, f"read {len(found)} of {bounds}"
            for message in consumer.consume(1000, timeout=0.2):
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None
                assert offset is not None
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left -= {partition} if offset >= bounds[partition][1] else set()
                    continue
                assert value is not None
                headers = {
                    name: text
                    for name, text in dict(message.headers() or ()).items()
                    if isinstance(text, bytes)
                }
                if headers:
                    found.append(Record(partition, offset, message.key(), value, headers))
        consumer.close()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def end(self) -> int:
        """The sum of the partitions' end offsets: markers of transactions and aborted records have some, too.

        Asked again for 30 s: a new or restarted broker may answer before its partitions have leaders.
        """
        kafka = self.services.stack.platform("producer").kafka
        deadline = time.monotonic() + 30
        while True:
            try:
                return sum(end for _, end in written_offsets(kafka, TOPIC).values())
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def wait_for(what: str, is_so: Callable[[], object], seconds: float = 120, pause: float = 0.1) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {what}"
        time.sleep(pause)


def murmur2(data: bytes) -> int:
    """Kafka's, positive: org.apache.kafka.common.utils.Utils.toPositive(murmur2(key))."""
    mixed, mask = 0x5BD1E995, 0xFFFFFFFF
    hashed = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for begin in range(0, whole, 4):
        k = int.from_bytes(data[begin : begin + 4], "little") * mixed & mask
        k = (k ^ (k >> 24)) * mixed & mask
        hashed = (hashed * mixed & mask) ^ k
    if data[whole:]:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * mixed & mask
    hashed = (hashed ^ (hashed >> 13)) * mixed & mask
    return (hashed ^ (hashed >> 15)) & 0x7FFFFFFF
