"""A query's results in a compacted topic, over a broker of its own: each batch once, after any failure."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark.sql import DataFrame, SparkSession

from local.services import kafka as broker
from local.stack.stack import wait_until
from sluice.clients.kafka import reader as kafka_reader
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.broker_topics import BrokerTopics
from sluice.clients.kafka.errors import LoginRefused
from sluice.clients.kafka.login.properties import librdkafka
from sluice.clients.kafka.reader import Result
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sections.query import Query, TimeWindow
from sluice.config.sections.sink import Sink
from sluice.config.sections.topic import Topic
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.queries import committed_batch
from sluice.core.queries.committed_batch import CommittedBatch
from sluice.core.queries.result import key_text
from spark_jobs.common.sinks import query_topic, transactions
from spark_jobs.common.sinks.base import SinkWriteFailed, Target
from spark_jobs.common.sinks.kafka import KafkaSink
from spark_jobs.common.sinks.transactions import Record, Transactions
from spark_jobs.common.spark.failures import Fenced
from tests.support.raising import raising
from tests.support.services import Services

T = TypeVar("T")
STREAM, QUERY, PARTITIONS = "hits", "zipcodes", 2
COMPACTED = {"cleanup.policy": "compact"}
# More than there are tests: the roles get their rights to all at once.
TOPICS = [f"results-{number}" for number in range(40)]
_names = iter(TOPICS)


class Hooked(Transactions):
    """Remembers which transactional questions it asked; ``after`` is done once behind one, or behind a look
    at the ``committed_batch``."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.asked: list[str] = []
        self.after: dict[str, Callable[[], object]] = {}
        self._committed, self._topic.committed = self._topic.committed, self._look  # type: ignore[method-assign]

    def _ask(self, request: Callable[[float], T]) -> T:
        found = super()._ask(request)
        name = getattr(request, "__name__", "")
        self.asked.append(name)
        self.after.pop(name, lambda: None)()
        return found

    def _look(self, isolation: str) -> CommittedBatch | None:
        found = self._committed(isolation)
        self.after.pop("committed_batch", lambda: None)()
        return found

    def flush(self) -> None:
        assert self._producer is not None
        self._producer.flush(10)


class StreamPosition:
    """A topic of a test's own, and who writes and reads there: as the roles that do so in the stack."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.topic = next(_names)
        self.stop = threading.Event()
        self.writes: Kafka = services.stack.platform("consumer").kafka
        self.reads: Kafka = services.stack.platform("airflow").kafka
        self._opened: list[Transactions] = []

    def provision(self, config: dict[str, str] | None = None) -> None:
        topic = Topic(self.topic, PARTITIONS, 1, COMPACTED | (config or {}))
        BrokerTopics(KafkaAdmin(self.reads)).provision(topic)

    def target(self, name: str, declared: Query, seconds: float = 30) -> Target:
        return Target(STREAM, name, declared, declared.sinks[0], self.stop, seconds)

    def writer(self, epoch: int | None = None, stall_timeout_seconds: float = 30) -> Hooked:
        """Open if it has an ``epoch``."""
        sink = Sink("kafka", topic=self.topic, partitions=PARTITIONS)
        declared = Query([sink], ["zipcode"], {"hits": "count"})
        made = Hooked(self.target(QUERY, declared, stall_timeout_seconds), self.writes)
        self._opened.append(made)
        if epoch:
            made.open(epoch)
        return made

    def results(self, seconds: float = 20) -> dict[str, Result]:
        return kafka_reader.read(self.reads, self.topic, ["zipcode"], seconds)

    def counts(self) -> dict[str, int]:
        return {key: found.aggregates["hits"] for key, found in self.results().items()}

    def last(self) -> int | None:
        return kafka_reader.last_batch(self.reads, STREAM, QUERY, self.topic)

    def records(self) -> list[tuple[int, str, Any]]:
        """All that is committed, duplicates and all: partition, key, value (None: a tombstone)."""
        settings = {"group.id": "sluice-test", "enable.partition.eof": True, "auto.offset.reset": "earliest"}
        consumer = Consumer({**self.services.kafka, **settings, "log_level": 0})
        consumer.assign([TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)])
        found, ends = list[tuple[int, str, Any]](), 0
        while ends < PARTITIONS:
            message = consumer.poll(10)
            assert message is not None
            if message.error():
                ends += 1
                continue
            partition, key, value = message.partition(), message.key(), message.value()
            assert partition is not None
            assert key is not None
            found.append((partition, key.decode(), None if value is None else json.loads(value)))
        consumer.close()
        return found

    def close(self) -> None:
        for writer in self._opened:
            writer.close()


@pytest.fixture(scope="module")
def granted(services: Services) -> Services:
    """A broker that knows the roles' rights to TOPICS: it answers before it goes by them."""
    services.kafka  # noqa: B018
    broker.provision(services.stack.context, [], TOPICS)
    last = Topic(TOPICS[-1], PARTITIONS, 1, COMPACTED)

    def provisioned() -> bool:
        try:
            BrokerTopics(KafkaAdmin(services.stack.platform("airflow").kafka)).provision(last)
        except Refused:
            return False
        return True

    wait_until("the rights", provisioned, 60, 0.1)
    return services


