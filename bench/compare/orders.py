"""The orders of a shop, as a topic of others has them: schemas, a plain producer, and equal rows of tables.

Twelve fields: a nested record, a list of records, fields that may be null, texts, a decimal, and a time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyiceberg.table import Table

Order = dict[str, Any]

ID, UNKNOWN = "order_id", "_unknown_fields"
_CUSTOMER = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": "string"},
    {"name": "country", "type": "string"},
    {"name": "email", "type": ["null", "string"], "default": None},
]
_ITEM = [
    {"name": "sku", "type": "string"},
    {"name": "quantity", "type": "int"},
    {"name": "price", "type": "double"},
]
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": ID, "type": "long"},
            {"name": "placed_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "status", "type": "string"},
            {"name": "channel", "type": "string"},
            {"name": "customer", "type": {"type": "record", "name": "Customer", "fields": _CUSTOMER}},
            {
                "name": "items",
                "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": _ITEM}},
            },
            {
                "name": "amount",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
            },
            {"name": "currency", "type": "string"},
            {"name": "discount", "type": ["null", "double"], "default": None},
            {"name": "coupon", "type": ["null", "string"], "default": None},
            {"name": "is_gift", "type": "boolean"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
# The columns of schema.ddl, which is flat.
FLAT: Mapping[str, str] = {
    ID: "BIGINT",
    "placed_at": "TIMESTAMP",
    "status": "STRING",
    "channel": "STRING",
    "amount": "DECIMAL(10, 2)",
    "currency": "STRING",
    "discount": "DOUBLE",
    "coupon": "STRING",
    "is_gift": "BOOLEAN",
    "note": "STRING",
}
# The other fields: Sluice has them in UNKNOWN, as they were sent.
NESTED: Mapping[str, str] = {
    "customer": "STRUCT<id: BIGINT, name: STRING, country: STRING, email: STRING>",
    "items": "ARRAY<STRUCT<sku: STRING, quantity: INT, price: DOUBLE>>",
}
_NAMES = ("Ana", "Béla", "Chloé", "Dmitri", "Zoë", "Émile", "Fatima", "Göran")
_BEGAN = datetime(2026, 6, 1, tzinfo=UTC)
# Orders that differ; their ids and times differ in all.
_DIFFERENT = 5_000
_SEND_SECONDS = 300.0


def orders(count: int) -> Iterator[Order]:
    """The same ones at each call."""
    chance = random.Random(38)  # noqa: S311  (no secret)
    known = [_order(chance) for _ in range(min(count, _DIFFERENT))]
    for number in range(count):
        placed = {ID: 10_000_000 + number, "placed_at": _BEGAN + timedelta(milliseconds=137 * number)}
        yield placed | known[number % _DIFFERENT]


def _order(chance: random.Random) -> Order:
    customer, name = chance.randrange(200_000), chance.choice(_NAMES)
    items: list[dict[str, Any]] = [
        {
            "sku": f"SKU-{chance.randrange(90_000):05}",
            "quantity": chance.randrange(1, 6),
            "price": round(chance.uniform(1, 400), 2),
        }
        for _ in range(chance.randrange(1, 5))
    ]
    return {
        "status": chance.choice(("placed", "paid", "shipped", "returned")),
        "channel": chance.choice(("web", "app", "shop")),
        "customer": {
            "id": customer,
            "name": f"{name} {chance.choice(_NAMES)}",
            "country": chance.choice(("CH", "DE", "FR", "SE")),
            "email": f"{name.lower()}.{customer}@example.com" if chance.random() < 0.8 else None,
        },
        "items": items,
        "amount": sum((Decimal(str(one["price"])) * one["quantity"] for one in items), Decimal(0)),
        "currency": chance.choice(("CHF", "EUR", "SEK")),
        "discount": round(chance.random(), 3) if chance.random() < 0.3 else None,
        "coupon": f"SPRING-{chance.randrange(900)}" if chance.random() < 0.2 else None,
        "is_gift": chance.random() < 0.1,
        "note": 'Please leave it at the "back door", thank you' if chance.random() < 0.1 else None,
    }


def as_json(order: Order) -> bytes:
    """As most producers write it: the time in milliseconds, no white space."""
    plain = {
        "placed_at": f"{order['placed_at']:%Y-%m-%dT%H:%M:%S}.{order['placed_at'].microsecond // 1000:03}Z",
        "amount": float(order["amount"]),
    }
    return json.dumps(order | plain, ensure_ascii=False, separators=(",", ":")).encode()


def as_avro(registry: Mapping[str, Any], topic: str) -> Callable[[Order], bytes]:
    """By Confluent's serializer, which registers the schema."""
    serializer = AvroSerializer(SchemaRegistryClient(dict(registry)), AVRO)
    context = SerializationContext(topic, MessageField.VALUE)
    return lambda order: bytes(serializer(order, context) or b"")


def send(kafka: Mapping[str, Any], topic: str, count: int, encode: Callable[[Order], bytes]) -> None:
    """Send ``count`` orders. Raises KafkaException unless Kafka took all."""
    failed: list[Any] = []
    producer = Producer(
        {**kafka, "compression.type": "lz4", "linger.ms": 20, "log_level": 0},
        on_delivery=lambda error, _: failed.append(error) if error else None,
    )
    for order in orders(count):
        while True:
            try:
                producer.produce(topic, encode(order), str(order[ID]))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(_SEND_SECONDS):
        raise KafkaException(f"{left} records of topic {topic} were not taken")
    if failed:
        raise KafkaException(failed[0])


def different_columns(ours: Table, theirs: Table) -> list[str]:
    """The columns of ``theirs`` in which a row of ``ours`` differs, by the orders' ids."""
    known = {field.name for field in ours.schema().fields}
    found = []
    for name in (field.name for field in theirs.schema().fields):
        source = name if name in known else UNKNOWN
        (ids, values), (their_ids, their_values) = _column(ours, source), _column(theirs, name)
        if source == name:
            values = values.cast(their_values.type)
        else:
            fields = [json.loads(text)[name] for text in values.to_pylist()]
            values = pa.array(fields, their_values.type)
        if not (ids.equals(their_ids) and values.equals(their_values)):
            found.append(name)
    return found


def _column(table: Table, name: str) -> tuple[pa.Array, pa.Array]:
    """Ids, rising, and the values of a column."""
    read = table.scan(selected_fields=tuple({ID, name})).to_arrow()
    read = read.take(pc.sort_indices(read, [(ID, "ascending")]))
    return tuple(read.column(one).combine_chunks() for one in (ID, name))
