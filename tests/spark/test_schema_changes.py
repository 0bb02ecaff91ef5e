"""A stream that follows the schemas of its records, which a real registry has: versions that add and widen,
versions that no table can follow, and ends of the process between two commits."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from local.demo.orders.plain_consumer import Record, committed
from local.runtime import roles
from local.runtime.registry_access import registry_section
from local.services import streams as stream_programs
from local.stack.stack import wait_until
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.schema_offsets import schema_offsets
from sluice.clients.lake.snapshots import change_files
from sluice.clients.registry.client import RegistryClient
from sluice.clients.s3.requests import connect
from sluice.config import streams
from sluice.config.folders import VARIABLE
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.platform_sections.registry import Registry
from sluice.config.sections.topic import Topic
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.schema_versions.columns import PROPERTY as COLUMNS
from sluice.core.schema_versions.columns import came_with
from sluice.core.schema_versions.followed import PROPERTY as FOLLOWED
from sluice.trace.record_schema import Record as At
from sluice.trace.record_schema import Recorded, schema_of
from spark_jobs.common.consumer import writer
from spark_jobs.common.consumer.decoded_rows import Decode
from spark_jobs.common.consumer.direct.direct_rows import DirectSource
from spark_jobs.common.consumer.direct.follower import Follower, SchemaNotFollowed
from spark_jobs.common.consumer.followed import followed_by
from spark_jobs.common.consumer.run import (
    decoding,
    decoding_of_change,
    ensure_table,
    record_type,
    registry_of,
)
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.lake.iceberg import IcebergTable
from spark_jobs.common.lake.tables import WiderTable
from spark_jobs.common.maintenance.change import Change
from spark_jobs.common.maintenance.incoming import IncomingRecords, StagedRecords
from tests.support.lakehouse import PARTITIONS, Stream
from tests.support.orders_versions import REFUSED, V1, VERSIONS, column, schema, value
from tests.support.raising import raising
from tests.support.schema_versions import has_all
from tests.support.services import Services
from tests.unit.core.decoding.avro.test_both_ways import fastavros, simple

EACH = 3
DECLARED = """
name = "{name}"
partition_by = {by}
schema = "schema.avsc"
table = "raw.{name}"
[topic]
name = "{name}"
managed = false
[consumer]
trigger_seconds = 1
[budget]
versions_per_batch = 50
[records]
format = "avro"
registry = true
new_fields = "column"
on_incompatible = "{on_incompatible}"
"""
OWN = ("_kafka_partition", "_kafka_offset", "_kafka_timestamp", "_source_id", "_source_row",
       "_source_base_offset", "_unknown_fields")  # fmt: skip
# The consumer as a stack runs it; it is killed once the columns are committed, and nothing else is.
KILLED = """
import os, signal, sys
from spark_jobs.common.consumer.run import run
from spark_jobs.common.lake.writer_lease import WriterLease

change = WriterLease.change_schema

