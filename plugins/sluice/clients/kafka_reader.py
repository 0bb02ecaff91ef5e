"""Records of a topic between offsets, read without a consumer group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sluice.clients.errors import Unreachable
from sluice.clients.kafka import translated
from sluice.model.platform import Kafka

_RECORDS = 10_000
# Waited for _RECORDS, also if fewer are left.
_POLL_SECONDS = 0.1

SETTINGS: dict[str, Any] = {
    # librdkafka requires a name; the consumer neither joins the group nor commits.
    "group.id": "sluice-read",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 10,
    # Errors are raised.
    "log_level": 2,
}


def read_range(
    kafka: Kafka, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], seconds: float
) -> Iterator[Message]:
    """Yield the records of each partition from its offset in ``starts`` to before that in ``ends``.

    Raises Refused if the role may not read, Unreachable if Kafka does not answer or ``seconds`` have passed.
    """
    missing = {partition: end for partition, end in ends.items() if starts[partition] < end}
    if not missing:
        return
    deadline = time.monotonic() + seconds
    consumer = Consumer({**kafka.librdkafka(), **SETTINGS})
    try:
        consumer.assign([TopicPartition(topic, partition, starts[partition]) for partition in missing])
        while missing:
            if time.monotonic() > deadline:
                raise Unreachable(f"topic {topic!r}: partitions {sorted(missing)} not read in {seconds:g} s")
            for message in consumer.consume(_RECORDS, _POLL_SECONDS):
                error, partition = message.error(), cast("int", message.partition())
                offset = cast("int", message.offset())
                end = missing.get(partition, 0)
                if error is None:
                    if offset < end:
                        yield message
                    offset += 1
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise translated(f"topic {topic!r}", KafkaException(error))
                if offset >= end:
                    missing.pop(partition, None)
    finally:
        consumer.close()
