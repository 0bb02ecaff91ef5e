"""A topic that Debezium fills from a PostgreSQL, in Kafka Connect with exactly-once delivery: each record is
a row, equal to what Confluent's consumer reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Message
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from local.stack.stack import wait_until
from sluice.clients.lake.catalog import Lake
from sluice.core.offsets.offset_set import OffsetSet
from spark_jobs.common.consumer.run import ConsumerRun
from tests.support.connect_worker import ConnectWorker, SourceDatabase, avro_converters
from tests.support.declared import Declaration, DeclaredStream, Place, offsets, read
from tests.support.schema_versions import has_all
from tests.support.services import Services
from tests.unit.core.decoding.avro.test_both_ways import fastavros

# The envelope; all else is kept as unknown fields.
ENVELOPE = {"schema.ddl": "op STRING\nts_ms BIGINT\n"}
# A record that is flattened to the row after the change.
FLAT = {
    "schema.ddl": "id BIGINT\ncustomer STRING\namount DECIMAL(10, 2)\npaid BOOLEAN\nplaced_at TIMESTAMP\n"
    "__op STRING\n__lsn BIGINT\n__deleted STRING\n"
}
# The same of Avro, in which the envelope has parts of their own.
AVRO = {
    "schema.avsc": json.dumps(
        {
            "type": "record",
            "name": "Change",
            "fields": [
                {"name": "op", "type": "string"},
                {"name": "ts_ms", "type": ["null", "long"], "default": None},
                {
                    "name": "after",
                    "default": None,
                    "type": [
                        "null",
                        {
                            "type": "record",
                            "name": "Value",
                            "fields": [
                                {"name": "id", "type": "long"},
                                {"name": "customer", "type": ["null", "string"], "default": None},
                                {"name": "paid", "type": ["null", "boolean"], "default": None},
                                {
                                    "name": "amount",
                                    "default": None,
                                    "type": [
                                        "null",
                                        {
                                            "type": "bytes",
                                            "logicalType": "decimal",
                                            "precision": 10,
                                            "scale": 2,
                                        },
                                    ],
                                },
                            ],
                        },
                    ],
                },
            ],
        }
    )
}
CREATED = """create table {table} (
    id bigint primary key, customer text, amount numeric(10, 2), paid boolean, placed_at timestamptz,
    items text[]
)"""
# Fields of a record in AVRO's `after`.
AFTER = ("id", "customer", "paid", "amount")
# Rows that the connector finds.
FOUND = 20
# As Connect creates the topic.
CREATION = {
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "2",
    "topic.creation.default.cleanup.policy": "compact",
}
UNWRAPPED = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.add.fields": "op,lsn",
    "transforms.unwrap.delete.tombstone.handling.mode": "rewrite-with-tombstone",
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SourceDatabase]:
    made = SourceDatabase(tmp_path_factory.mktemp("source"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def worker(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    made = ConnectWorker(services, tmp_path_factory.mktemp("connect"))
    yield made
    made.stop()


Record = Mapping[str, Any]


class Captured(DeclaredStream):
    """``sent``: the number of records that the statements so far are; ``decoded``: key and value of a
    message, as the plain consumer's deserializers have them."""

    def __init__(
        self,
        *more: Any,
        source: SourceDatabase,
        worker: ConnectWorker,
        name: str,
        decoded: Callable[[Message], tuple[Any, Record | None]],
    ) -> None:
        super().__init__(*more)
        self.source, self.worker, self.connector, self.decoded = source, worker, name, decoded
        self.sent = FOUND

    def change(self, *transactions: str, records: int) -> None:
        """Change the table, each text a transaction; ``records``: that it sends."""
        self.source.run(*(text.format(table=f"orders_{self.connector}") for text in transactions))
        self.sent += records

        def is_sent() -> bool:
            return self.worker.runs(self.connector) and len(self.plain()) >= self.sent

        wait_until(f"{self.sent} records", is_sent, 60, 0.3)

    def plain(self) -> dict[Place, Message]:
        return read(self.services.kafka, self.name)

    def assert_loaded(self, run: str) -> None:
        """The table has exactly the topic's records, each offset is accounted for, and a load is verified."""
        expected = self.plain()
        columns = self.record().names
        self.assert_verified(run, expected)
        assert {place: comparable(row) for place, row in self.rows().items()} == {
            place: self.expected_row(message, columns) for place, message in expected.items()
        }

    def assert_followed(self, run: str) -> None:
        """As :meth:`assert_loaded`, of a table that has a column for each field."""
        expected, rows = self.plain(), self.rows()
        self.assert_verified(run, expected)
        assert rows.keys() == expected.keys()
        for place, message in expected.items():
            row, (key, value) = rows[place], self.decoded(message)
            assert (row.pop("key"), row.pop("_unknown_fields")) == (key, None)
            assert row.pop("headers") == as_rows(message)
            assert has_all(row, fastavros(value or {}) or {}, str), (row, value)

    def columns(self) -> str:
        """The table's columns with their types, nested ones too, as Iceberg has them."""
        with closing(Lake.open(self.platform)) as lake:
            return str(lake.table(self.spec.table).schema())

    def publish(self, running: ConsumerRun) -> None:
        """Wait until all that was sent is published."""

        def is_published() -> bool:
            running.query.processAllAvailable()
            return len(self.record_offsets()) == self.sent

        wait_until("the records behind them", is_published, 60, 0.5)

    def assert_verified(self, run: str, expected: Mapping[Place, Message]) -> None:
        assert len(expected) == self.sent
        self.plan(run)
        self.verify(run)
        without = self.without_record()
        assert without.control.count > 0
        assert without.offsets == self.all_offsets().minus(offsets(expected))
        assert without.absent.count == without.aborted.count == 0
        assert self.reconcile().present == OffsetSet.of(offsets(expected))

    def expected_row(self, message: Message, columns: list[str]) -> dict[str, Any]:
        """The row that a record of the plain consumer is."""
        key, fields = self.decoded(message)
        row: dict[str, Any] = dict.fromkeys(columns) | {
            "key": key,
            "headers": as_rows(message),
            "_unknown_fields": {},
        }
        for name, value in (fields or {}).items():
            if name not in columns:
                row["_unknown_fields"][name] = as_json(value)
            elif name == "after" and value is not None:
                # The table has these fields, and the others are kept at their place.
                row[name] = {part: as_json(value[part]) for part in AFTER}
                unknown = {part: as_json(one) for part, one in value.items() if part not in AFTER}
                row["_unknown_fields"][name] = unknown
            else:
                row[name] = as_json(value)
        return row