@pytest.fixture
def place(granted: Services) -> Iterator[StreamPosition]:
    made = StreamPosition(granted)
    made.provision()
    yield made
    made.close()


def batch(number: int, hits: dict[str, int]) -> Callable[[], Iterator[Record]]:
    """The records of a batch: zipcode -> count."""

    def records() -> Iterator[Record]:
        for zipcode, hit_count in hits.items():
            value = {"zipcode": zipcode, "hits": hit_count, "version": number}
            yield len(zipcode) % PARTITIONS, zipcode.encode(), json.dumps(value).encode()

    return records


def many(number: int, size: int = 5000) -> dict[str, int]:
    return {f"{zipcode:05d}": number * 10 + zipcode for zipcode in range(size)}


def test_a_batch_that_is_there_is_not_written_again(place: StreamPosition) -> None:
    first = place.writer(3)
    assert (place.last(), place.counts()) == (None, {})
    assert [
        first.write_records(0, batch(0, {"a": 1, "bb": 2})),
        first.write_records(1, batch(1, {"a": 5})),
    ] == [True, True]
    assert not first.write_records(1, batch(1, {"a": 999}))
    second = place.writer()
    assert (second.open(7), second.open(8)) == (1, 1)
    assert not second.write_records(1, batch(1, {"a": 999}))
    assert second.write_records(2, batch(2, {})), "a batch without rows is a batch"
    assert place.counts() == {"a": 5, "bb": 2}
    assert place.results()["a"] == Result({"hits": 5}, 1)
    assert (place.last(), len(place.records())) == (2, 3)


def test_an_earlier_writer_writes_nothing_and_does_not_come_back(place: StreamPosition) -> None:
    zombie, successor = place.writer(1), place.writer(2)
    with raising(Fenced, place.topic, "writer epoch 1, newer epoch 2"):
        zombie.write_records(0, batch(0, {"a": 666}))
    with pytest.raises(Fenced):
        zombie.open(1)
    # Kafka was not asked for the id by the zombie's second coming: its successor is not even disturbed.
    assert successor.write_records(0, batch(0, {"a": 1}))
    assert successor.asked.count("init_transactions") == 1
    assert place.counts() == {"a": 1}


def test_who_saw_no_later_writer_and_asked_for_the_id_behind_one_gives_up(place: StreamPosition) -> None:
    zombie, successor = place.writer(), place.writer()
    zombie.after["committed_batch"] = lambda: successor.open(2)
    with raising(Fenced, "writer epoch 1, newer epoch 2"):
        zombie.open(1)
    assert successor.write_records(0, batch(0, {"a": 1})), "though the zombie put it out"
    assert place.counts() == {"a": 1}


def test_a_writer_whom_an_earlier_one_put_out_comes_back(place: StreamPosition) -> None:
    """Two start at once: the earlier one asks Kafka for the id last, having seen no later epoch."""
    writer = place.writer(2)
    late = Producer(
        {
            **librdkafka(place.writes),
            "transactional.id": committed_batch.transactional_id(STREAM, QUERY, place.topic),
            "log_level": 0,
        }
    )
    late.init_transactions(10)
    assert writer.write_records(0, batch(0, {"a": 1}))
    assert (place.counts(), place.last()) == ({"a": 1}, 0)


