"""A stream that follows the Protobuf messages of its records: Confluent's serializer registers and sends
them, and each row has what their deserializer reads with the newest one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.json_format import ParseDict
from pyspark.sql import SparkSession

from local.runtime.registry_access import registry_section
from sluice.clients.lake.catalog import Lake
from sluice.config.folders import VARIABLE
from sluice.config.stream import StreamSpec
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.decoding.protobuf.following.written import row_of_text
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.consumer.direct.follower import SchemaNotFollowed
from spark_jobs.common.consumer.followed import followed_by
from spark_jobs.common.consumer.run import decoding, registry_of
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.lake.iceberg import CATALOG
from spark_jobs.common.maintenance.change import Change
from tests.support.declared import Declaration, DeclaredStream, Place, offsets, read
from tests.support.lakehouse import PARTITIONS, Stream
from tests.support.protobuf import message_class, schema
from tests.support.protobuf_rows import expected
from tests.support.protobuf_versions import in_columns, without
from tests.support.raising import raising
from tests.support.services import Services

_numbers = count()
EACH = 2
MESSAGE = 'message = "shop.Order"'
V1 = """syntax = "proto3"; package shop;
enum State { NEW = 0; PAID = 1; }
message Address { string city = 1; }
message Order {
  message Line { string sku = 1; }
  message Rate { uint32 cents = 1; }
  int64 id = 1; int32 number = 2; string note = 3; Address address = 4; repeated Line lines = 5;
  map<string, Rate> rates = 6; State state = 7; float ratio = 8;
}
"""


def changed(text: str, *changes: tuple[str, str]) -> str:
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


V2 = changed(
    V1,
    ("string city = 1;", "string city = 1; int32 zip = 2;"),
    ("string sku = 1;", "string sku = 1; optional int32 count = 2;"),
    ("uint32 cents = 1;", "uint32 cents = 1; bytes by = 2;"),
    ("float ratio = 8;", "float ratio = 8; string channel = 9;"),
)
# Wider, a further symbol, another name, and one that moves into a oneof.
V3 = changed(
    V2,
    ("int32 number", "int64 number"),
    ("PAID = 1;", "PAID = 1; LOST = 2;"),
    ("string note = 3;", ""),
    ("string channel = 9;", "string channel = 9; oneof words { string remark = 3; Address where = 10; }"),
)
V4 = changed(V3, ("float ratio", "double ratio"))
V5 = changed(V3, ("Address address = 4;", "reserved 4;"), ("int64 number = 2;", ""))
V6 = changed(V5, ("reserved 4;", "repeated string parts = 4;"))
VERSIONS = (V1, V2, V3, V4, V5, V6)
REFUSED = {
    4: "ratio: the table has float, the schema double",
    6: "address: the table has a message, the schema repeated string",
}
# What versions have as they are read at last.
NEWEST = changed(
    V5, ("reserved 4;", "Address address = 4;"), ("int64 id = 1;", "int64 id = 1; int64 number = 2;")
)


def value(version: int, number: int) -> dict[str, Any]:
    """A message of a version, from 1, as JSON has it."""
    line = {"sku": f"s{number}"} | ({} if version == 1 else {"count": 2})
    every: dict[str, Any] = {
        "id": number,
        "number": 2**40 + number if version >= 3 else -number,
        "note": "n",
        "remark": "" if number % 2 else "r",
        "address": {"city": "Oslo"} | ({} if version == 1 else {"zip": -150}),
        "lines": [line, {}],
        "rates": {"a": {"cents": 2**32 - 1} | ({} if version == 1 else {"by": "eA=="}), "b": {}},
        "state": "LOST" if version >= 3 else "PAID",
        "ratio": 0.5,
        "channel": "web",
    }
    fields = class_of(version).DESCRIPTOR.fields_by_name
    return {name: one for name, one in every.items() if name in fields}


def class_of(version: int) -> Any:
    return message_class(schema(VERSIONS[version - 1]).message("shop.Order"))


class Orders(DeclaredStream):
    """A stream over a topic that a program with Confluent's serializer fills."""

    def __init__(self, spark: SparkSession, services: Services, root: Path, more: str = "") -> None:
        name = f"moving_messages_{next(_numbers)}"
        records = f'format = "protobuf"\nregistry = true\nnew_fields = "column"\n{more}\n{MESSAGE}'
        super().__init__(
            spark, services, name, root / "streams", Declaration(name, records, {"schema.proto": V1})
        )
        section = registry_section("producer", services.stack.context.network, services.stack.secrets)
        login = f"{section['username']}:{section['password']}"
        self.registry = {"url": section["url"], "basic.auth.user.info": login}
        self.client: Any = SchemaRegistryClient.new_client(self.registry)
        level = ServerConfig(compatibility=ConfigCompatibilityLevel.NONE)
        self.client.set_config(f"{name}-value", level)
        self.producer = Producer({**services.kafka, "log_level": 0})
        self.sent: list[int] = []

    def make_topic(self) -> None:
        Stream.make_topic(self)

    def spec_of(self, name: str, by: tuple[str, ...]) -> StreamSpec:
        spec = super().spec_of(name, by)
        return replace(spec, topic=replace(spec.topic, start="earliest"))

    def send_version(self, version: int) -> None:
        """Records of a version, from 1, in each partition; ``id`` counts all of them."""
        conf = {"use.deprecated.format": False, "subject.name.strategy.type": "TOPIC"}
        kind = class_of(version)
        serialize: Any = ProtobufSerializer(kind, self.client, conf)
        context = SerializationContext(self.name, MessageField.VALUE)
        for number in range(EACH * PARTITIONS):
            message = ParseDict(value(version, len(self.sent)), kind())
            self.producer.produce(self.name, serialize(message, context), partition=number % PARTITIONS)
            self.sent.append(version)
        assert self.producer.flush(30) == 0

    def quarantined(self) -> dict[Place, str]:
        table = self.spark.table(f"{CATALOG}.{self.spec.quarantine_table}")
        found = table.select("_kafka_partition", "_kafka_offset", "reason").collect()
        return {(row[0], row[1]): row[2] for row in found}

    def rows(self) -> dict[Place, dict[str, Any]]:
        found = self.spark.table(f"{CATALOG}.{self.spec.table}").toArrow().to_pylist()
        places = {(row["_kafka_partition"], row["_kafka_offset"]): row for row in found}
        assert len(places) == len(found)
        return places

    def columns(self) -> dict[str, str]:
        with closing(Lake.open(self.platform)) as lake:
            fields = lake.table(self.spec.table).schema().fields
        return {field.name: str(field.field_type) for field in fields if not field.name.startswith("_")}

    def assert_complete(self) -> None:
        """Each record is a row with all that it has, or is in quarantine."""
        rows, quarantined = self.rows(), self.quarantined()
        text = followed_by(self.spark, self.platform, self.spec)
        table = row_of_text(text)[1]
        newest = message_class(schema(NEWEST).message("shop.Order"))
        deserialize: Any = ProtobufDeserializer(newest, {"use.deprecated.format": False})
        context = SerializationContext(self.name, MessageField.VALUE)
        topic = read(self.services.kafka, self.name)
        assert len(topic) == len(self.sent) == len(rows) + len(quarantined)
        for place, record in topic.items():
            message = deserialize(record.value(), context)
            version = self.sent[message.id]
            if version in REFUSED:
                assert f"cannot be followed: {REFUSED[version]}. Fix: " in quarantined[place]
                continue
            wanted = in_columns(expected(message), table, class_of(version).DESCRIPTOR, newest.DESCRIPTOR)
            assert without(rows[place], wanted) == wanted, (version, place)
            assert rows[place]["_unknown_fields"] is None

    def change(self, action: Action, **ranges: Any) -> None:
        decoder = partial(decoding, self.spec, registry_of(self.spec, self.platform))
        plan = ChangePlan("r1", action, self.name, **ranges, changes=0)
        Change(self.spark, self.platform, self.spec, decoder, plan).run()


