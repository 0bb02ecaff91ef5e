"""The newest batch that a partition of a query's topic holds, from its records alone."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sluice.model.queries.state import NO_BATCH

# How many offsets from the end are looked at first; each time that none is a record, ten times as many: there
# are also the ends of transactions, and what was aborted.
FIRST_OFFSETS = 100


def newest(
    consumer: Consumer, topic: str, partition: int, version_of: Callable[[bytes], int], seconds: float
) -> int:
    """The version of the newest committed record; NO_BATCH where there is none.

    The last record of a partition is never compacted away. ``consumer`` reads what is committed and tells
    ends of partitions; it is assigned to nothing afterwards. Raises KafkaException where Kafka does not
    answer for ``seconds``, ValueError of ``version_of``.
    """
    place = TopicPartition(topic, partition)
    begin, end = consumer.get_watermark_offsets(place, timeout=seconds)
    offsets = FIRST_OFFSETS
    while True:
        start = max(begin, end - offsets)
        found = _last_value(consumer, TopicPartition(topic, partition, start), seconds)
        if found is not None:
            return version_of(found)
        if start == begin:
            return NO_BATCH
        offsets *= 10


def _last_value(consumer: Consumer, start: TopicPartition, seconds: float) -> bytes | None:
    last = None
    consumer.assign([start])
    try:
        deadline = time.monotonic() + seconds
        while (message := consumer.poll(max(deadline - time.monotonic(), 0))) is not None:
            error = message.error()
            if error is None:
                last = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                return last
            else:
                raise KafkaException(error)
        raise KafkaException(
            KafkaError(KafkaError._TIMED_OUT, f"topic {start.topic!r} was not read in {seconds:g} s")
        )
    finally:
        consumer.unassign()
