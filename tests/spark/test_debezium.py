"""A topic that Debezium fills from a PostgreSQL, in Kafka Connect with exactly-once delivery: each record is a
row, equal to what Confluent's consumer reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Message
from pyspark.sql import SparkSession

from local.stack.stack import wait_until
from sluice.core.offsets.ranges import OffsetRanges
from tests.support.connect_worker import ConnectWorker, SourceDatabase
from tests.support.declared import Declaration, DeclaredStream, Place, read
from tests.support.services import Services

# Of the envelope; all else is kept as unknown fields.
ENVELOPE = {"schema.ddl": "op STRING\nts_ms BIGINT\n"}
# Of a record that is flattened to the row after the change.
FLAT = {
    "schema.ddl": "id BIGINT\ncustomer STRING\namount DECIMAL(10, 2)\npaid BOOLEAN\nplaced_at TIMESTAMP\n"
    "__op STRING\n__lsn BIGINT\n__deleted STRING\n"
}
CREATED = """create table {table} (
    id bigint primary key, customer text, amount numeric(10, 2), paid boolean, placed_at timestamptz, items text[]
)"""
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


class Captured(DeclaredStream):
    """``sent``: the number of records that the statements so far are."""

    def __init__(self, *more: Any, source: SourceDatabase, table: str) -> None:
        super().__init__(*more)
        self.source, self.table = source, table
        self.sent = FOUND

    def change(self, *transactions: str, records: int) -> None:
        """Change the table, each text a transaction; ``records``: that it sends."""
        self.source.run(*(text.format(table=self.table) for text in transactions))
        self.sent += records
        wait_until(f"{self.sent} records", lambda: len(self.plain()) >= self.sent, 60, 0.3)

    def plain(self) -> dict[Place, Message]:
        return read(self.services.kafka, self.name)

    def assert_loaded(self, run: str) -> None:
        """The table has exactly the topic's records, each offset is accounted for, and a load is verified."""
        expected = self.plain()
        assert len(expected) == self.sent
        self.plan(run)
        self.verify(run)
        rows, columns = self.rows(), set(self.spec.ddl_columns)
        assert {place: comparable(row) for place, row in rows.items()} == {
            place: expected_row(message, columns) for place, message in expected.items()
        }
        without = self.without_record()
        with self.systems() as systems:
            every = OffsetRanges.from_ends({}, systems.kafka.ends(self.name))
        assert without.control.count > 0
        assert without.offsets == every.minus(offsets(expected))
        assert without.absent.count == without.aborted.count == 0
        assert self.reconcile().present == offsets(expected)


def comparable(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table, its values as JSON has them."""
    found = dict(row)
    if found.get("amount") is not None:
        found["amount"] = str(found["amount"])
    if found.get("placed_at") is not None:
        found["placed_at"] = found["placed_at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    unknown = found["_unknown_fields"]
    return found | {"_unknown_fields": json.loads(unknown) if unknown else {}}


def expected_row(message: Message, columns: set[str]) -> dict[str, Any]:
    """The row that a record of the plain consumer is."""
    key, value = message.key(), message.value()
    headers: list[Any] = message.headers() or []
    fields: dict[str, Any] = json.loads(value) if value is not None else {}
    return {
        **{name: fields.pop(name, None) for name in columns},
        "key": None if key is None else bytes(key).decode(),
        "headers": [{"key": name, "value": content} for name, content in headers] or None,
        "_unknown_fields": fields,
    }


def offsets(places: Any) -> OffsetRanges:
    found: dict[int, list[int]] = {}
    for partition, offset in places:
        found.setdefault(partition, []).append(offset)
    return OffsetRanges.of_values(found)


@pytest.mark.parametrize(("kind", "files", "more"), [("envelope", ENVELOPE, {}), ("flat", FLAT, UNWRAPPED)])
def test_each_change_of_a_table_is_a_row(
    spark: SparkSession,
    services: Services,
    source: SourceDatabase,
    worker: ConnectWorker,
    kind: str,
    files: Mapping[str, str],
    more: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services.minio, services.postgres  # noqa: B018
    monkeypatch.setenv("SLUICE_STREAMS", str(tmp_path))
    table, prefix = f"orders_{kind}", f"shop-{kind}"
    source.run(
        CREATED.format(table=table),
        f"insert into {table} select n, 'customer ' || n, n * 1.5, n % 2 = 0, '2026-06-01T00:00:00.000001Z', "
        f"array['a', 'ä\"'] from generate_series(1, {FOUND}) n",
    )
    worker.start(
        kind,
        {
            **source.login,
            **CREATION,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "slot.name": kind,
            "publication.name": kind,
            "publication.autocreate.mode": "filtered",
            "topic.prefix": prefix,
            "table.include.list": f"public.{table}",
            "decimal.handling.mode": "string",
            "provide.transaction.metadata": "true",
            "exactly.once.support": "required",
            **more,
        },
    )
    topic = f"{prefix}.public.{table}"
    wait_until(f"topic {topic}", lambda: found_records(services, topic) >= FOUND, 60, 0.3)
    declaration = Declaration(topic, 'format = "json"\nkey = "json"\nheaders = "headers"', files)
    stream = Captured(spark, services, f"captured_{kind}", tmp_path, declaration, source=source, table=table)
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

        def is_published() -> bool:
            running.query.processAllAvailable()
            return len(stream.record_offsets()) == stream.sent

        wait_until("the records behind them", is_published, 60, 0.5)
        stream.assert_loaded("two")
    finally:
        stream.stop()


def found_records(services: Services, topic: str) -> int:
    try:
        return len(read(services.kafka, topic))
    except (KafkaException, KeyError):
        # Connect creates it with the first record.
        return 0