@pytest.fixture(params=[""])
def orders(
    spark: SparkSession,
    services: Services,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Orders]:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "streams"))
    # Confluent's client of the registry heeds a proxy of the environment, which reaches no loopback.
    monkeypatch.setenv("NO_PROXY", "*")
    services.minio, services.postgres, services.registry  # noqa: B018
    found = Orders(spark, services, tmp_path, request.param)
    yield found
    found.stop()


class Killed(Exception):
    """In the place of an end of the process."""


def test_versions_come_while_the_stream_runs_and_one_ends_between_columns_and_batch(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = orders.run(orders.writer())
    for version in (1, 2, 1, 4):
        orders.send_version(version)
        running.query.processAllAvailable()
        assert len(orders.rows()) + len(orders.quarantined()) == len(orders.sent)
    orders.assert_complete()
    columns = orders.columns()
    assert list(columns)[-1] == "channel"
    assert "zip" in columns["address"]

    change = StreamWriter.change_schema

    def killed(*arguments: Any) -> None:
        change(*arguments)
        raise Killed

    before = orders.rows().keys()
    orders.send_version(3)
    with monkeypatch.context() as patched:
        patched.setattr(StreamWriter, "change_schema", killed)
        with pytest.raises(Exception, match="Killed"):
            running.query.processAllAvailable()
    # All that it left: a wider column, and one that may be null.
    columns = orders.columns()
    assert columns["number"] == "long"
    assert columns["where"].startswith("struct<")
    assert orders.rows().keys() == before
    orders.send_version(1)
    orders.run(orders.writer())
    orders.assert_complete()
    assert orders.columns() == columns


@pytest.mark.exhaustive
def test_a_catalog_that_is_restored_follows_again_and_versions_come_in_any_order(orders: Orders) -> None:
    orders.send_version(1)
    starting = orders.writer()
    orders.run(starting).query.stop()
    location = orders.metadata_location()
    for version in (5, 6, 3, 2):
        orders.send_version(version)
    running = orders.run(starting)
    orders.assert_complete()
    running.query.stop()
    columns = orders.columns()
    orders.restore_catalog(location)
    assert "channel" not in orders.columns()
    orders.run(starting)
    orders.assert_complete()
    assert orders.columns() == columns


@pytest.mark.parametrize("orders", ['on_incompatible = "stop"'], indirect=True)
def test_a_stream_that_stops_publishes_nothing_of_the_batch(orders: Orders) -> None:
    orders.send_version(2)
    orders.run(orders.writer()).query.stop()
    columns = orders.columns()
    # The first of them alone could be followed: nothing is.
    orders.send_version(3)
    orders.send_version(4)
    starting = orders.writer()
    running = orders.consume(starting, starting.acquire())
    with raising(SchemaNotFollowed, orders.spec.table, REFUSED[4], "Fix: "):
        orders.await_end(running)
    assert len(orders.rows()) == PARTITIONS * EACH
    assert (orders.quarantined(), orders.columns()) == ({}, columns)


@pytest.mark.exhaustive
def test_changes_fill_columns_that_came_after_their_records(orders: Orders) -> None:
    following = orders.spec
    assert following.records is not None
    orders.spec = replace(following, records=replace(following.records, new_fields="unknown_fields"))
    for version in (1, 2, 3):
        orders.send_version(version)
    orders.run(orders.writer()).query.stop()
    refused = orders.quarantined()
    assert {reason.partition(": ")[2].partition(". Fix: ")[0] for reason in refused.values()} == {
        "number: the table has int32, the schema long"
    }
    kept = [json.loads(row["_unknown_fields"]) for row in orders.rows().values() if row["_unknown_fields"]]
    assert [one["channel"] for one in kept] == ["web"] * EACH * PARTITIONS
    # A change follows no version: the stream does, with its next record of it.
    orders.spec = following
    orders.send_version(3)
    orders.run(orders.writer()).query.stop()
    orders.change(Action.RETRY, rows_in=offsets(refused))
    assert orders.quarantined() == {}
    those = OffsetRanges.of({p: [(0, 2 * EACH)] for p in range(PARTITIONS)})
    decoder = partial(decoding, orders.spec, registry_of(orders.spec, orders.platform))
    again = ChangePlan("r2", Action.REPLAY, orders.name, rows_out=those, rows_in=those, changes=1)
    Change(orders.spark, orders.platform, orders.spec, decoder, again).run()
    orders.assert_complete()
