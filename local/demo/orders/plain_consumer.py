"""A consumer as Confluent's examples have it, with their Avro deserializer: it knows nothing of Sluice."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.error import KafkaError
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

Place = tuple[int, int]
Settings = Mapping[str, Any]
# Until the next record, or the end of a partition.
SECONDS = 30.0


@dataclass(frozen=True)
class Record:
    """`key`: as text; `value`: its fields as the deserializer has them, None without a value; `headers`: in
    their order; `schema_id`: None without one; `error`: why it cannot be read, then `value` is None."""

    key: str | None
    value: dict[str, Any] | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    schema_id: int | None = None
    error: str = ""


def committed(kafka: Settings, registry: Settings, topic: str) -> dict[Place, Record]:
    """All records that are not of aborted transactions. Raises KafkaException, and TimeoutError."""
    read = reader(SchemaRegistryClient.new_client(dict(registry)), topic)
    return {place: read(message) for place, message in _messages(kafka, topic, "read_committed")}


def delivered(kafka: Settings, topic: str) -> set[Place]:
    """All offsets that have a record, also of aborted transactions. Raises as :func:`committed`."""
    return {place for place, _ in _messages(kafka, topic, "read_uncommitted")}


def reader(registry: SchemaRegistryClient, topic: str) -> Callable[[Message], Record]:
    """Without a schema of its own: each record has the fields that it was written with."""
    deserializer = AvroDeserializer(registry, conf={"subject.name.strategy.type": "TOPIC"})
    return partial(_record, deserializer, SerializationContext(topic, MessageField.VALUE))


def _record(deserializer: AvroDeserializer, context: SerializationContext, message: Message) -> Record:
    key, value = message.key(), message.value()
    text = key.decode() if isinstance(key, bytes) else key
    headers: list[Any] = [tuple(one) for one in message.headers() or ()]
    if not isinstance(value, bytes):
        return Record(text, None, headers)
    try:
        found: Any = deserializer(value, context)
    # What the deserializer raises for a record that is cut off is its Avro library's.
    except (SerializationError, SchemaRegistryError, EOFError, ValueError, IndexError, struct.error) as error:
        return Record(text, None, headers, error=f"{type(error).__name__}: {error}")
    return Record(text, found, headers, int.from_bytes(value[1:5], "big"))


def _messages(kafka: Settings, topic: str, isolation: str) -> Iterator[tuple[Place, Message]]:
    """From the first offsets to the ends."""
    consumer = Consumer(
        {
            **kafka,
            "group.id": f"{topic}-check",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions
        left = set(partitions)
        begins = [
            TopicPartition(topic, one, consumer.get_watermark_offsets(TopicPartition(topic, one), SECONDS)[0])
            for one in partitions
        ]
        consumer.assign(begins)
        while left:
            message = consumer.poll(SECONDS)
            if message is None:
                raise TimeoutError(f"topic {topic}: no record and no end within {SECONDS:.0f} s")
            error = message.error()
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None:
                yield (partition, offset), message
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                left.discard(partition)
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