def test_a_zombie_that_stands_still_in_its_transaction_is_ended(place: StreamPosition) -> None:
    zombie = place.writer(1)
    zombie.write_records(0, batch(0, many(0)))
    seen: list[Any] = []

    def half() -> Iterator[Record]:
        yield from batch(1, many(1))()
        zombie.flush()
        # It sleeps here, and another writer acquires the lease.
        successor = place.writer()
        seen.append(successor.open(2))
        seen.append(successor.write_records(1, batch(1, many(2))))
        yield from batch(1, {"bb": 666})()

    with raising(Fenced, "newer epoch 2"):
        zombie.write_records(1, half)
    assert seen == [0, True]
    assert (place.counts(), place.last()) == (many(2), 1)


DIES = """
import sys, threading, time
from sluice.config import platform
from sluice.config.sections.query import Query
from sluice.config.sections.sink import Sink
from spark_jobs.common.sinks.base import Target
from spark_jobs.common.sinks.transactions import Transactions
topic, when = sys.argv[1:]

class Dying(Transactions):
    def _ask(self, request):
        # After the mark was sent along, before the commit.
        if when == "uncommitted" and self.epoch and getattr(request, "__name__", "") == "commit_transaction":
            if entered:
                print("there", flush=True)
                time.sleep(60)
        return super()._ask(request)

entered = []
sink = Sink("kafka", topic=topic, partitions=2)
query = Query([sink], ["zipcode"], {"hits": "count"})
target = Target("hits", "zipcodes", query, sink, threading.Event())
writer = Dying(target, platform.load("consumer").kafka)
writer.open(2)
entered.append(True)

def records():
    for zipcode in range(3000):
        result = b'{"zipcode": "%05d", "hits": 666, "version": 1}' % zipcode
        yield zipcode % 2, b"%05d" % zipcode, result if zipcode % 3 else None
    if when == "half":
        writer._producer.flush(10)
        print("there", flush=True)
        time.sleep(60)

writer.write_records(1, records)
"""


@pytest.mark.parametrize("when", [pytest.param("half", marks=pytest.mark.exhaustive), "uncommitted"])
def test_a_process_is_killed_within_a_transaction(place: StreamPosition, when: str) -> None:
    """Also one that removes results."""
    place.writer(1).write_records(0, batch(0, many(0)))
    process = subprocess.Popen(
        [sys.executable, "-c", DIES, place.topic, when],
        stdout=subprocess.PIPE,
        env={
            "PYTHONPATH": "plugins:.",
            "SLUICE_PLATFORM_DIR": str(place.services.stack.home.platform),
        },
        cwd=Path(__file__).resolve().parents[2],
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"there\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        process.stdout.close()
    if when == "uncommitted":
        with raising(Unreachable, "transaction"):
            place.results(seconds=1)
    successor = place.writer()
    assert successor.open(3) == 0
    assert place.counts() == many(0)
    successor.write_records(1, batch(1, many(1)))
    assert (place.counts(), place.last()) == (many(1), 1)


def test_the_broker_dies_in_a_batch_and_comes_back(place: StreamPosition) -> None:
    writer = place.writer(1, stall_timeout_seconds=60)
    writer.write_records(0, batch(0, many(0)))
    crashes = [0.0]

    def records() -> Iterator[Record]:
        for number, record in enumerate(batch(1, many(1))()):
            yield record
            if number == 2500 and crashes:
                place.services.crash("kafka", crashes.pop())

    assert writer.write_records(1, records)
    assert (place.counts(), place.last()) == (many(1), 1)


def test_a_commit_whose_answer_is_lost_is_found_to_be_there(place: StreamPosition) -> None:
    writer = place.writer(1)

    def lose() -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL, "data lost"))

    writer.after["commit_transaction"] = lose
    assert writer.write_records(0, batch(0, {"a": 1}))
    assert not writer.after, "it was lost"
    assert [key for _, key, _ in place.records()] == ["a"], "once"