def as_rows(message: Message) -> list[Record] | None:
    """A record's headers as the table has them."""
    headers: Any = message.headers() or []
    return [{"key": name, "value": content} for name, content in headers] or None


def as_json(value: Any) -> Any:
    """As a text of JSON has it in `_unknown_fields`."""
    if isinstance(value, Mapping):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    return str(value) if isinstance(value, Decimal) else value


def comparable(row: Record) -> dict[str, Any]:
    """A row of the table in the same form."""
    found = {name: value if name == "headers" else as_json(value) for name, value in row.items()}
    if found.get("placed_at") is not None:
        found["placed_at"] = found["placed_at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    unknown = found["_unknown_fields"]
    return found | {"_unknown_fields": json.loads(unknown) if unknown else {}}


def by_json(services: Services) -> Callable[[Message], tuple[Any, Record | None]]:
    def decoded(message: Message) -> tuple[Any, Record | None]:
        key, value = message.key(), message.value()
        return (None if key is None else bytes(key).decode()), (None if value is None else json.loads(value))

    return decoded


def by_registry(services: Services) -> Callable[[Message], tuple[Any, Record | None]]:
    login = f"sluice-reader:{services.stack.secrets['registry_reader']}"
    registry = SchemaRegistryClient.new_client({"url": services.registry, "basic.auth.user.info": login})
    deserialize = AvroDeserializer(registry)

    def decoded(message: Message) -> tuple[Any, Record | None]:
        topic = str(message.topic())
        key: Any = deserialize(message.key(), SerializationContext(topic, MessageField.KEY))
        value: Any = deserialize(message.value(), SerializationContext(topic, MessageField.VALUE))
        return json.dumps(key, separators=(",", ":")), value

    return decoded


@dataclass(frozen=True)
class Kind:
    """``records``: of the declaration; ``files``: of its schema; ``decoded``: see Captured; ``connector``:
    settings."""

    records: str
    files: Mapping[str, str]
    decoded: Callable[[Services], Callable[[Message], tuple[Any, Record | None]]]
    connector: Mapping[str, str] = field(default_factory=dict)


KINDS = {
    "envelope": Kind('format = "json"\nkey = "json"', ENVELOPE, by_json, {"decimal.handling.mode": "string"}),
    "flat": Kind(
        'format = "json"\nkey = "json"', FLAT, by_json, {"decimal.handling.mode": "string", **UNWRAPPED}
    ),
    "avro": Kind(
        'format = "avro"\nregistry = true\nkey = "avro"',
        AVRO,
        by_registry,
        # Names of topics may have characters that Avro's names have not.
        {"schema.name.adjustment.mode": "avro"},
    ),
}


def captured(
    spark: SparkSession,
    services: Services,
    folder: Path,
    source: SourceDatabase,
    worker: ConnectWorker,
    name: str,
    kind: Kind,
) -> Captured:
    """The stream over a table's topic, once its connector has sent the rows that it found."""
    table, prefix = f"orders_{name}", f"shop-{name}"
    # Also starts the registry, which the connector needs.
    decoded = kind.decoded(services)
    worker.start(
        name,
        {
            **source.login,
            **CREATION,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "slot.name": name,
            "publication.name": name,
            "publication.autocreate.mode": "filtered",
            "topic.prefix": prefix,
            "table.include.list": f"public.{table}",
            "provide.transaction.metadata": "true",
            "exactly.once.support": "required",
            **(avro_converters(services) if "registry" in kind.records else {}),
            **kind.connector,
        },
    )
    topic = f"{prefix}.public.{table}"
    wait_until(f"topic {topic}", lambda: found_records(services, topic) >= FOUND, 60, 0.3)
    declaration = Declaration(topic, f'{kind.records}\nheaders = "headers"', kind.files)
    return Captured(
        *(spark, services, f"captured_{name}", folder, declaration),
        source=source,
        worker=worker,
        name=name,
        decoded=decoded,
    )


@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("envelope", "flat")), "avro"]
)
def test_each_change_of_a_table_is_a_row(
    spark: SparkSession,
    services: Services,
    source: SourceDatabase,
    worker: ConnectWorker,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services.minio, services.postgres  # noqa: B018
    monkeypatch.setenv("SLUICE_STREAMS", str(tmp_path))
    table = f"orders_{name}"
    source.run(
        CREATED.format(table=table),
        f"insert into {table} select n, 'customer ' || n, n * 1.5, n % 2 = 0, '2026-06-01T00:00:00.000001Z', "
        f"array['a', 'ä\"'] from generate_series(1, {FOUND}) n",
    )
    stream = captured(spark, services, tmp_path, source, worker, name, KINDS[name])
    try:
        stream.change(
            "update {table} set amount = amount + 1 where id < 5; "
            "insert into {table} values (100, null, null, null, null, null)",
            # Each with a tombstone; a changed key is a deletion and an insert.
            "delete from {table} where id in (6, 7)",
            "update {table} set id = 200 where id = 8",
            records=5 + 4 + 3,
        )
        running = stream.run(stream.writer())
        stream.assert_loaded("one")
        # A column more, while the stream runs.
        stream.change(
            "alter table {table} add column note text; insert into {table} values (300, 'x', 1, true, now())",
            "update {table} set note = 'new' where id = 300; delete from {table} where id = 1",
            records=1 + 1 + 2,
        )
        stream.publish(running)
        stream.assert_loaded("two")
    finally:
        stream.stop()


@pytest.mark.exhaustive
def test_a_table_follows_the_one_that_is_altered(
    spark: SparkSession,
    services: Services,
    source: SourceDatabase,
    worker: ConnectWorker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services.minio, services.postgres  # noqa: B018
    monkeypatch.setenv("SLUICE_STREAMS", str(tmp_path))
    name = "altered"
    kind = replace(KINDS["avro"], records=f'{KINDS["avro"].records}\nnew_fields = "column"')
    source.run(
        "create table orders_altered (id bigint primary key, customer text, amount numeric(10, 2), "
        "paid boolean, quantity int, ratio real)",
        f"insert into orders_altered select n, 'customer ' || n, n * 1.5, n % 2 = 0, n, n * 0.5 "
        f"from generate_series(1, {FOUND}) n",
    )
    stream = captured(spark, services, tmp_path, source, worker, name, kind)
    try:
        running = stream.run(stream.writer())
        stream.assert_followed("one")
        columns = stream.columns()
        declared = ("quantity: optional int", "amount: optional decimal(10, 2)")
        assert all(one in columns for one in declared), columns
        # The declaration has neither; both came with the first record.
        assert columns.count("ratio: optional float") == 2
        stream.change(
            "insert into {table} values (100, 'before', 1.25, true, 7, 0.5)",
            "alter table {table} add column note text; "
            "insert into {table} values (101, 'x', 1, true, 1, 1, 'n')",
            "alter table {table} alter column quantity type bigint, "
            "alter column ratio type double precision, alter column amount type numeric(20, 2)",
            f"insert into {{table}} values (102, 'y', 123456789012345.67, true, {2**40}, 0.1, 'wide')",
            "update {table} set note = 'filled' where id = 1; delete from {table} where id = 2",
            "alter table {table} drop column customer",
            "insert into {table} values (103, 1, true, 1, 1, 'without')",
            records=1 + 1 + 1 + 1 + 2 + 1,
        )
        stream.publish(running)
        stream.assert_followed("two")
        columns = stream.columns()
        assert columns.count("note: optional string") == columns.count("customer: optional string") == 2
        wider = ("quantity: optional long", "ratio: optional double", "amount: optional decimal(20, 2)")
        assert all(one in columns for one in wider), columns
    finally:
        stream.stop()


def found_records(services: Services, topic: str) -> int:
    try:
        return len(read(services.kafka, topic))
    except (KafkaException, KeyError):
        # Connect creates it with the first record.
        return 0
