"""The newest committed values of some keys in a compacted topic of one partition."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing

from sluice.clients.kafka.consumers import RANGE_SETTINGS, consumer, read_range, written_offsets
from sluice.config.platform_sections.kafka import Kafka

# The records that are read first, from the end; then ten times as many, and so on.
_FIRST_RECORDS = 500
_PARTITION = 0


def newest_values(kafka: Kafka, topic: str, keys: Collection[bytes], seconds: float) -> dict[bytes, bytes]:
    """Key -> its newest committed value; without keys that have none, or were removed.

    Reads back from the topic's end until each key is found. Waits for transactions that are open before it,
    and raises TimeoutError after ``seconds`` for each step back; else as
    :mod:`sluice.clients.kafka.consumers`.
    """
    found: dict[bytes, bytes | None] = {}
    settings = {**RANGE_SETTINGS, "isolation.level": "read_committed", "fetch.wait.max.ms": 20}
    with closing(consumer(kafka, f"sluice-{topic}", settings)) as reader:
        begin, end = written_offsets(kafka, topic)[_PARTITION]
        count = _FIRST_RECORDS
        while end > begin and not found.keys() >= set(keys):
            start = max(begin, end - count)
            newer: dict[bytes, bytes | None] = {}
            for message in read_range(reader, topic, {_PARTITION: start}, {_PARTITION: end}, seconds):
                key = message.key()
                if isinstance(key, bytes) and key in keys:
                    newer[key] = message.value()
            # What was found before is nearer to the end.
            found = newer | found
            end, count = start, count * 10
    return {key: value for key, value in found.items() if value is not None}
