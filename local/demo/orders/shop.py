"""A shop that fills a topic of its own with Confluent's client: it knows nothing of Sluice.

Orders in transactions, one of which is aborted, and some without a transaction; cancelled orders as
tombstones; two versions of the schema; and records that no consumer can read.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any

from confluent_kafka import KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.error import KafkaError
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

Place = tuple[int, int]
Order = dict[str, Any]

PARTITIONS = 3
ORDER_FIELDS: list[dict[str, Any]] = [
    {"name": "order_id", "type": "long"},
    {"name": "customer", "type": ["null", "string"], "default": None},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    {"name": "placed_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "items", "type": {"type": "array", "items": "string"}},
]
# The second version's; with a default, so that it is compatible with the first.
CHANNEL: dict[str, Any] = {"name": "channel", "type": "string", "default": "web"}
VERSIONS = (ORDER_FIELDS, [*ORDER_FIELDS, CHANNEL])

# For each version of the schema.
TRANSACTIONS, ORDERS = 6, 250
WITHOUT_TRANSACTION, CANCELLED, UNREADABLE = 50, 20, 5
UNKNOWN_SCHEMA_ID = 2_000_000_000
SECONDS = 60.0


class Kind(StrEnum):
    """What became of a record that was sent, or was wrong with it."""

    ORDER = "order"
    CANCELLED = "cancelled"
    ABORTED = "aborted"
    NOT_FRAMED = "not framed"
    UNKNOWN_SCHEMA = "unknown schema id"
    TRUNCATED = "truncated"


# What no consumer can read; sent without a transaction.
UNREADABLE_KINDS = (Kind.NOT_FRAMED, Kind.UNKNOWN_SCHEMA, Kind.TRUNCATED)


@dataclass(frozen=True)
class Step:
    """Records that are sent together. `version`: of the schema, from 0."""

    version: int
    kind: Kind
    count: int
    in_transaction: bool = True


def plan() -> Sequence[Step]:
    """All that is sent, in this order."""
    steps: list[Step] = []
    for version in range(len(VERSIONS)):
        steps += [Step(version, Kind.ORDER, ORDERS)] * TRANSACTIONS
        steps.append(Step(version, Kind.CANCELLED, CANCELLED))
        if version == 0:
            steps.append(Step(version, Kind.ABORTED, ORDERS))
        steps.append(Step(version, Kind.ORDER, WITHOUT_TRANSACTION, in_transaction=False))
        steps += [Step(version, kind, UNREADABLE, in_transaction=False) for kind in UNREADABLE_KINDS]
    return steps


class Shop:
    """`kafka`: librdkafka's settings, of a user who may create and fill the topic; `registry`: those of
    Confluent's SchemaRegistryClient, of one who may register schemas."""

    def __init__(self, kafka: Mapping[str, Any], registry: Mapping[str, Any], topic: str) -> None:
        self.topic = topic
        self._kafka = {**kafka, "log_level": 0}
        self._registry = SchemaRegistryClient.new_client(dict(registry))
        self._admin = AdminClient(self._kafka)
        self._sent: dict[Place, Kind] = {}
        self._failed: list[KafkaError] = []

    def create_topic(self) -> None:
        """Create the topic unless it is there; ready when this returns. Raises KafkaException."""
        try:
            self._admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])[self.topic].result(SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        # A busy broker learns of it after the controller has answered.
        until = time.monotonic() + SECONDS
        while not self._is_known(until):
            time.sleep(0.1)

    def _is_known(self, until: float) -> bool:
        try:
            self.settings()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > until:
                raise
            return False
        return True

    def settings(self) -> dict[str, Any]:
        """All that can be set of the topic, by name: its configuration, its partitions and its rights."""
        resource = ConfigResource(ResourceType.TOPIC, self.topic)
        (config,) = (found.result(SECONDS) for found in self._admin.describe_configs([resource]).values())
        (described,) = (
            found.result(SECONDS)
            for found in self._admin.describe_topics(TopicCollection([self.topic])).values()
        )
        anybody: Any = None
        rights = AclBindingFilter(
            ResourceType.TOPIC,
            self.topic,
            ResourcePatternType.LITERAL,
            anybody,
            anybody,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        return {
            **{name: entry.value for name, entry in config.items()},
            "topic id": str(described.topic_id),
            "partitions": {
                one.id: sorted(replica.id for replica in one.replicas) for one in described.partitions
            },
            "rights": sorted(map(str, self._admin.describe_acls(rights).result(SECONDS))),
        }

    def send(self, steps: Sequence[Step]) -> dict[Place, Kind]:
        """Send them; the records that Kafka has acknowledged, the aborted ones too. Raises KafkaException, as
        for a record that it did not take, and SchemaRegistryError."""
        self._sent = {}
        orders = new_orders()
        serializers = [self._serializer(fields) for fields in VERSIONS]
        transactional = Producer({**self._kafka, "transactional.id": f"{self.topic}-checkout"})
        transactional.init_transactions(SECONDS)
        plain = Producer(self._kafka)
        for step in steps:
            producer = transactional if step.in_transaction else plain
            if step.in_transaction:
                producer.begin_transaction()
            for order in islice(orders, step.count):
                self._produce(producer, order, _value(step.kind, serializers[step.version], order), step.kind)
            # Also before an abort: so its records are on the topic, too.
            producer.flush(SECONDS)
            if step.kind is Kind.ABORTED:
                producer.abort_transaction(SECONDS)
            elif step.in_transaction:
                producer.commit_transaction(SECONDS)
            if self._failed:
                raise KafkaException(self._failed[0])
        return self._sent

    def versions(self) -> int:
        """The number of versions of the values' schema in the registry. Raises SchemaRegistryError."""
        return len(self._registry.get_versions(f"{self.topic}-value"))

    def _serializer(self, fields: list[dict[str, Any]]) -> Callable[[Order], bytes]:
        schema = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
        serializer = AvroSerializer(
            self._registry, json.dumps(schema), conf={"subject.name.strategy.type": "TOPIC"}
        )
        context = SerializationContext(self.topic, MessageField.VALUE)
        return lambda order: bytes(serializer(order, context) or b"")

    def _produce(self, producer: Producer, order: Order, value: bytes | None, kind: Kind) -> None:
        producer.produce(
            self.topic,
            value,
            str(order["order_id"]),
            headers=[("sent-by", b"checkout"), ("kind", kind.encode())],
            on_delivery=partial(self._delivered, kind),
        )
        producer.poll(0)

    def _delivered(self, kind: Kind, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            self._failed.append(error or KafkaError(KafkaError._FAIL))
        else:
            self._sent[partition, offset] = kind


def _value(kind: Kind, serialize: Callable[[Order], bytes], order: Order) -> bytes | None:
    if kind is Kind.CANCELLED:
        return None
    value = serialize(order)
    return _SPOILED[kind](value) if kind in _SPOILED else value


def _other_schema(value: bytes) -> bytes:
    return b"\0" + UNKNOWN_SCHEMA_ID.to_bytes(4, "big") + value[5:]


# From the bytes of an order to those of a record that no consumer can read.
_SPOILED: Mapping[Kind, Callable[[bytes], bytes]] = {
    Kind.NOT_FRAMED: lambda value: b'{"order_id": "as JSON"}',
    Kind.UNKNOWN_SCHEMA: _other_schema,
    Kind.TRUNCATED: lambda value: value[:-3],
}


def new_orders() -> Iterator[Order]:
    """Orders without an end, with rising numbers; also of a later call."""
    first = time.time_ns() // 1_000_000
    chance = random.Random(first)  # noqa: S311  no secret
    # Whole milliseconds: so many are in every type of time.
    began = datetime.fromtimestamp(first / 1000, UTC)
    number = 0
    while True:
        yield {
            "order_id": first + number,
            "customer": None if number % 7 == 0 else f"customer-{chance.randrange(500)}",
            "amount": Decimal(chance.randrange(100, 500_000)).scaleb(-2),
            "placed_at": began + timedelta(milliseconds=number),
            "items": [f"article-{chance.randrange(90)}" for _ in range(chance.randrange(1, 4))],
            "channel": chance.choice(("web", "app", "shop")),
        }
        number += 1
