"""A stream over a topic that others fill: where it begins, that nothing of the topic changes, and its loads.

The broker has ACLs, and the roles have the least rights on such a topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pyiceberg.expressions import AlwaysTrue
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

from local.services import kafka as broker
from local.stack.stack import wait_until
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.reading.files import read
from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.query import Query, TimeWindow
from sluice.config.sections.records.declaration import Records
from sluice.config.sections.topic import Topic
from sluice.core.offsets.ranges import OffsetRanges, offsets_from_json
from sluice.core.offsets.start import Start
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from sluice.loads.planning import topic_check
from sluice.loads.planning.topic import TopicPlanner
from sluice.maintenance.reconciliation.table_contents import TableContents
from sluice.trace.find import StreamTrace
from sluice.trace.rows import Absence, absent_offset
from spark_jobs.common.consumer.decoders import decoder_of
from spark_jobs.common.consumer.direct.direct_rows import DirectSource
from spark_jobs.common.kafka.offsets import Topic as BrokersTopic
from spark_jobs.common.queries import arrival_times
from tests.support.lakehouse import Stream
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.services import Services
from tests.support.verification import RowsVerification

PARTITIONS = 2
# Records of each partition when the stream begins, of which these are not kept any more.
SENT, DELETED = 10, 4
MINUTE = 60_000
# Milliseconds since 1970 of the first record; a minute between two.
FIRST = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp() * 1000)
_numbers = count()


class Others(Stream):
    """A stream over a topic that a superuser made and fills; the roles may read it, and no more."""

    def __init__(self, spark: SparkSession, services: Services, root: str) -> None:
        super().__init__(spark, services, f"others_{next(_numbers)}", root)
        self.name = f"shop.{self.spec.name}"
        self.admin = AdminClient({**services.kafka, "log_level": 0})
        new = NewTopic(self.name, PARTITIONS, 1, config={"retention.ms": "-1"})
        self.admin.create_topics([new])[self.name].result(20)
        self.begin_at("earliest")

    def begin_at(self, start: str) -> None:
        self.spec = replace(self.spec, topic=Topic(self.name, managed=False, start=start))
        group = Start.parse(start).group
        broker.provision(self.services.stack.context, [], [], {self.name: group})

    def produce(self, first: int, until: int, partition: int | None = None) -> None:
        """Records ``first`` to before ``until`` of each partition, or of one."""
        producer = Producer({**self.services.kafka, "log_level": 0})
        for number in range(first, until):
            for target in range(PARTITIONS) if partition is None else [partition]:
                at = FIRST + number * MINUTE
                producer.produce(self.name, b"text", partition=target, timestamp=at)
        assert producer.flush(30) == 0

    def delete_first(self) -> None:
        until = [TopicPartition(self.name, partition, DELETED) for partition in range(PARTITIONS)]
        for future in self.admin.delete_records(until).values():
            future.result(20)

    def grow(self) -> None:
        self.admin.create_partitions([NewPartitions(self.name, PARTITIONS + 1)])[self.name].result(20)

        def partitions() -> int:
            return len(self.admin.list_topics(self.name, timeout=10).topics[self.name].partitions)

        wait_until("its new partition", lambda: partitions() == PARTITIONS + 1, 20, 0.05)

    def state(self) -> Any:
        """All that can be configured of the topic, and who may do what."""
        resource = ConfigResource(ResourceType.TOPIC, self.name)
        (configs,) = (future.result(20) for future in self.admin.describe_configs([resource]).values())
        # None matches every name, whatever the library's types say.
        any_name: Any = None
        every = AclBindingFilter(
            ResourceType.ANY,
            any_name,
            ResourcePatternType.ANY,
            any_name,
            any_name,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        described = self.admin.list_topics(self.name, timeout=10).topics[self.name].partitions
        return (
            {name: entry.value for name, entry in configs.items()},
            sorted(str(binding) for binding in self.admin.describe_acls(every).result(20)),
            {number: sorted(partition.replicas) for number, partition in described.items()},
        )

    def groups(self) -> set[str]:
        """Consumer groups that are known to the broker."""
        found = self.admin.list_consumer_groups(request_timeout=20).result(20)
        return {group.group_id for group in found.valid}

    def kafka(self, role: str) -> Kafka:
        return self.services.stack.platform(role).kafka


@pytest.fixture
def others_kind() -> type[Others]:
    return Others


@pytest.fixture
def others(
    spark: SparkSession, services: Services, tmp_path: Path, others_kind: type[Others]
) -> Iterator[Others]:
    services.minio, services.postgres  # noqa: B018
    made = others_kind(spark, services, str(tmp_path))
    yield made
    made.stop()


@pytest.fixture
def systems(others: Others) -> Iterator[Any]:
    """A task's, with the rights of role ``airflow`` in Kafka and the consumer's in the lake."""
    platform = replace(others.platform, kafka=others.kafka("airflow"))
    with closing(Lake.open(platform)) as lake:
        s3 = connect(platform.s3)
        yield SimpleNamespace(
            platform=platform,
            lake=lake,
            kafka=KafkaAdmin(platform.kafka),
            batch_log=lambda table: BatchLog.open(s3, lake.table(table)),
        )


@pytest.fixture
def ledger(others: Others) -> Ledger:
    return Ledger(MemoryS3().as_client(), "s3://w/ledger", others.spec.name)


def committed(others: Others, group: str) -> None:
    """A group of others commits offset 6 of partition 0."""
    consumer = Consumer({**others.services.kafka, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(others.name, 0, 6)], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize(
    ("start", "begins"),
    [
        ("earliest", {0: DELETED, 1: DELETED}),
        ("latest", {0: SENT, 1: SENT}),
        ("2026-06-01T00:07:00Z", {0: 7, 1: 7}),
        # Before all, and after all.
        ("2020-01-01T00:00:00Z", {0: DELETED, 1: DELETED}),
        ("2026-06-02T00:00:00Z", {0: SENT, 1: SENT}),
        ("0=5 1=10", {0: 5, 1: SENT}),
        ("group:connect-orders", {0: 6, 1: DELETED}),
    ],
)
def test_a_stream_begins_where_it_is_declared_to_and_only_once(
    others: Others, start: str, begins: dict[int, int]
) -> None:
    others.produce(0, SENT)
    others.delete_first()
    committed(others, "connect-orders")
    others.begin_at(start)
    before = others.groups()
    assert others.writer().acquire() == begins
    assert offsets_from_json(others.summaries()[0]["start-offsets"]) == begins
    # A later start counts for nothing, and more records do not move the first.
    others.begin_at("latest")
    others.produce(SENT, SENT + 2)
    writer = others.writer()
    positions = writer.acquire()
    assert positions == begins
    others.consume(writer, positions).query.processAllAvailable()
    expected = [(p, offset) for p, first in begins.items() for offset in range(first, SENT + 2)]
    assert others.record_offsets() == sorted(expected)
    # No other group than the stream's own, under which lag tools find it.
    assert others.groups() - before == {f"sluice-{others.spec.name}"}


@pytest.mark.parametrize(
    ("start", "data"),
    [
        ("0=3 1=4", ("partition 0", 3, "[4, 10)")),
        ("0=4", ("partition 1",)),
        ("group:unknown", ("'unknown'", "no offset")),
    ],
)
def test_a_start_that_the_topic_does_not_have_is_a_wrong_declaration(
    others: Others, start: str, data: tuple[object, ...]
) -> None:
    others.produce(0, SENT)
    others.delete_first()
    others.begin_at(start)
    with raising(ConfigError, f"{others.spec.name}/stream.toml", *data, "Fix: "):
        others.writer().acquire()
    # Corrected, it begins: nothing was recorded.
    others.begin_at("latest")
    assert others.writer().acquire() == {0: SENT, 1: SENT}


def load(
    others: Others, systems: Any, ledger: Ledger, run: str, between: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """The proof of a load; ``between``: before it is validated."""
    topic_check.check(systems, others.spec, SimpleNamespace(error=print))
    TopicPlanner(systems, others.spec, ledger, {"until_time": None}).pin(run, {})
    between()
    verification = RowsVerification.of(systems, others.spec, ledger, run)
    found = verification.verify(5.0)
    assert found.problems == []
    return verification.write_proof(found, lambda _: None)[1]


def test_nothing_of_the_topic_changes_while_it_is_read_loaded_and_grows(
    others: Others, systems: Any, ledger: Ledger
) -> None:
    others.produce(0, SENT)
    others.delete_first()
    before = others.state()
    running = others.run(others.writer())
    assert load(others, systems, ledger, "one")["ranges"] == {"0": [[4, 10]], "1": [[4, 10]]}
    assert others.state() == before

    others.grow()
    grown = others.state()
    others.produce(0, 3, partition=PARTITIONS)

    def published() -> bool:
        running.query.processAllAvailable()
        return (PARTITIONS, 2) in others.record_offsets()

    wait_until("the new partition's records", published, 60, 0.5)
    # From its first offset, wherever the stream began.
    proof = load(others, systems, ledger, "two")
    assert proof["ranges"] == {"2": [[0, 3]]}
    assert proof["sources"][0]["stream_start"] == {"0": 4, "1": 4, "2": 0}
    assert others.state() == grown


def test_a_load_of_a_transactional_topic_accounts_for_each_offset(
    others: Others, systems: Any, ledger: Ledger
) -> None:
    for text, is_committed in (("a", True), ("b", False), ("c", True)):
        producer = Producer({**others.services.kafka, "transactional.id": f"{others.name}-{text}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(others.name, text.encode(), partition=0)
        producer.flush(30)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
    others.run(others.writer())
    proof = load(others, systems, ledger, "r")
    assert proof["ranges"] == {"0": [[0, 12]]}
    assert (proof["topic_records"], proof["published"], proof["quarantined"]) == (6, 6, 0)
    assert {name: proof["without_record"][name] for name in ("control", "aborted", "absent")} == {
        "control": 3, "aborted": 3, "absent": 0,
    }  # fmt: skip
    assert others.record_offsets() == [(0, offset) for offset in (0, 1, 2, 8, 9, 10)]
    spec = others.spec
    contents = TableContents(systems.lake, spec.table, spec.quarantine_table, ledger, systems.batch_log)
    findings, verified = contents.verify(None, None)
    assert findings == []
    assert verified is not None
    assert (verified.present.count, verified.without_record.count) == (6, 6)


class Skipping(Others):
    """One that leaves tombstones out."""

    def begin_at(self, start: str) -> None:
        super().begin_at(start)
        self.spec = replace(
            self.spec, schema="", records=Records("text", value_column="text", tombstones="skip")
        )

    def rows_of(self, decode: Any = None) -> DirectSource:
        decoder = decoder_of(self.spec)
        assert decoder is not None
        return DirectSource(self.spark, self.platform, self.spec, decoder)

    def send_values(self, *values: bytes | None, partition: int = 0) -> None:
        producer = Producer({**self.services.kafka, "log_level": 0})
        for value in values:
            producer.produce(self.name, value, b"key", partition)
        assert producer.flush(30) == 0


class Keeping(Skipping):
    """One that keeps keys and headers."""

    def begin_at(self, start: str) -> None:
        super().begin_at(start)
        self.spec = replace(self.spec, records=Records("text", key="text", headers="sent_headers"))

    def record(self) -> StructType:
        # Before its declaration is known.
        pair = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        texts = [StructField(name, StringType()) for name in ("value", "key")]
        return StructType([*texts, StructField("sent_headers", ArrayType(pair))])


@pytest.mark.parametrize("others_kind", [Keeping])
def test_keys_and_headers_are_kept_and_a_trace_shows_them(
    others: Others, systems: Any, ledger: Ledger
) -> None:
    assert isinstance(others, Keeping)
    producer = Producer({**others.services.kafka, "log_level": 0})
    sent: list[Any] = [(b"a", [("trace", b"1"), ("trace", None)]), (b"b", None), (b"\xff", [("trace", b"2")])]
    for value, headers in sent:
        producer.produce(others.name, value, b"key", 0, timestamp=FIRST, headers=headers)
    assert producer.flush(30) == 0
    others.run(others.writer())
    rows = read(systems.lake.table(others.spec.table), AlwaysTrue(), ("value", "sent_headers")).read_all()
    kept = {row["value"]: row["sent_headers"] for row in rows.to_pylist()}
    pairs = [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}]
    assert kept == {"a": pairs, "b": None}
    batches = systems.batch_log(others.spec.table)
    trace = StreamTrace(others.spec, systems.lake, ledger, batches, systems.kafka)
    time = "2026-06-01T00:00:00.000+00:00"
    for offset, shown in enumerate(("trace=1, trace=(none)", "(none)", "trace=2")):
        (place,) = trace.offset(0, offset).places
        assert place.record == {"time": time, "key": "key", "headers": shown}


@pytest.mark.parametrize("others_kind", [Skipping])
def test_skipped_tombstones_are_accounted_for_in_batches_proofs_and_reconciliation(
    others: Others, systems: Any, ledger: Ledger
) -> None:
    assert isinstance(others, Skipping)
    spec = others.spec
    others.send_values(b"a", None, b"b", None, None)
    others.send_values(b"c", partition=1)
    running = others.run(others.writer())
    proof = load(others, systems, ledger, "one")
    assert proof["ranges"] == {"0": [[0, 5]], "1": [[0, 1]]}
    assert (proof["topic_records"], proof["published"], proof["quarantined"]) == (3, 3, 0)
    assert (proof["gaps"], proof["duplicates"]) == (0, 0)
    assert proof["without_record"]["skipped"] == 3
    assert others.record_offsets() == [(0, 0), (0, 2), (1, 0)]
    contents = TableContents(systems.lake, spec.table, spec.quarantine_table, ledger, systems.batch_log)
    findings, first = contents.verify(None, None)
    assert findings == []
    assert first is not None
    assert (first.present.count, first.quarantined.count, first.without_record.count) == (3, 0, 3)

    # A batch of which no record is a row, and what comes after it.
    others.send_values(None, None)
    running.query.processAllAvailable()
    others.send_values(b"d")
    running.query.processAllAvailable()
    proof = load(others, systems, ledger, "two")
    assert proof["ranges"] == {"0": [[5, 8]]}
    assert (proof["topic_records"], proof["published"], proof["without_record"]["skipped"]) == (1, 1, 2)
    for before in (first, None):
        findings, verified = contents.verify(before, first)
        assert findings == []
        assert verified is not None
        assert (verified.present.count, verified.without_record.count) == (4, 5)
    # As the list of batches and the page of the stream have them: of each, all offsets.
    listed = [one.batch for one in systems.batch_log(spec.table).newest(9, None, None)]
    numbers = [(one.ranges.count, one.rows, one.rejected, one.without_record.skipped.count) for one in listed]
    assert sum(offsets for offsets, *_ in numbers) == 9
    assert (2, 0, 0, 2) in numbers
    assert all(offsets == rows + skipped and not rejected for offsets, rows, rejected, skipped in numbers)
    log = systems.batch_log(spec.table)
    absent = absent_offset(0, 5, {0: (0, 8)}, {0: 0}, {0: 8}, OffsetRanges(), log.without_record)
    assert absent.why is Absence.WITHOUT_RECORD


def test_windows_need_arrival_times_which_are_not_set_here(others: Others) -> None:
    query = Query([], ["text"], event_time="at", window=TimeWindow(5, 5))
    spec = replace(others.spec, queries={"hourly": query})
    topic = BrokersTopic(others.platform.kafka, others.name)
    arrival_times.check(others.spec, topic)
    with raising(ConfigError, spec.name, "hourly", others.name, "CreateTime", "LogAppendTime"):
        arrival_times.check(spec, topic)
    resource = ConfigResource(
        ResourceType.TOPIC,
        others.name,
        incremental_configs=[
            ConfigEntry(
                "message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET
            )
        ],
    )
    for future in others.admin.incremental_alter_configs([resource]).values():
        future.result(20)
    wait_until(
        "the topic's times", lambda: topic.config()["message.timestamp.type"] == "LogAppendTime", 20, 0.1
    )
    arrival_times.check(spec, topic)


def test_a_transaction_that_does_not_end_holds_records_back_and_ends_nothing(others: Others) -> None:
    others.produce(0, 2, partition=0)
    producer = Producer({**others.services.kafka, "transactional.id": others.name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(others.name, b"open", partition=0)
    producer.flush(30)
    others.produce(2, 4, partition=0)
    running = others.run(others.writer())
    assert others.record_offsets() == [(0, 0), (0, 1)]
    observer = KafkaAdmin(others.kafka("observer"))
    assert (observer.last_stable(others.name), observer.ends(others.name)) == ({0: 2, 1: 0}, {0: 5, 1: 0})
    assert list(observer.open_transactions(others.name, [0, 1])) == [0]
    producer.abort_transaction(30)

    def published() -> bool:
        running.query.processAllAvailable()
        return (0, 4) in others.record_offsets()

    wait_until("the records behind it", published, 60, 0.5)
    # Offset 2 is of the aborted transaction, offset 5 its marker.
    assert others.record_offsets() == [(0, offset) for offset in (0, 1, 3, 4)]
