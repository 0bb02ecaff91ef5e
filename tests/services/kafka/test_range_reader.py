"""The reader of exact ranges on three brokers: as librdkafka reads, whatever is committed, aborted,
compacted, deleted, killed or created again meanwhile."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from local.stack.stack import wait_until
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.fetching import LogTruncated, OffsetsDeleted, TransactionOpen
from sluice.clients.kafka.log.range_reader import Epochs, RangeReader
from sluice.core.error_codes import ErrorCode, code_of
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.offsets.ranges import IntervalSet
from sluice.core.record_batches.account import Account, OffsetsMissing
from tests.support.kafka_cluster import KafkaCluster
from tests.support.raising import raising

Headers = list[tuple[str, bytes | None]]
Row = tuple[int, int, bytes | None, bytes | None, Headers]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    made = KafkaCluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()


@pytest.fixture
def brokers(cluster: KafkaCluster) -> Iterator[Brokers]:
    with Brokers(cluster.kafka) as made:
        yield made


def span(begin: int, end: int) -> IntervalSet:
    return IntervalSet.of([(begin, end)])


def reader(brokers: Brokers, topic: str, **limits: Any) -> RangeReader:
    return RangeReader(brokers, topic, brokers.describe(topic).id, **limits)


def rows(reader: RangeReader, begin: int, end: int, partition: int = 0) -> tuple[list[Row], Account]:
    read = reader.read(partition, span(begin, end))
    found: list[Row] = []
    for piece in read:
        times = piece.column("timestamp").cast("int64").to_pylist()
        for row, at in zip(piece.drop_columns("timestamp").to_pylist(), times, strict=True):
            headers = [(header["key"].decode(), header["value"]) for header in row["headers"]]
            found.append((row["offset"], at, row["key"], row["value"], headers))
    return found, read.account


def reference(cluster: KafkaCluster, topic: str, partition: int = 0) -> tuple[dict[int, Row], int]:
    """What librdkafka reads, committed, and the log's end."""
    settings = {"group.id": "reference", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({**cluster.config, **settings, "auto.offset.reset": "earliest"})
    begin, end = consumer.get_watermark_offsets(TopicPartition(topic, partition))
    consumer.assign([TopicPartition(topic, partition, begin)])
    found: dict[int, Row] = {}
    while True:
        for message in consumer.consume(1_000, 5):
            if message.error():
                consumer.close()
                return found, end
            at = cast("int", message.offset())
            found[at] = (
                at,
                message.timestamp()[1],
                message.key(),
                message.value(),
                list(cast("Headers", message.headers() or ())),
            )


def send(cluster: KafkaCluster, topic: str, values: list[bytes], **settings: Any) -> None:
    producer = Producer({**cluster.config, "linger.ms": 1, **settings})
    for value in values:
        producer.produce(topic, value, key=value[:3])
        producer.poll(0)
    assert producer.flush(60) == 0


def test_transactions_in_every_codec_are_read_as_librdkafka_reads_them(
    cluster: KafkaCluster, brokers: Brokers
) -> None:
    topic, chance = "transactions", random.Random(1)  # noqa: S311
    cluster.make_topic(topic)
    writing = [
        Producer(
            {**cluster.config, "transactional.id": f"t-{codec}", "compression.type": codec, "linger.ms": 1}
        )
        for codec in CODECS
    ]
    for producer in writing:
        producer.init_transactions()
    plain = Producer({**cluster.config, "compression.type": "snappy"})
    for turn in range(15):
        live = chance.sample(writing, 3)
        for producer in live:
            producer.begin_transaction()
        for number in range(chance.randrange(1, 120)):
            producer = chance.choice([*live, plain])
            headers: Any = [("h", b"x" * chance.randrange(200)), ("n", None)]
            producer.produce(
                topic,
                b"v%d-%d" % (turn, number) * chance.randrange(1, 9) if chance.random() > 0.05 else None,
                key=b"k%d" % number if chance.random() > 0.1 else None,
                headers=headers if chance.random() < 0.3 else None,
            )
            if chance.random() < 0.1:
                producer.flush()
        plain.flush()
        for producer in live:
            producer.flush()
            if chance.random() < 0.5:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    wanted, end = reference(cluster, topic)
    for size in (1 << 20, 3_000, 700):
        cuts, found = [0, end // 3, end // 2 + 7, end], []
        counts = {"records": 0, "control": 0, "aborted": 0}
        for begin, until in pairwise(cuts):
            part, account = rows(reader(brokers, topic, fetch_bytes=size), begin, until)
            found += part
            assert not account.absent
            for name in counts:
                counts[name] += getattr(account, name).count
        assert {row[0]: row for row in found} == wanted
        assert len(found) == len(wanted) == counts["records"]
        assert sum(counts.values()) == end
        assert min(counts.values()) > 10


def test_an_open_transaction_is_named_and_its_end_is_waited_for(
    cluster: KafkaCluster, brokers: Brokers
) -> None:
    topic = "hanging"
    cluster.make_topic(topic)
    send(cluster, topic, [b"before"])
    producer = Producer({**cluster.config, "transactional.id": "hangs"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"within")
    producer.flush()
    with raising(TransactionOpen, "at or before offset 1 is open", "find-hanging"):
        rows(reader(brokers, topic, patience=1), 0, 2)
    producer.abort_transaction()
    found, account = rows(reader(brokers, topic, patience=30), 0, 3)
    assert [row[3] for row in found] == [b"before"]
    assert (str(account.aborted), str(account.control)) == ("[1,2)", "[2,3)")


def test_a_compacted_topic_and_one_that_is_not(cluster: KafkaCluster, brokers: Brokers) -> None:
    topic = "compacted"
    quick = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100"}
    cluster.make_topic(topic, {"cleanup.policy": "compact", **quick, "max.compaction.lag.ms": "100"})
    for _ in range(5):
        send(cluster, topic, [b"a%d" % n for n in range(3)] * 20)
        time.sleep(0.2)
    deadline = time.monotonic() + 60
    while len(reference(cluster, topic)[0]) >= 200 and time.monotonic() < deadline:
        # The cleaner leaves the segment that is written to.
        send(cluster, topic, [b"a9"])
        time.sleep(1)
    wanted, end = reference(cluster, topic)
    found, account = rows(reader(brokers, topic), 0, end)
    assert {row[0]: row for row in found}.keys() <= wanted.keys(), "the cleaner may have gone on"
    assert account.records.count + account.absent.count == end
    assert account.absent.count > 90
    assert account.evidence.startswith("compacted: cleanup.policy=compact, observed ")
    # The same log without what explains it.
    cluster.configure(topic, {"cleanup.policy": "delete"})
    with raising(OffsetsMissing, "are not there", "cleanup.policy=delete"):
        rows(reader(brokers, topic), 0, end)


def test_deleted_offsets_and_offsets_behind_the_end(cluster: KafkaCluster, brokers: Brokers) -> None:
    topic = "shortened"
    cluster.make_topic(topic)
    send(cluster, topic, [b"%d" % n for n in range(20)])
    (future,) = cluster.admin.delete_records([TopicPartition(topic, 0, 7)]).values()
    future.result(30)
    with raising(OffsetsDeleted, "offset 3 was deleted, the log begins at 7") as caught:
        rows(reader(brokers, topic), 3, 20)
    assert caught.value.first == 7
    assert len(rows(reader(brokers, topic), 7, 20)[0]) == 13
    with raising(LogTruncated, "offset 30 is behind the log's end 20"):
        rows(reader(brokers, topic), 30, 31)
    with raising(Unreachable, "nothing came from offset 20 on"):
        rows(reader(brokers, topic, patience=1), 15, 21)


def test_a_topic_that_is_created_again_under_the_reader(cluster: KafkaCluster, brokers: Brokers) -> None:
    topic = "again"
    cluster.make_topic(topic)
    send(cluster, topic, [b"%d" % n * 500 for n in range(100)])
    old = reader(brokers, topic, fetch_bytes=10_000)
    read = iter(old.read(0, span(0, 100)))
    next(read)
    cluster.delete_topic(topic)
    cluster.make_topic(topic)
    send(cluster, topic, [b"other"] * 200)
    with raising(Refused, "was created again") as caught:
        list(read)
    assert code_of(caught.value) is ErrorCode.HEALTH_TOPIC_RECREATED
    with raising(Refused, "was created again"):
        rows(old, 0, 1)
    with raising(Missing, "'nowhere' does not exist"):
        reader(brokers, "nowhere")


def test_a_topics_id_is_written_as_librdkafka_writes_it(cluster: KafkaCluster, brokers: Brokers) -> None:
    """Half of all ids are the same in both alphabets of base64, so one topic shows nothing."""
    admin, ids = KafkaAdmin(cluster.kafka), list[str]()
    while len(ids) < 5 or not {"+", "/"} & set("".join(ids)):
        topic = f"id_{len(ids)}"
        cluster.make_topic(topic)
        ids.append(admin.describe(topic).id)
        assert brokers.describe(topic).id == ids[-1]


def test_leaders_move_and_brokers_die_in_the_middle(cluster: KafkaCluster, brokers: Brokers) -> None:
    topic = "moving"
    cluster.make_topic(topic, partitions=3)
    values = [b"%06d" % n * 40 for n in range(6_000)]
    for partition in range(3):
        # In many batches, so that the range is many pieces.
        producer = Producer({**cluster.config, "linger.ms": 1, "acks": "all", "batch.size": 20_000})
        for value in values:
            producer.produce(topic, value, partition=partition)
            producer.poll(0)
        assert producer.flush(60) == 0
    victim = cluster.leaders(topic)[0]
    reading = reader(brokers, topic, fetch_bytes=20_000, patience=90)
    for partition in range(3):
        read = reading.read(partition, span(0, len(values)))
        found: list[bytes] = []
        for number, piece in enumerate(read):
            found += piece.column("value").to_pylist()
            if partition == 0 and number == 3:
                cluster.kill(victim)
        assert found == values
        assert read.account.records.count == len(values)
    cluster.restart(victim)
    assert len(rows(reading, 0, 100)[0]) == 100


def test_a_leader_that_hangs_is_given_up_for_the_next(cluster: KafkaCluster) -> None:
    topic = "hung"
    cluster.make_topic(topic)
    values = [b"%06d" % n * 40 for n in range(2_000)]
    send(cluster, topic, values, acks="all")
    leader = cluster.leaders(topic)[0]
    with Brokers(cluster.kafka, request_seconds=3) as brokers:
        read = iter(reader(brokers, topic, fetch_bytes=20_000).read(0, span(0, len(values))))
        found: list[bytes] = next(read).column("value").to_pylist()
        cluster.signal(leader, signal.SIGSTOP)
        try:
            for piece in read:
                found += piece.column("value").to_pylist()
        finally:
            cluster.signal(leader, signal.SIGCONT)
    assert found == values
    wait_until("the hung one to follow", lambda: cluster.in_sync(topic) == {1, 2, 3}, 120, 0.2)


def test_a_reader_over_its_quota_is_slowed_and_not_failed(cluster: KafkaCluster, brokers: Brokers) -> None:
    topic = "throttled"
    cluster.make_topic(topic)
    values = [chance.randbytes(1_000) for chance in [random.Random(1)] for _ in range(600)]  # noqa: S311
    # A batch that is larger than what the quota allows in its window never passes.
    send(cluster, topic, values, **{"batch.size": 20_000})
    cluster.limit_reading(40_000)
    try:
        began = time.monotonic()
        found, _ = rows(reader(brokers, topic, fetch_bytes=50_000), 0, len(values))
        assert time.monotonic() - began > 1.5, "it was throttled"
    finally:
        cluster.limit_reading(None)
    assert [row[3] for row in found] == values


# Two brokers die, and one is elected: half a minute at best.
@pytest.mark.exhaustive
def test_a_log_that_was_truncated_under_the_same_id(cluster: KafkaCluster) -> None:
    """A broker that had not all records was elected: offsets are there again, with others' records."""
    topic = "truncated"
    config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    cluster.make_topic(topic, config, assignment=[[1, 2]])
    # One that a test before has stopped may not follow yet.
    wait_until("both in sync", lambda: cluster.in_sync(topic) == {1, 2}, 120, 0.2)
    leader = cluster.leaders(topic)[0]
    behind = 3 - leader
    send(cluster, topic, [b"both %d" % n for n in range(10)], acks="all")
    cluster.kill(behind)
    wait_until("the leader alone", lambda: cluster.in_sync(topic) == {leader}, 120, 0.2)
    send(cluster, topic, [b"lost %d" % n for n in range(10)], acks="1")
    with Brokers(cluster.kafka) as brokers:
        _, before = rows(reader(brokers, topic), 0, 20)
    cluster.kill(leader)
    cluster.restart(behind)
    wait_until("the other to lead", lambda: cluster.elect_uncleanly(topic).get(0) == behind, 120, 1)
    send(cluster, topic, [b"other %d" % n for n in range(15)], acks="1")
    with Brokers(cluster.kafka) as brokers:
        reading = reader(brokers, topic)
        # By its offsets alone nothing is wrong.
        assert len(rows(reading, 20, 25)[0]) == 5
        assert before.leader_epoch is not None
        planned = Epochs(highest=before.leader_epoch)
        with raising(LogTruncated, "offset 10 was there under leader epoch"):
            list(reading.read(0, span(5, 20), planned))
        with raising(LogTruncated, f"epoch {before.leader_epoch}", "ends at 10"):
            list(reading.read(0, span(20, 25), Epochs(before.leader_epoch)))
    cluster.restart(leader)
    wait_until("both in sync again", lambda: cluster.in_sync(topic) == {1, 2}, 120, 0.2)


def test_the_brokers_time_of_append(cluster: KafkaCluster, brokers: Brokers) -> None:
    topic = "appended"
    cluster.make_topic(topic, {"message.timestamp.type": "LogAppendTime"})
    began = int(time.time() * 1000)
    producer = Producer(cluster.config)
    producer.produce(topic, b"v", timestamp=1_000)
    assert producer.flush(30) == 0
    (piece,) = reader(brokers, topic).read(0, span(0, 1))
    (at,) = piece.column("timestamp").cast("int64").to_pylist()
    assert began - 5_000 <= at <= time.time() * 1000
    assert piece.column("timestamp_type").to_pylist() == [1]


def test_a_wrong_login_is_said_at_once(cluster: KafkaCluster) -> None:
    began = time.monotonic()
    with raising(Refused, "refuses the login", "Fix: correct the login, in [kafka]") as caught:
        Brokers(replace(cluster.kafka, password="wrong"), seconds=60)
    assert code_of(caught.value) is ErrorCode.KAFKA_LOGIN
    # Not at the end of its patience, however busy the machine is.
    assert time.monotonic() - began < 30
    with raising(Unreachable, "no broker of 127.0.0.1:1 answered"):
        Brokers(replace(cluster.kafka, bootstrap_servers="127.0.0.1:1"), seconds=1)
