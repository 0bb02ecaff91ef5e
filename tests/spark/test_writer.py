"""The writer of a stream on real services: Kafka, a bucket, a catalog. Supervision is left out."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from confluent_kafka import KafkaError, Producer

from local.stack.stack import wait_until
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.broker_topics import BrokerTopics
from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.batches import BatchLog
from sluice.loads.sending.topic import with_timestamp_bounds
from spark_jobs.common.consumer import run
from spark_jobs.common.consumer import writer as writer_module
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.kafka import offsets
from spark_jobs.common.kafka.offsets import RENEW_SECONDS
from spark_jobs.common.lake import clock, writer_lease
from spark_jobs.common.lake.clock import now_ms
from spark_jobs.common.lake.iceberg import HOUR_MS, MAIN, IcebergTable, StagedSnapshot
from spark_jobs.common.lake.writer_lease import ConcurrentCommit
from spark_jobs.common.spark.failures import Fenced, Unrecoverable
from tests.support.lakehouse import Stream, commit
from tests.support.services import Services

ON_REST_CATALOG = {
    "test_a_publish_that_raced_with_a_commit_to_another_branch_is_tried_again",
}


class Asked(offsets.Topic):
    """A topic that does something before each answer of its id."""

    def __init__(self, kafka: Kafka, name: str, do: Callable[[], None]) -> None:
        super().__init__(kafka, name)
        self._do = do

    def id(self) -> str:
        self._do()
        return super().id()


def before_publishing(writer: StreamWriter, stream: Stream, do: Callable[[], None]) -> None:
    """Between a batch's append and its publishing: where the writer asks for the topic's id."""
    writer.topic = Asked(stream.platform.kafka, stream.spec.topic.name, do)


def test_snapshots_say_whose_topic_which_batch_and_when_and_the_group_follows(stream: Stream) -> None:
    stream.send(3)
    began = time.time()
    running = stream.run(stream.writer())
    assert stream.group() == {0: 3, 1: 3}
    stream.send(2)
    running.query.processAllAvailable()
    # What is sent meanwhile may come in more batches than one.
    *later, first, epoch_start = stream.summaries()
    batches = [first, *reversed(later)]
    assert epoch_start["kind"] == "epoch-start"
    assert {s["kind"] for s in batches} == {"batch"}
    assert len(batches) >= 2
    topic_id = offsets.Topic(stream.platform.kafka, stream.spec.topic.name).id()
    assert {s["topic-id"] for s in (epoch_start, *batches)} == {topic_id}
    assert len({s["writer"] for s in (epoch_start, *batches)}) == 1
    assert [s.get("batch-id") for s in (epoch_start, *batches)] == [None, *map(str, range(len(batches)))]
    assert "started-at" not in epoch_start
    assert (
        began * 1000 - 1 <= int(first["started-at"]) <= int(batches[-1]["started-at"]) <= time.time() * 1000
    )
    assert stream.group() == {0: 5, 1: 5}
    stream.assert_exact(5)


def test_of_two_jobs_that_send_an_object_at_once_each_row_is_published_once(stream: Stream) -> None:
    """A load's and a backfill's: they are two DAGs, and each had read the topic before the other one sent."""
    source, rows = "a" * 16, range(6)
    producer = Producer({**stream.services.kafka, "linger.ms": 5, "log_level": 0})

    def send(sequences: Sequence[int]) -> None:
        for partition in range(2):
            for sequence in sequences:
                key = f"{source}:{2 * sequence + partition}:{sequence}"
                producer.produce(stream.spec.topic.name, b"text", key.encode(), partition=partition)
        assert producer.flush(30) == 0

    # Side by side; then one of them is done, and the other one's copies come in a later batch.
    send([0, 0, 1, 2, 1, 3, 4, 2, 5])
    running = stream.run(stream.writer())
    send([3, 4, 5])
    running.query.processAllAvailable()
    table, quarantine = (
        stream.spark.table(f"{CATALOG}.{name}") for name in (stream.spec.table, stream.spec.quarantine_table)
    )
    published = sorted(row["_source_row"] for row in table.collect())
    assert published == sorted(2 * sequence + partition for partition in range(2) for sequence in rows)
    copies = quarantine.collect()
    assert len(copies) == 2 * len(rows)
    assert all(row["reason"].startswith("duplicate:") for row in copies)
    assert {row["_source_id"] for row in copies} == {source}


def test_a_small_batch_is_one_file_and_a_large_one_a_file_per_partition(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = list[int]()
    for small_batch in (6, 5):
        monkeypatch.setattr(writer_module, "SMALL_BATCH", small_batch)
        stream.send(3)
        writer = stream.writer()
        stream.run(writer).query.stop()
        files.append(len(writer.table.added_paths(writer.published)))
    assert files == [1, 2]
    stream.assert_exact(6)


def test_a_failover_tells_the_group_where_the_stream_stands(stream: Stream) -> None:
    stream.writer().acquire()
    assert stream.group() == {0: 0, 1: 0}


def test_a_topic_that_is_recreated_under_a_batch_publishes_nothing_of_it(stream: Stream) -> None:
    stream.send(3)
    writer = stream.writer()
    running = stream.run(writer)
    before_publishing(writer, stream, stream.recreate_the_topic)
    stream.send(4)
    with pytest.raises(Unrecoverable, match=rf"'{stream.spec.topic.name}' .*recreated"):
        stream.await_end(running)
    stream.assert_exact(3)
    assert stream.group() == {}, "Kafka has removed what was committed for the topic, and nothing came"


def test_a_table_from_before_there_were_ids_accepts_the_topic_and_keeps_its_id(stream: Stream) -> None:
    writer = stream.writer()
    ends = '{"0": 0, "1": 0}'
    said = {
        "kind": "epoch-start",
        "epoch": "7",
        "start-offsets": ends,
        "end-offsets": ends,
        "loaded-rows": "{}",
    }
    commit(writer.table, {f"sluice.{key}": value for key, value in said.items()})
    stream.send(2)
    stream.run(writer)
    stream.assert_exact(2)
    assert [(s["epoch"], "topic-id" in s) for s in stream.summaries()] == [("8", True)] * 2 + [("7", False)]
    stream.recreate_the_topic()
    with pytest.raises(Unrecoverable, match="recreated"):
        stream.writer().acquire()


def test_nothing_is_published_when_kafka_does_not_say_which_topic_it_is(
    stream: Stream, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "ID_SECONDS", 1)
    stream.send(3)
    writer = stream.writer()
    positions = writer.acquire()
    before_publishing(writer, stream, lambda: services.signal("kafka", signal.SIGSTOP))
    try:
        with pytest.raises(TimeoutError, match=stream.spec.topic.name):
            # Spark's own client may wait for a minute before the query can end.
            stream.await_end(stream.consume(writer, positions), 150)
    finally:
        services.signal("kafka", signal.SIGCONT)
    assert stream.record_offsets() == []
    stream.run(stream.writer())
    stream.assert_exact(3)


def test_a_publish_that_raced_with_a_commit_to_another_branch_is_tried_again(stream: Stream) -> None:
    """What the catalog then says is no sign of maintenance: the writer must not fence itself. What it staged
    is on top of an older metadata file, so the same files are staged again."""
    stream.send(3)
    writer = stream.writer()
    races = list[str]()

    class Racing(IcebergTable):
        def change_refs(
            self,
            expected: Mapping[str, int | None],
            changed: Mapping[str, int | StagedSnapshot | None],
            expired: Sequence[int] = (),
            properties: Mapping[str, str] | None = None,
        ) -> None:
            if not races:
                races.extend(changed)
                other = IcebergTable(stream.spark, stream.spec.table)
                commit(other, {"sluice.kind": "test"}, "another")
            super().change_refs(expected, changed, expired, properties)

    positions = writer.acquire()
    writer.table = Racing(stream.spark, stream.spec.table)
    running = stream.consume(writer, positions)
    running.query.processAllAvailable()
    assert races == [MAIN, writer.branch]
    stream.assert_exact(3)
    assert [s["kind"] for s in stream.summaries()] == ["batch", "epoch-start"]
    heads = {name: writer.table.head(name) for name in (MAIN, writer.branch)}
    assert set(heads.values()) == {writer.published}


def test_a_zombie_neither_publishes_nor_moves_the_group(stream: Stream) -> None:
    stream.send(3)
    zombie = stream.writer()
    positions = zombie.acquire()

    def successor() -> None:
        stream.send(2)
        stream.run(stream.writer()).query.stop()

    before_publishing(zombie, stream, successor)
    with pytest.raises(Fenced, match="writer epoch 1, newer epoch 2"):
        stream.await_end(stream.consume(zombie, positions))
    stream.assert_exact(5)
    assert stream.group() == {0: 5, 1: 5}


def test_a_writer_that_was_suspended_until_its_files_may_be_gone_writes_them_again(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.send(3)
    writer = stream.writer()
    positions = writer.acquire()
    before_publishing(
        writer, stream, lambda: monkeypatch.setattr(clock, "now_ms", lambda: now_ms() + 13 * HOUR_MS)
    )
    with pytest.raises(ConcurrentCommit, match="written 13:00"):
        stream.await_end(stream.consume(writer, positions))
    stream.assert_exact(0)
    # As run_with_lease does; the clock is right again only in this test.
    monkeypatch.undo()
    writer.topic = stream.writer().topic
    stream.run(writer).query.stop()
    stream.assert_exact(3)


def test_a_writer_whose_checkpoint_its_successor_removed_is_fenced_and_has_not_failed(
    stream: Stream,
) -> None:
    stream.send(3)
    first = stream.run(stream.writer())
    stream.writer().acquire()
    stream.send(2)
    with pytest.raises(Fenced, match="writer epoch 1, newer epoch 2"):
        stream.await_end(first)
    stream.assert_exact(3)


def test_an_idle_writer_renews_its_group_and_a_zombie_does_not(stream: Stream) -> None:
    stream.send(3)
    zombie = stream.writer()
    stream.run(zombie)
    assert not zombie.group.is_due
    stream.send(1)
    writer = stream.writer()
    stream.run(writer)
    with pytest.raises(Fenced, match="writer epoch 1, newer epoch 2"):
        zombie.check_while_idle()
    writer.check_while_idle()
    assert stream.group() == {0: 4, 1: 4}


def test_offsets_that_expired_come_back_while_the_stream_is_idle(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.send(3)
    writer, stop = stream.writer(), threading.Event()
    running = stream.run(writer)
    stream.forget_the_group()
    assert stream.group() == {}
    now = time.monotonic() + RENEW_SECONDS
    for module in (offsets, run):
        monkeypatch.setattr(module, "monotonic", lambda: now)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(running.until, stop)
        try:
            wait_until("the group's offsets", lambda: stream.group() == {0: 3, 1: 3}, 30, 0.1)
        finally:
            stop.set()
        waiting.result(30)


def test_a_record_dated_so_that_spark_could_not_read_it_is_refused_by_the_broker(stream: Stream) -> None:
    """It would stop the stream for good; a record of 1970 is read."""
    admin = KafkaAdmin(stream.services.stack.platform("airflow").kafka)
    topic = with_timestamp_bounds(stream.spec.topic)
    assert set(BrokerTopics(admin).provision(topic).config) >= {"message.timestamp.before.max.ms"}
    assert BrokerTopics(admin).provision(topic).is_empty
    producer, answers = Producer({**stream.services.kafka, "log_level": 0}), list[KafkaError | None]()
    overflow = 2**63 // 1000 + 1
    for partition, at_ms in ((0, 1), (1, 1), (0, -overflow), (0, overflow), (0, time.time_ns())):
        producer.produce(
            topic.name,
            b"text",
            partition=partition,
            timestamp=at_ms,
            on_delivery=lambda e, _: answers.append(e),
        )
        assert producer.flush(30) == 0
    assert [error and error.code() for error in answers] == [None] * 2 + [KafkaError.INVALID_TIMESTAMP] * 3
    stream.run(stream.writer())
    stream.assert_exact(1)


@pytest.mark.exhaustive
def test_the_batches_listed_are_those_published_after_crashes_and_a_restored_catalog(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "RECORD_INTERVAL", 2)
    monkeypatch.setattr(writer_module, "KEEP_SNAPSHOTS", 3)
    monkeypatch.setattr(writer_lease, "EXPIRY_INTERVAL", 2)
    published = dict[int, str]()
    began = now_ms()

    def publish(times: int) -> None:
        """As a process that is then killed: what it knows is gone."""
        running = stream.run(stream.writer())
        for _ in range(times):
            stream.send(1)
            running.query.processAllAvailable()
            for snapshot in reversed([*IcebergTable(stream.spark, stream.spec.table).snapshots(MAIN)]):
                if snapshot.summary.get("sluice.kind") == "batch":
                    published.setdefault(snapshot.id, snapshot.summary["sluice.offset-ranges"])
        running.query.stop()

    publish(5)
    backup, at_backup = stream.metadata_location(), dict(published)
    publish(1)
    publish(4)
    stream.restore_catalog(backup)
    published = at_backup
    publish(3)
    with closing(Lake.open(stream.platform)) as lake:
        log = BatchLog.open(connect(stream.platform.s3), lake.table(stream.spec.table))
        listed = log.newest(100)
        found = [one.batch for one in listed if not one.is_lost]
        assert [one.snapshot_id for one in found] == list(published)[::-1]
        assert [one.ranges for one in found[::-1]] == [OffsetRanges.of_batch(r) for r in published.values()]
        assert len(log.on_main) < len(found), "no snapshot has expired: nothing was tested"
        assert len(listed) > len(found), "nothing that was lost had been recorded"
        assert all(began <= one.started_at < one.published_at <= now_ms() for one in found)
        assert sorted(found, key=lambda one: one.published_at, reverse=True) == found
        for partition, offset in stream.record_offsets():
            holding = log.holding(partition, offset)
            assert holding is not None
            assert holding.snapshot_id in published
            assert offset in holding.ranges[partition]