def test_who_waits_for_kafka_gives_up_after_its_stall_timeout_or_when_asked_to_stop(
    place: StreamPosition, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    for module in (query_topic, transactions):
        monkeypatch.setattr(module, "REQUEST_SECONDS", 0.3)
    place.writes = Kafka("127.0.0.1:1", password="hidden-secret")
    with raising(SinkWriteFailed, "hits zipcodes", place.topic, "127.0.0.1:1") as gave_up:
        place.writer(stall_timeout_seconds=0.5).open(1)
    threading.Timer(0.5, place.stop.set).start()
    with raising(SinkWriteFailed, "asked to stop"):
        place.writer(stall_timeout_seconds=1000).open(1)
    assert len(caplog.messages) == 2, "one line a streak"
    assert "hidden-secret" not in caplog.text + str(gave_up.value)


def test_a_refused_login_is_told_and_no_password(place: StreamPosition) -> None:
    good = place.writes
    place.writes = Kafka(
        good.bootstrap_servers, good.security_protocol, good.sasl_mechanism, good.username, "wrong-password"
    )
    with raising(LoginRefused, "uthentication") as refused:
        place.writer().open(1)
    assert "wrong-password" not in str(refused.value)


def test_what_the_role_may_not_write_is_refused_at_once(place: StreamPosition) -> None:
    place.writes = place.services.stack.platform("reader").kafka
    with raising(SinkWriteFailed, place.topic, "rights"):
        place.writer().open(1)


def test_a_missing_topic_names_the_step_that_makes_it_and_is_not_made(granted: Services) -> None:
    nowhere = StreamPosition(granted)
    with raising(SinkWriteFailed, nowhere.topic, "not exist", "provision_sinks"):
        nowhere.writer().open(1)
    with raising(Missing, nowhere.topic, "provision_sinks"):
        nowhere.results()
    admin = AdminClient({**granted.kafka, "log_level": 0})
    assert nowhere.topic not in admin.list_topics(timeout=10).topics
    BrokerTopics(KafkaAdmin(nowhere.reads)).provision(Topic(nowhere.topic, PARTITIONS - 1, 1, COMPACTED))
    with raising(SinkWriteFailed, nowhere.topic, "1 partitions", "2 are declared", "provision_sinks"):
        nowhere.writer().open(1)


def test_an_offset_that_expired_is_read_from_the_records(place: StreamPosition) -> None:
    writer = place.writer(1)
    for number in range(3):
        writer.write_records(number, batch(number, {"a": number, "bb": number}))
    # Behind the last record: a transaction that was aborted, longer than what is looked at first.
    with pytest.raises(ZeroDivisionError):
        writer.write_records(3, failing(3))
    writer.close()
    forget_batch(place)
    assert place.last() is None
    assert place.writer().open(2) == 2
    assert place.last() == 2, "and it is marked again"


def failing(number: int) -> Callable[[], Iterator[Record]]:
    def records() -> Iterator[Record]:
        yield from batch(number, many(number, 1000))()
        raise ZeroDivisionError

    return records


def test_a_topic_that_is_recreated_under_its_writer_takes_no_later_batch(place: StreamPosition) -> None:
    """It would have the next batch alone, and the marker of all before."""
    writer = place.writer(1)
    for number in range(2):
        writer.write_records(number, batch(number, {"a": number, "bb": number}))
    admin = AdminClient({**place.services.kafka, "log_level": 0})
    admin.delete_topics([place.topic])[place.topic].result(20)
    wait_until("the deletion", lambda: place.topic not in admin.list_topics(timeout=10).topics, 20, 0.1)
    place.provision()
    with raising(SinkWriteFailed, place.topic, "last batch is -1", "batch 1"):
        writer.write_records(2, batch(2, {"a": 2}))
    assert place.counts() == {}
    assert place.writer().open(2) is None, "so the query is rebuilt"


def test_rows_that_fail_half_way_leave_nothing(place: StreamPosition) -> None:
    writer = place.writer(1)
    with pytest.raises(ZeroDivisionError):
        writer.write_records(0, failing(0))
    assert (place.counts(), place.last()) == ({}, None)
    assert writer.write_records(0, batch(0, {"a": 1}))
    assert place.counts() == {"a": 1}


def test_duplicates_disorder_and_compaction_change_no_count(granted: Services) -> None:
    place = StreamPosition(granted)
    place.provision({"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100"})
    admin = AdminClient({**granted.kafka, "log_level": 0})
    hurry = ConfigEntry("log.cleaner.backoff.ms", "200", incremental_operation=AlterConfigOpType.SET)
    cleaner = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[hurry])
    for future in admin.incremental_alter_configs([cleaner]).values():
        future.result(20)
    writer = place.writer(1)
    for number in range(6):
        writer.write_records(number, batch(number, many(number, 200)))
        time.sleep(0.15)
    # Sent by hand, as by a person who repairs: an old version once more, behind the newest, and elsewhere.
    producer = Producer({**granted.kafka, "log_level": 0})
    for partition in range(PARTITIONS):
        for old in (2, 5, 0):
            for _, key, value in batch(old, {"00007": old * 10 + 7})():
                producer.produce(place.topic, value, key, partition)
    assert producer.flush(30) == 0
    assert place.counts() == many(5, 200)
    wait_until("compaction", lambda: len(place.records()) <= 1000, 60, 0.1)
    # Compaction keeps a key's last record of a partition, which here is an old one: the other remembers.
    assert {key: hits for key, hits in place.counts().items() if key != "00007"} == {
        key: hits for key, hits in many(5, 200).items() if key != "00007"
    }
    place.close()


