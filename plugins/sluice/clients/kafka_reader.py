"""Committed records of a topic between offsets, read without a consumer group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sluice.clients.errors import Unreachable
from sluice.clients.kafka_admin import translated
from sluice.io.kafka import consumer
from sluice.model.spec.platform import Kafka

_RECORDS = 10_000
# Waited for _RECORDS, also if fewer are left.
_POLL_SECONDS = 0.1

# librdkafka requires a group and asks for its coordinator; each role that reads has a right to this one.
_GROUP = "sluice-reader"
_SETTINGS: dict[str, Any] = {
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 10,
    # Errors are raised.
    "log_level": 2,
}


def read_range(
    kafka: Kafka,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    seconds: float,
    make_consumer: Callable[[Kafka, str, Mapping[str, Any]], Consumer] = consumer,
) -> Iterator[Message]:
    """Yield the records of each partition from its offset in ``starts`` to before that in ``ends``.

    Waits for a transaction that is open before the end. Raises Refused if the role may not read, Unreachable
    if not everything was read within ``seconds``.
    """
    positions = {partition: start for partition, start in starts.items() if start < ends[partition]}
    if not positions:
        return
    deadline = time.monotonic() + seconds
    last_error: list[str] = []
    settings = {**_SETTINGS, "error_cb": lambda error: last_error.append(error.str())}
    reading = make_consumer(kafka, _GROUP, settings)
    try:
        reading.assign([TopicPartition(topic, *position) for position in positions.items()])
        while positions:
            if time.monotonic() > deadline:
                partition, offset = next(iter(positions.items()))
                reason = f"; Kafka: {last_error[-1]}" if last_error else ""
                raise Unreachable(
                    f"topic {topic!r}: partition {partition} was read to offset {offset} of "
                    f"{ends[partition]} in {seconds:g} s{reason}; either Kafka is slow or away, or a "
                    "transaction is open whose writer stands still: see that the query runs"
                )
            for message in reading.consume(_RECORDS, _POLL_SECONDS):
                error, partition = message.error(), cast("int", message.partition())
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise translated(f"topic {topic!r}", KafkaException(error))
                offset, end = cast("int", message.offset()), ends[partition]
                if error is None:
                    if offset < end:
                        yield message
                    offset += 1
                if offset < end:
                    positions[partition] = offset
                else:
                    positions.pop(partition, None)
    finally:
        reading.close()
