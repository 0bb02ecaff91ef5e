"""Read from Kafka where the feed was: the committed position, and the feed's records behind the saved ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, cast

from confluent_kafka import Message

from sluice.clients.kafka.compacted import newest_values
from sluice.clients.kafka.consumers import RANGE_SETTINGS, consumer, read_range, written_offsets
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sections.topic import POSITIONS_TOPIC
from spark_jobs.common.feed.position import FeedRecord, SavedPosition, Tail
from spark_jobs.common.feed.records import feed_record, ids_key, position_key
from spark_jobs.common.kafka.offsets import Topic

# Also waits for transactions: on the topic of positions, of another feed's producer that was killed.
READ_SECONDS = 60.0
_SETTINGS: Mapping[str, Any] = {
    **RANGE_SETTINGS,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 100,
    "queued.max.messages.kbytes": 32 * 1024,
}
# Records of all partitions, of other programs too.
MAX_READ_BACK = 500_000


def load_position(kafka: Kafka, stream: str) -> SavedPosition | None:
    """The stream's committed position; None before the first. Raises as :func:`newest_values`."""
    keys = position_key(stream), ids_key(stream)
    position, ids = map(newest_values(kafka, POSITIONS_TOPIC.name, keys, READ_SECONDS).get, keys)
    return None if position is None else SavedPosition.parse(position, ids)


def read_tail(kafka: Kafka, topic: str, saved: SavedPosition | None) -> Tail:
    """Read the topic from the offsets on at which ``saved`` has ids. Call it when no other producer may send.

    Raises as :mod:`sluice.clients.kafka.consumers`.
    """
    topic_id, positions_id = (Topic(kafka, name).id() for name in (topic, POSITIONS_TOPIC.name))
    bounds = written_offsets(kafka, topic)
    if saved is None or saved.topic_id != topic_id:
        return Tail(topic_id, positions_id, bounds)
    ends = {partition: end for partition, (_, end) in bounds.items()}
    starts = {p: min(max(begin, saved.ids_ends.get(p, 0)), ends[p]) for p, (begin, _) in bounds.items()}
    if sum(ends[partition] - start for partition, start in starts.items()) > MAX_READ_BACK:
        return Tail(topic_id, positions_id, bounds, None)
    with closing(consumer(kafka, f"sluice-{topic}-records", _SETTINGS)) as reader:
        records = feed_records(read_range(reader, topic, starts, ends, READ_SECONDS))
    return Tail(topic_id, positions_id, bounds, records)


def feed_records(messages: Iterable[Message]) -> list[FeedRecord]:
    """The feed's own records, by their sequence."""
    headers = (cast(list[tuple[str, bytes | None]], message.headers() or []) for message in messages)
    found = (record for record in map(feed_record, headers) if record is not None)
    return sorted(found, key=lambda record: record.sequence)