def test_what_is_no_result_is_named_by_its_place(place: StreamPosition) -> None:
    """What else is none: tests/unit/clients/kafka/test_newest_results.py."""
    producer = Producer({**place.services.kafka, "log_level": 0})
    producer.produce(place.topic, b'{"zipcode":"a","hits":1,"version":0}', b"a", 1)
    producer.produce(place.topic, b"no json", b"a", 1)
    assert producer.flush(30) == 0
    with raising(Refused, "partition 1, offset 1", "JSONDecodeError"):
        place.results()


def sink(place: StreamPosition, declared: Query, name: str) -> KafkaSink:
    return KafkaSink(place.target(name, declared), place.writes)


def windows(spark: SparkSession, rows: list[tuple[str | None, datetime, date, int]]) -> DataFrame:
    # Without Python's workers, which take seconds to start.
    columns = ("zipcode", "window_start", "day", "hits")
    given = json.dumps(
        [dict(zip(columns, row, strict=True)) for row in rows], default=lambda at: at.isoformat()
    )
    struct = "struct<zipcode string, window_start timestamp, day date, hits bigint>"
    return spark.sql(f"select inline(from_json(:rows, 'array<{struct}>'))", args={"rows": given})


def test_update_and_complete_give_a_reader_the_same_counts(
    spark: SparkSession, granted: Services, configure: Callable[[dict[str, str]], None]
) -> None:
    # Europe's clocks went back in this night: a moment must not be written as the session's time zone has it.
    configure({"spark.sql.session.timeZone": "Europe/Berlin"})
    starts = [datetime(2026, 10, 25, hour, 2, tzinfo=UTC) for hour in range(8)]
    day = date(2026, 10, 25)
    keys = [*(("10115", start) for start in starts), ("a|b\\c", starts[2]), ("żółć", starts[0])]
    totals = dict.fromkeys([*keys, (None, starts[1])], 0)
    versions = dict.fromkeys(totals, 0)
    complete, update = StreamPosition(granted), StreamPosition(granted)
    sinks = []
    for made, mode in ((complete, "complete"), (update, "update")):
        made.provision()
        declared = Query(
            sinks=[Sink("kafka", topic=made.topic, partitions=PARTITIONS)],
            group_by=["zipcode", "day"],
            event_time="hittime",
            window=TimeWindow(60, 60),
            aggregates={"hits": "count"},
            mode=mode,
        )
        sinks.append(sink(made, declared, mode))
        assert sinks[-1].name == f"kafka {made.topic}"
        sinks[-1].open(1)
    for number in range(3):
        changed = list(totals)[number::2]
        for key in changed:
            totals[key] += number + 1
            versions[key] = number
        whole = [(zipcode, start, day, hits) for (zipcode, start), hits in totals.items()]
        some = [row for row in whole if (row[0], row[1]) in changed]
        assert sinks[0].write(number, windows(spark, whole))
        assert sinks[1].write(number, windows(spark, some))
        assert not sinks[1].write(number, windows(spark, some))
    expected = {key_text([zipcode, day, start]): hits for (zipcode, start), hits in totals.items()}
    for made in (complete, update):
        found = kafka_reader.read(made.reads, made.topic, ["zipcode", "day", "window_start"])
        assert {key: result.aggregates["hits"] for key, result in found.items()} == expected
        assert {key: result.version for key, result in found.items()} == {
            key_text([zipcode, day, start]): version if made is update else 2
            for (zipcode, start), version in versions.items()
        }
        partitions = {(value["zipcode"], partition) for partition, _, value in made.records()}
        assert len(partitions) == len({zipcode for zipcode, _ in partitions}), "a zipcode is in one partition"
    assert len(complete.records()) == 3 * len(totals)
    # The 1st, 3rd, … of eleven, the 2nd, 4th, …, and the 3rd, 5th, …
    assert len(update.records()) == 6 + 5 + 5
    for written in sinks:
        written.close()


