"""A topic of Protobuf messages: Confluent's serializer writes, and their deserializer reads the same rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from local.runtime.registry_access import registry_section
from sluice.clients.registry.schemas import RegistrySchemas
from sluice.config import streams
from sluice.config.folders import VARIABLE
from sluice.config.platform_sections.registry import Registry
from sluice.config.reading.protoc import compiled
from sluice.config.stream import StreamSpec
from spark_jobs.common.consumer.decoded_rows import Decode
from spark_jobs.common.consumer.direct.direct_rows import DirectSource
from spark_jobs.common.consumer.run import decoding, record_type
from spark_jobs.common.lake.iceberg import CATALOG
from tests.support.lakehouse import PARTITIONS, Stream
from tests.support.protobuf_rows import expected
from tests.support.services import Services

NAME = "shop_messages"
ITEM = """
syntax = "proto3";
package shop;
import "google/protobuf/wrappers.proto";
message Item { string sku = 1; uint32 count = 2; google.protobuf.DoubleValue price = 3; }
"""
ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
import "shop/item.proto";
enum State { NEW = 0; PAID = 1; }
message Ignored { string text = 1; }
message Order {
  uint64 id = 1;
  State state = 2;
  repeated Item items = 3;
  map<string, Item> by_place = 4;
  map<int32, bool> flags = 5;
  oneof pay { string card = 6; Item voucher = 7; }
  optional int32 points = 8;
  google.protobuf.Timestamp placed_at = 9;
  google.protobuf.Struct payload = 10;
  bytes raw = 11;
  sint64 change = 12;
}
"""
NEWER = ORDER.replace("bytes raw = 11;", "bytes raw = 11; string channel = 13; repeated Item gifts = 14;")
DECLARED = f"""
name = "{NAME}"
schema = "schema.proto"
table = "raw.{NAME}"
[topic]
name = "{NAME}"
managed = false
[records]
format = "protobuf"
registry = true
message = "shop.Order"
[budget]
versions_per_batch = 20
"""


def order_class(text: str) -> Any:
    """A class as protoc would write it."""
    pool = DescriptorPool()
    content = compiled({"shop/order.proto": text, "shop/item.proto": ITEM}, "shop/order.proto")
    for file in FileDescriptorSet.FromString(content).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


class Messages(Stream):
    """The stream, and its registry's schemas."""

    def spec_of(self, name: str, by: tuple[str, ...]) -> StreamSpec:
        spec = streams.load(name)
        topic = replace(spec.topic, partitions=PARTITIONS)
        return replace(spec, topic=topic, consumer=replace(spec.consumer, trigger_seconds=0))

    def record(self) -> StructType:
        return record_type(self.spark, self.spec)

    def rows_of(self, decode: Decode | None = None) -> DirectSource:
        url = self.services.registry
        context = self.services.registry_context
        section = registry_section("consumer", context.network, context.secrets)
        assert section["url"] == url
        schemas = RegistrySchemas(Registry(**section), self.platform.s3, self.platform.lake.ledger)
        return DirectSource(self.spark, self.platform, self.spec, decoding(self.spec, schemas))

    def client(self) -> Mapping[str, Any]:
        context = self.services.registry_context
        section = registry_section("producer", context.network, context.secrets)
        login = f"{section['username']}:{section['password']}"
        return {"url": section["url"], "basic.auth.user.info": login}


@pytest.fixture
def messages(
    spark: SparkSession, services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Messages]:
    services.minio, services.postgres, services.registry  # noqa: B018
    folder = tmp_path / "streams" / NAME
    (folder / "shop").mkdir(parents=True)
    (folder / "stream.toml").write_text(DECLARED)
    (folder / "schema.proto").write_text(ORDER)
    (folder / "shop" / "item.proto").write_text(ITEM)
    known = os.environ.get(VARIABLE, "")
    monkeypatch.setenv(VARIABLE, os.pathsep.join(filter(None, [known, str(folder.parent)])))
    # Confluent's client of the registry heeds a proxy of the environment, which reaches no loopback.
    monkeypatch.setenv("NO_PROXY", "*")
    made = Messages(spark, services, NAME, str(tmp_path / "checkpoints"))
    yield made
    made.stop()


def sent(kind: Any, number: int) -> Any:
    """An order; its fields are set as its number says."""
    order = kind(id=2**64 - 1 - number, state=number % 3, raw=bytes([number % 256]), change=-number)
    for place in range(number % 3):
        order.items.add(sku=f"s{place}", count=2**32 - 1 - place).price.value = 0.1 * number
    order.by_place["here"].sku = "é"
    order.flags[-number] = number % 2 == 0
    if number % 4 == 1:
        order.card = ""
    elif number % 4 == 2:
        order.voucher.SetInParent()
    if number % 5:
        order.points = 0
        order.placed_at.FromNanoseconds(1_780_000_000_123_456_000 + number * 1000)
        order.payload.update({"n": [number, None, {"deep": "x"}]})
    if "channel" in kind.DESCRIPTOR.fields_by_name:
        order.channel = "" if number % 2 else "web"
        order.gifts.add(sku="gift")
    return order


