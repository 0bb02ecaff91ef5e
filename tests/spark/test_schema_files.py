"""A stream without a registry that follows the files of its folder ``schemas/``, which come while it runs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from sluice.clients.lake.catalog import Lake
from sluice.config.folders import VARIABLE
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.decoding.avro.decoder import SCHEMA_HEADER
from sluice.core.tables.records import Headers
from spark_jobs.common.kafka import fingerprints
from spark_jobs.common.kafka.avro import AvroSchema
from tests.support.declared import Declaration, DeclaredStream
from tests.support.services import Services

NAME = "schema_files"
ID, NOTE = {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}
SIZE = {"name": "size", "type": "double"}


def schema(*fields: Any) -> AvroSchema:
    return AvroSchema(json.dumps({"type": "record", "name": "Order", "fields": list(fields)}))


FIRST, SECOND, THIRD = schema(ID), schema(ID, NOTE), schema(ID, SIZE)


class Orders(DeclaredStream):
    """``sent``: the records, in their order."""

    def make_topic(self) -> None:
        self.services.make_topic(NAME, 1)
        self.sent: list[dict[str, Any]] = []

    def send(self, written: AvroSchema, **more: Any) -> None:  # type: ignore[override]
        value, body = {"id": len(self.sent), **more}, io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(written.parsed), value)
        # A producer that knows nothing of headers sends what was declared at first.
        name = (SCHEMA_HEADER.decode(), written.fingerprint.encode())
        headers: Headers = [] if written is FIRST else [name]
        producer = Producer({**self.services.kafka, "log_level": 0})
        producer.produce(NAME, body.getvalue(), headers=headers, partition=0)
        assert producer.flush(30) == 0
        self.sent.append(value)

    def in_table(self) -> list[dict[str, Any]]:
        columns = self.columns()
        expected = [dict.fromkeys(columns) | one for one in self.sent]
        found = self.rows()
        assert found == {place: expected[place[1]] for place in found}
        return list(found.values())

    def columns(self) -> list[str]:
        with closing(Lake.open(self.platform)) as lake:
            names = lake.table(self.spec.table).schema().column_names
        return [name for name in names if not name.startswith(("_kafka_", "_source_"))]

    def reasons(self) -> list[str]:
        table = self.spark.table(f"{CATALOG}.{self.spec.quarantine_table}")
        return [row.reason for row in table.orderBy("_kafka_offset").select("reason").collect()]


@pytest.fixture
def orders(
    spark: SparkSession, services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Orders]:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    services.minio, services.postgres  # noqa: B018 - started
    records = 'format = "avro"\nnew_fields = "column"'
    found = Orders(spark, services, NAME, tmp_path, Declaration(NAME, records, {"schema.avsc": FIRST.text}))
    yield found
    found.stop()


def test_a_file_that_comes_adds_its_columns_while_the_stream_runs(orders: Orders) -> None:
    running = orders.run(orders.writer())
    orders.send(FIRST)
    folder = orders.spec.folder / "schemas"
    folder.mkdir()
    (folder / "2.avsc").write_text(SECOND.text)
    orders.send(SECOND, note="a")
    orders.send(FIRST)
    running.query.processAllAvailable()
    assert orders.columns() == ["id", "_unknown_fields", "note"]
    assert len(orders.in_table()) == 3
    # One that is nowhere yet, and its file afterwards: its record is not lost, and the next ones are rows.
    orders.send(THIRD, size=0.5)
    running.query.processAllAvailable()
    assert orders.reasons() == [f"written with an Avro schema that is unknown: {THIRD.fingerprint}"]
    running.query.stop()
    fingerprints._kept.cache_clear()
    # Another process: what was followed needs no file any more.
    (folder / "2.avsc").unlink()
    (folder / "3.avsc").write_text(THIRD.text)
    orders.send(THIRD, size=1.5)
    orders.send(SECOND, note="b")
    orders.run(orders.writer())
    assert orders.columns() == ["id", "_unknown_fields", "note", "size"]
    assert len(orders.in_table()) == 5
    assert len(orders.reasons()) == 1