def killed(*arguments):
    change(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

WriterLease.change_schema = killed
sys.exit(run(sys.argv[1]))
"""
PLAIN = "import sys; from spark_jobs.common.consumer.run import run; sys.exit(run(sys.argv[1]))"
_numbers = count()


class Orders(Stream):
    """A stream over a topic whose records a program with Confluent's serializer sends."""

    def __init__(
        self,
        spark: SparkSession,
        services: Services,
        root: Path,
        on_incompatible: str,
        by: tuple[str, ...],
        first: str = schema(**V1),
    ) -> None:
        name = f"moving_{next(_numbers)}"
        folder = root / "streams" / name
        folder.mkdir(parents=True)
        (folder / "schema.avsc").write_text(first)
        text = DECLARED.format(name=name, on_incompatible=on_incompatible, by=[*by])
        (folder / "stream.toml").write_text(text)
        self.declared = streams.load(name)
        super().__init__(spark, services, name, str(root / "checkpoints"), by)
        topic = Topic(name, managed=False, start="earliest")
        consumer = replace(self.declared.consumer, trigger_seconds=0)
        self.spec = replace(self.declared, topic=topic, consumer=consumer)
        secrets, network = services.stack.secrets, services.registry_context.network
        section = registry_section("consumer", network, secrets)
        self.platform = replace(self.platform, registry=Registry(**section))
        login = f"sluice-producer:{secrets['registry_producer']}"
        self.registry = {"url": services.registry, "basic.auth.user.info": login}
        self._client: Any = SchemaRegistryClient.new_client(self.registry)
        self._client.set_config(f"{name}-value", compatibility())
        self.producer = Producer({**services.kafka, "linger.ms": 5, "log_level": 0})
        self.sent: list[int] = []

    def record(self) -> StructType:
        return record_type(self.spark, self.declared)

    def rows_of(self, decode: Decode | None = None) -> DirectSource:
        registry = registry_of(self.spec, self.platform)
        assert registry is not None
        followed = followed_by(self.spark, self.platform, self.spec)
        made = decoding(self.spec, registry, followed)
        return DirectSource(self.spark, self.platform, self.spec, made, Follower(self.spec, registry))

    def send_version(self, version: int, number: int = EACH) -> None:
        """Records of a version, from 1, in each partition; ``id`` counts all of them."""
        serialize = AvroSerializer(
            self._client,
            schema(**VERSIONS[version - 1]),
            conf={"subject.name.strategy.type": "TOPIC"},
        )
        context = SerializationContext(self.spec.topic.name, MessageField.VALUE)
        for _ in range(number):
            for partition in range(PARTITIONS):
                body = serialize(value(version, len(self.sent)), context)
                self.sent.append(version)
                self.producer.produce(self.spec.topic.name, body, partition=partition)
        assert self.producer.flush(30) == 0

    def ids(self) -> dict[int, int]:
        """Schema id -> version, of those that were sent."""
        subject = f"{self.spec.topic.name}-value"
        registered = ((one, _avro(schema(**VERSIONS[one - 1]))) for one in {*self.sent})
        return {self._client.lookup_schema(subject, text).schema_id: one for one, text in registered}

    @property
    def client(self) -> Any:
        return connect(self.platform.s3)

    def rows(self) -> dict[tuple[int, int], dict[str, Any]]:
        found = self.spark.table(f"{CATALOG}.{self.spec.table}").toArrow().to_pylist()
        places = [(row["_kafka_partition"], row["_kafka_offset"]) for row in found]
        assert len(set(places)) == len(places)
        return dict(zip(places, found, strict=True))

    def quarantined(self) -> dict[tuple[int, int], str]:
        table = self.spark.table(f"{CATALOG}.{self.spec.quarantine_table}")
        found = table.select("_kafka_partition", "_kafka_offset", "reason").collect()
        return {(row[0], row[1]): row[2] for row in found}

    def assert_complete(self) -> None:
        """Each record is a row with all that it has, as Confluent's deserializer reads it, or is in
        quarantine."""
        rows, quarantined = self.rows(), self.quarantined()
        topic = committed(self.services.kafka, self.registry, self.spec.topic.name)
        assert len(topic) == len(self.sent)
        assert not rows.keys() & quarantined.keys()
        for place, record in topic.items():
            assert record.value is not None
            version = self.sent[record.value["id"]]
            if version in REFUSED:
                assert f"cannot be followed: {REFUSED[version]}. Fix: " in quarantined[place]
            else:
                assert_row(rows[place], record)
        assert len(rows) + len(quarantined) == len(topic)

    def count(self) -> int:
        with closing(Lake.open(self.platform)) as lake:
            return lake.table(self.spec.table).scan().count()

    def columns(self) -> dict[str, str]:
        with closing(Lake.open(self.platform)) as lake:
            return {
                field.name: str(field.field_type) for field in lake.table(self.spec.table).schema().fields
            }


def compatibility() -> Any:
    from confluent_kafka.schema_registry import ConfigCompatibilityLevel, ServerConfig

    return ServerConfig(compatibility=ConfigCompatibilityLevel.NONE)


def assert_row(row: dict[str, Any], record: Record) -> None:
    assert row["_unknown_fields"] is None
    own = {name: one for name, one in row.items() if name not in OWN}
    assert has_all(simple(own), fastavros(record.value), column), (row, record.value)


def made_orders(
    spark: SparkSession,
    services: Services,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: tuple[str, tuple[str, ...]],
) -> Iterator[Orders]:
    """The stream, for a fixture; ``how``: what it does with other versions, and the table's partitions."""
    monkeypatch.setenv(VARIABLE, str(folder / "streams"))
    services.minio, services.postgres, services.registry  # noqa: B018
    found = Orders(spark, services, folder, *how)
    yield found
    found.stop()


@pytest.fixture(params=[("quarantine", ())])
def orders(
    spark: SparkSession,
    services: Services,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Orders]:
    yield from made_orders(spark, services, tmp_path, monkeypatch, request.param)


@pytest.mark.exhaustive
@pytest.mark.parametrize("orders", [("stop", ())], indirect=True)
def test_a_stream_that_stops_publishes_nothing_of_a_batch_with_a_version_that_it_cannot_follow(
    orders: Orders,
) -> None:
    orders.send_version(2)
    orders.run(orders.writer()).query.stop()
    assert len(orders.rows()) == len(orders.sent)
    columns = orders.columns()
    # The first of them alone could be followed: nothing is.
    orders.send_version(8)
    orders.send_version(7)
    starting = orders.writer()
    running = orders.consume(starting, starting.acquire())
    with raising(SchemaNotFollowed, orders.spec.table, REFUSED[7], "Fix: "):
        orders.await_end(running)
    assert len(orders.rows()) == PARTITIONS * EACH
    assert (orders.quarantined(), orders.columns()) == ({}, columns)


@pytest.mark.exhaustive
def test_ten_versions_come_while_the_stream_runs(orders: Orders) -> None:
    running = orders.run(orders.writer())
    for version in range(1, len(VERSIONS) + 1):
        orders.send_version(version)
        # Producers of the version before are still there.
        orders.send_version(max(version - 1, 1), 1)
        running.query.processAllAvailable()
        assert len(orders.rows()) + len(orders.quarantined()) == len(orders.sent)
    orders.assert_complete()
    columns = orders.columns()
    assert (columns["number"], columns["amount"]) == ("long", "decimal(20, 2)")
    assert "CHANNEL" not in columns
    # Another process begins with what the table follows, and reads the earliest version too.
    running.query.stop()
    orders.send_version(1)
    orders.send_version(10)
    before = orders.metadata_location()
    orders.run(orders.writer())
    orders.assert_complete()
    assert orders.columns() == columns
    assert before != orders.metadata_location()


def test_a_version_whose_columns_iceberg_refuses_is_in_quarantine(orders: Orders) -> None:
    """A former partition has the name of a further field."""
    orders.writer()
    table = f"{CATALOG}.{orders.spec.table}"
    orders.spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(4, id) AS channel")
    orders.spark.sql(f"ALTER TABLE {table} DROP PARTITION FIELD channel")
    orders.send_version(1)
    orders.send_version(2)
    orders.run(orders.writer())
    rows, quarantined = orders.rows(), orders.quarantined()
    assert len(rows) == PARTITIONS * EACH
    assert len(quarantined) == PARTITIONS * EACH
    assert all("cannot be followed: Iceberg refuses its columns: " in why for why in quarantined.values())
    assert "channel" not in orders.columns()


def test_a_declaration_becomes_wider_and_a_property_is_lost(orders: Orders) -> None:
    """Columns become as wide as the declaration says, at any depth; narrower than they are they are not."""
    orders.writer()
    declared = orders.spec.folder / "schema.avsc"
    declared.write_text(schema(**VERSIONS[2]))
    assert ensure_table(orders.spark, orders.platform, orders.spec) == ""
    columns = orders.columns()
    assert (columns["number"], columns["amount"]) == ("long", "decimal(20, 2)")
    assert "double" in columns["rates"]
    assert "zip" in columns["address"]
    for version in (1, 3, 8):
        orders.send_version(version)
    orders.run(orders.writer()).query.stop()
    orders.assert_complete()

    declared.write_text(schema(**V1))
    followed = ensure_table(orders.spark, orders.platform, orders.spec)
    table = f"{CATALOG}.{orders.spec.table}"
    (digest,) = [
        row["value"]
        for row in orders.spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
        if row["key"] == FOLLOWED
    ]
    orders.spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{FOLLOWED}')")
    restored = f"ALTER TABLE {table} SET TBLPROPERTIES ('{FOLLOWED}' = '{digest}')"
    with raising(WiderTable, "number is BIGINT and schema.avsc says INT", "it is missing", restored):
        ensure_table(orders.spark, orders.platform, orders.spec)
    orders.spark.sql(restored)
    assert ensure_table(orders.spark, orders.platform, orders.spec) == followed


def test_versions_that_come_in_one_batch_and_in_another_order(orders: Orders) -> None:
    for version in (10, 1, 8, 3, 5):
        orders.send_version(version)
    orders.run(orders.writer())
    orders.assert_complete()
    registry, name = RegistryClient(orders.platform.need_registry()), orders.spec.topic.name
    systems: Any = SimpleNamespace(platform=orders.platform, registry=registry)
    of = schema_of(systems, name, KafkaAdmin(orders.platform.kafka).describe(name).id)
    # Its number there, in the order in which they were registered.
    assert [of(At(0, n * EACH)).partition(", ")[2] for n in range(5)] == [
        f"version {number} of subject {name}-value" for number in range(1, 6)
    ]
    assert schema_of(systems, name, "A" * 22)(At(0, 0)).startswith("not known: topic ")


@pytest.mark.exhaustive
def test_a_catalog_that_is_restored_follows_again(orders: Orders) -> None:
    """To before the columns came: the running writer's decoder is then the table's again."""
    orders.send_version(1)
    starting = orders.writer()
    running = orders.run(starting)
    location = orders.metadata_location()
    orders.send_version(8)
    running.query.processAllAvailable()
    orders.assert_complete()
    running.query.stop()
    orders.restore_catalog(location)
    assert "payment" not in orders.columns()
    orders.run(starting)
    orders.assert_complete()


def test_bytes_that_name_another_topics_schema_change_no_table(orders: Orders) -> None:
    running = orders.run(orders.writer())
    other = '{"type": "record", "name": "Other", "fields": [{"name": "secret", "type": "string"}]}'
    number = orders._client.register_schema("other-value", _avro(other))
    orders.producer.produce(orders.spec.topic.name, b"\0" + number.to_bytes(4, "big") + b"\7a", partition=0)
    assert orders.producer.flush(30) == 0
    running.query.processAllAvailable()
    assert "secret" not in orders.columns()
    assert list(orders.quarantined()) == [(0, 0)]


@pytest.mark.exhaustive
def test_the_offsets_of_each_version_survive_a_failed_publish_and_the_expiry_of_snapshots(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is said of a batch that was not published; garbage counts for no schema."""

    def bounds() -> dict[int, tuple[int, int]]:
        """By version, of partition 0; the others have the same but for the garbage."""
        with closing(Lake.open(orders.platform)) as lake:
            found = schema_offsets(orders.client, lake.table(orders.spec.table))
        ids = orders.ids()
        assert {*found.ids} <= {*ids}
        assert all(len(one.bounds) == PARTITIONS for one in found.ids.values())
        return {ids[schema_id]: one.bounds[0] for schema_id, one in found.ids.items()}

    # So that no snapshot is needed but the newest.
    monkeypatch.setattr(writer, "RECORD_INTERVAL", 1)
    orders.send_version(1)
    orders.run(orders.writer()).query.stop()
    assert bounds() == {1: (0, 2)}
    orders.send_version(2)
    publish = StreamWriter._publish
    with monkeypatch.context() as patch, raising(KeyError, "killed"):

        def killed(*_: Any, **__: Any) -> None:
            raise KeyError("killed")

        patch.setattr(StreamWriter, "_publish", killed)
        starting = orders.writer()
        orders.await_end(orders.consume(starting, starting.acquire()))
    assert StreamWriter._publish is publish
    assert ("channel" in orders.columns(), bounds()) == (True, {1: (0, 2)})
    location = orders.metadata_location()
    orders.producer.produce(orders.spec.topic.name, b"\0\0\1\0\0garbage", partition=0)
    orders.send_version(7, 1)
    orders.send_version(1, 1)
    running = orders.run(orders.writer())
    # Version 7 cannot be followed: its records are in quarantine, as its.
    expected = {1: (0, 8), 2: (3, 5), 7: (7, 7)}
    assert bounds() == expected
    orders.send_version(1, 1)
    running.query.processAllAvailable()
    expected[1] = (0, 9)
    running.query.stop()
    table = IcebergTable(orders.spark, orders.spec.table)
    table.change_refs({}, {}, table.expirable(1, 2**62))
    assert len(list(table.snapshots("main"))) <= 2
    assert bounds() == expected
    orders.send_version(1, 1)
    orders.run(orders.writer()).query.stop()
    expected[1] = (0, 10)
    assert bounds() == expected
    with closing(Lake.open(orders.platform)) as lake:
        recorded = Recorded(schema_offsets(orders.client, lake.table(orders.spec.table)))
        fields = lake.table(orders.spec.table).schema()
        text = lake.table(orders.spec.table).properties[COLUMNS]
    names = {one: str(version) for one, version in orders.ids().items()}.__getitem__
    said = [recorded.answer(At(0, offset), names, "gone").partition(",")[0] for offset in (0, 4, 9)]
    # Tests share the registry: the ids of versions are in any order.
    assert [{*one.split(" or ")} for one in said] == [{"1"}, {"1", "2"}, {"1"}]
    came = came_with(text, [fields.find_field(name).field_id for name in ("channel", "address.zip", "id")])
    (version_2,) = (one for one, version in orders.ids().items() if version == 2)
    assert [one.schema_ids for one in came.values()] == [(version_2,), (version_2,)]
    # To before the second batch: what it had is said of none, until it comes again.
    orders.restore_catalog(location)
    assert bounds() == {1: (0, 2)}
    orders.run(orders.writer()).query.stop()
    assert bounds() == expected


def _avro(text: str) -> Any:
    from confluent_kafka.schema_registry import Schema

    return Schema(text, "AVRO")


def change_of(orders: Orders, action: Action, **ranges: Any) -> None:
    """A change with these offsets, by the job's own decoder."""
    registry = registry_of(orders.spec, orders.platform)
    decoder = partial(decoding_of_change, orders.spark, orders.spec, registry)
    plan = ChangePlan("r1", action, orders.spec.topic.name, **ranges, changes=0)
    Change(orders.spark, orders.platform, orders.spec, decoder, plan).run()


@pytest.mark.exhaustive
def test_a_replay_reads_every_version_and_rows_that_stay_are_the_same(orders: Orders) -> None:
    for version in (1, 8, 3):
        orders.send_version(version)
    orders.run(orders.writer()).query.stop()
    before = orders.rows()
    # One of each version, out of the middle of files; the others are written again.
    those = OffsetRanges.of({0: [(1, 2), (4, 5), (7, 8)]})
    change_of(orders, Action.REPLAY, rows_out=those, rows_in=those)
    assert orders.rows() == before
    orders.assert_complete()
    with closing(Lake.open(orders.platform)) as lake:
        table = lake.table(orders.spec.table)
        found = change_files.find(table, "r1")
        assert found is not None
        old, new = (change_files.digest_without(table, one, those) for one in (found.removed, found.added))
    assert (old.records, old.digest) == (new.records, new.digest)
    assert old.records > 0


def test_records_that_were_refused_come_back_once_the_table_follows(orders: Orders) -> None:
    following = orders.spec
    assert following.records is not None
    orders.spec = replace(following, records=replace(following.records, new_fields="unknown_fields"))
    orders.send_version(1)
    orders.send_version(3)
    orders.run(orders.writer()).query.stop()
    refused = orders.quarantined()
    (reason,) = {*refused.values()}
    assert "number: the table has int, the schema long" in reason
    assert len(refused) == PARTITIONS * EACH
    # A change follows no schema: the stream does, with its next record of one that is as wide.
    orders.spec = following
    orders.send_version(4)
    orders.run(orders.writer()).query.stop()
    offsets = {p: [offset for other, offset in refused if other == p] for p in range(PARTITIONS)}
    change_of(orders, Action.RETRY, rows_in=OffsetRanges.of_values(offsets))
    assert orders.quarantined() == {}
    orders.assert_complete()


@pytest.mark.exhaustive
def test_a_change_fills_columns_that_came_after_its_records_and_while_it_was_made(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream follows a version between the change's decoding and its publish."""
    following = orders.spec
    assert following.records is not None
    orders.spec = replace(following, records=replace(following.records, new_fields="unknown_fields"))
    orders.send_version(1)
    orders.send_version(2)
    orders.run(orders.writer()).query.stop()
    # As the declaration has it: fields without a column.
    kept = [row["_unknown_fields"] for row in orders.rows().values()]
    assert (kept.count(None), len(kept)) == (PARTITIONS * EACH, 2 * PARTITIONS * EACH)
    offsets = OffsetRanges.of({p: [(0, 2 * EACH)] for p in range(PARTITIONS)})
    orders.spec = following
    loads = list[StagedRecords]()
    load = IncomingRecords.load

    def with_a_stream_beside(*arguments: Any) -> StagedRecords:
        found = load(*arguments)
        if not loads:
            orders.send_version(2)
            orders.run(orders.writer()).query.stop()
        loads.append(found)
        return found

    monkeypatch.setattr(IncomingRecords, "load", with_a_stream_beside)
    change_of(orders, Action.REPLAY, rows_out=offsets, rows_in=offsets)
    orders.assert_complete()
    assert len(loads) == 2


@pytest.mark.parametrize("orders", [("quarantine", ("number",))], indirect=True)
@pytest.mark.exhaustive
def test_the_column_of_a_partition_becomes_wider_in_batches_of_many_tasks(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SMALL_BATCH", 0)
    for version in (1, 3, 8):
        orders.send_version(version)
        orders.run(orders.writer()).query.stop()
    orders.assert_complete()
    assert orders.columns()["number"] == "long"
    numbers = orders.spark.table(f"{CATALOG}.{orders.spec.table}").where("number = 1").count()
    assert numbers == 1


@pytest.fixture
def consumer(services: Services, tmp_path: Path) -> Iterator[Any]:
    """Starts the consumer as a process of its own, with code in front of it."""
    services.registry  # noqa: B018
    context = services.registry_context
    stream_programs.prepare(context)
    documents = roles.documents(context.home, context.network, context.secrets, registry=True)
    platform = tmp_path / "platform"
    platform.mkdir()
    roles.write(platform, documents)
    environment = context.job_environment() | {
        "SLUICE_PLATFORM_DIR": str(platform),
        VARIABLE: str(tmp_path / "streams"),
    }
    repo = Path(__file__).resolve().parents[2]
    environment["PYTHONPATH"] = os.pathsep.join([str(repo), environment["PYTHONPATH"]])
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str, name: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("ab") as log:
            command = [str(context.python), "-c", code, name]
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.exhaustive
def test_a_consumer_that_is_killed_between_the_columns_and_their_batch(
    orders: Orders, consumer: Any, tmp_path: Path
) -> None:
    orders.send_version(1)
    orders.send_version(8)
    killed = consumer(KILLED, orders.spec.name)
    assert killed.wait(120) == -signal.SIGKILL, (tmp_path / "log").read_text()[-3000:]
    # All that it left: columns that may be null.
    columns = orders.columns()
    assert columns["payment"].startswith("struct<")
    assert IcebergTable(orders.spark, orders.spec.table).properties()["sluice.schema"]
    assert orders.rows() == {}
    orders.send_version(10)
    again = consumer(PLAIN, orders.spec.name)

    def published() -> bool:
        assert again.poll() is None, (tmp_path / "log").read_text()[-3000:]
        # By one load of the table: Spark's looks twice, and fails if a column becomes wider between.
        return orders.count() == len(orders.sent)

    wait_until("all records", published, 120, 1)
    again.send_signal(signal.SIGTERM)
    assert again.wait(60) == 143
    orders.assert_complete()
    assert columns.keys() == orders.columns().keys()