def read_by_confluent(messages: Messages) -> dict[tuple[int, int], Any]:
    """Partition and offset -> the message as Confluent's deserializer has it, or its error."""
    # Without a client of a registry, of which it reads rules alone: it asks for descriptors, which Apicurio's
    # answers with a text, or an error.
    read = ProtobufDeserializer(order_class(ORDER), {"use.deprecated.format": False})
    consumer = Consumer({**messages.services.kafka, "group.id": "check", "log_level": 0})
    ends = {part: consumer.get_watermark_offsets(TopicPartition(NAME, part), 20)[1] for part in range(2)}
    consumer.assign([TopicPartition(NAME, part, 0) for part in range(2)])
    found: dict[tuple[int, int], Any] = {}
    context = SerializationContext(NAME, MessageField.VALUE)
    for _ in range(sum(ends.values())):
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        try:
            found[partition, offset] = read(message.value(), context)
        # It has several kinds of errors.
        except Exception as error:
            found[partition, offset] = error
    consumer.close()
    return found


def register(messages: Messages, subject: str, text: str, imports: list[str]) -> int:
    """As serializers of Java do it: the text. Returns the schema's id."""
    settings = messages.client()
    answer = httpx.post(
        f"{settings['url']}/subjects/{subject}/versions",
        json={
            "schemaType": "PROTOBUF",
            "schema": text,
            "references": [{"name": name, "subject": name, "version": 1} for name in imports],
        },
        auth=httpx.BasicAuth(*settings["basic.auth.user.info"].split(":")),
        timeout=60,
        trust_env=False,
    )
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])


def reframed(schema_id: int, body: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + body[5:]


def test_rows_are_what_confluents_deserializer_reads(spark: SparkSession, messages: Messages) -> None:
    client = SchemaRegistryClient(dict(messages.client()))
    producer = Producer({**messages.services.kafka, "log_level": 0})
    context = SerializationContext(NAME, MessageField.VALUE)
    register(messages, quote("shop/item.proto", ""), ITEM, [])
    as_text = register(messages, "as-text", ORDER, ["shop/item.proto"])
    conf = {"use.deprecated.format": False, "subject.name.strategy.type": "TOPIC"}
    older, newer = order_class(ORDER), order_class(NEWER)
    serializers = [ProtobufSerializer(kind, client, conf) for kind in (older, newer)]
    orders = [[sent(kind, number) for number in range(40)] for kind in (older, newer)]
    bodies = [
        serialize(order, context)
        for serialize, of_kind in zip(serializers, orders, strict=True)
        for order in of_kind
    ]
    # This serializer registers descriptors in base64; the first records name a text.
    bodies[: len(orders[0])] = [reframed(as_text, body) for body in bodies[: len(orders[0])]]
    renamed = register(messages, "renamed", NEWER.replace("channel", "by_text"), ["shop/item.proto"])
    bodies.append(reframed(renamed, bodies[-1]))
    wrong = [bodies[0][:-1], bodies[0][:5], bodies[0][:5] + b"\2\0" + bodies[0][7:], b"text"]
    for number, body in enumerate([*bodies, *wrong]):
        producer.produce(NAME, body, partition=number % 2)
    assert producer.flush(30) == 0

    messages.run(messages.writer())
    rows = spark.table(f"{CATALOG}.raw.{NAME}").toArrow().to_pylist()
    quarantined = spark.table(f"{CATALOG}.raw.{NAME}_quarantine").toArrow().to_pylist()
    assert len(rows) == len(bodies)
    by_confluent = read_by_confluent(messages)
    unknown = []
    for row in rows:
        place = row["_kafka_partition"], row["_kafka_offset"]
        columns = {name: row[name] for name in older.DESCRIPTOR.fields_by_name}
        if columns["payload"] is not None:
            columns["payload"] = json.loads(columns["payload"])
        assert columns == expected(by_confluent[place]), place
        unknown.append(row["_unknown_fields"])
    gift = '"gifts":[{"sku":"gift","count":0}]'
    said = [f'{{"channel":"web",{gift}}}'] * 20 + [f'{{"channel":"",{gift}}}'] * 20
    assert sorted(filter(None, unknown)) == sorted([*said, f'{{"by_text":"",{gift}}}'])
    reasons = {row["value"]: row["reason"] for row in quarantined}
    words = ["not a message shop.Order: ", "message indexes", "is a shop.Ignored, and", "starts with 74"]
    for body, word in zip(wrong, words, strict=True):
        assert word in reasons[body]