def test_a_whole_result_removes_all_other_keys(spark: SparkSession, place: StreamPosition) -> None:
    declared = Query(
        [Sink("kafka", topic=place.topic, partitions=PARTITIONS)], ["zipcode"], {"hits": "count"}
    )
    zombie, written = sink(place, declared, QUERY), sink(place, declared, QUERY)
    zombie.open(1)
    assert zombie.write(0, hits(spark, {f"{n:03}": n for n in range(300)}), is_whole=True)
    assert zombie.write(1, hits(spark, {"007": 70}))
    where = {key: partition for partition, key, _ in place.records()}
    assert written.open(2) == 1
    # Half of it, as of a process that is killed: nothing is there, and what is read next is not what it sent.
    with pytest.raises(ZeroDivisionError):
        written.write_records(2, removing("007", failing(2)))
    assert place.counts()["007"] == 70
    before = len(place.records())
    assert written.write(2, hits(spark, {"007": 71, "żółć": 1}), is_whole=True)
    assert place.counts() == {"007": 71, "żółć": 1}
    sent = place.records()
    gone = {key: partition for partition, key, value in sent if value is None}
    assert gone == {key: partition for key, partition in where.items() if key != "007"}, "each where it was"
    assert len(sent) == before + len(gone) + 2, "once"
    with raising(Fenced, "newer epoch 2"):
        zombie.write(3, hits(spark, {}), is_whole=True)
    assert not written.write(2, hits(spark, {}), is_whole=True)
    assert written.write(3, hits(spark, {"żółć": 2}), is_whole=True)
    assert len([value for _, _, value in place.records() if value is None]) == len(gone) + 1, (
        "only of results"
    )
    assert written.write(4, hits(spark, {"000": 5})), "a group may come back"
    assert place.counts() == {"000": 5, "żółć": 2}
    assert written.write(5, hits(spark, {}), is_whole=True)
    assert (place.counts(), place.last()) == ({}, 5)
    for one in (zombie, written):
        one.close()
    forget_batch(place)
    assert place.writer().open(3) == 5, "as the tombstones say"


def hits(spark: SparkSession, counts: dict[str, int]) -> DataFrame:
    made = "select key zipcode, value hits from explode(from_json(:hits, 'map<string, bigint>'))"
    return spark.sql(made, args={"hits": json.dumps(counts)})


def removing(key: str, rest: Callable[[], Iterator[Record]]) -> Callable[[], Iterator[Record]]:
    def records() -> Iterator[Record]:
        for partition in range(PARTITIONS):
            yield partition, key.encode(), None
        yield from rest()

    return records


def forget_batch(place: StreamPosition) -> None:
    """The group's offset expires."""
    group = committed_batch.group(STREAM, QUERY)
    admin = AdminClient({**place.services.kafka, "log_level": 0})
    admin.delete_consumer_groups([group])[group].result(20)
