"""Read from the topic where the feed can be resumed, and which events it holds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

from confluent_kafka import Message

from sluice.clients.kafka.consumers import RANGE_SETTINGS, begin_and_end_offsets, consumer, read_range
from sluice.config.platform_sections.kafka import Kafka
from spark_jobs.common.feed.position import SavedPosition, StreamPosition, Tail, read_starts
from spark_jobs.common.feed.sender import EVENT_ID, FEED, RESUME, SEQUENCE
from spark_jobs.common.kafka.offsets import Topic

READ_SECONDS = 60.0
_SETTINGS: Mapping[str, Any] = {
    **RANGE_SETTINGS,
    "fetch.wait.max.ms": 100,
    "queued.max.messages.kbytes": 32 * 1024,
}
# Records of a killed producer may still arrive; the topic must be unchanged for this long.
SETTLE_SECONDS = 1.0
MAX_ROUNDS = 30
# Records of all partitions; a saved position further back is compared with the last ones only.
MAX_READ_BACK = 500_000


def stream_position(headers: Iterable[tuple[str, str | bytes | None]]) -> StreamPosition | None:
    """The feed headers of a record; None for a record of another producer."""
    values = {name: value for name, value in headers if isinstance(value, bytes)}
    try:
        sequence, event_id = int(values[SEQUENCE]), values[EVENT_ID].decode()
        resume, feed = (values[name].decode() if name in values else None for name in (RESUME, FEED))
    except (KeyError, ValueError):
        return None
    return StreamPosition(sequence, event_id, resume, feed)


def tail_of(
    records: Iterable[StreamPosition],
    topic_id: str,
    bounds: Mapping[int, tuple[int, int]],
    starts: Mapping[int, int],
    is_complete: bool,
) -> Tail:
    """The tail of a topic whose own ``records`` were read from ``starts`` on; ``is_complete``: as
    :func:`read_starts` gave it."""
    ordered = sorted(records, key=lambda record: record.sequence)
    own = Counter(record.place[0] for record in ordered)
    hidden = [
        partition
        for partition, (begin, end) in sorted(bounds.items())
        if not is_complete and starts[partition] > begin and own[partition] < end - starts[partition]
    ]
    return Tail(topic_id, dict(bounds), ordered, hidden)


def read_tail(kafka: Kafka, topic: str, saved: SavedPosition | None, depth: int) -> Tail:
    """Read the topic from where ``saved`` says, or the last ``depth`` records of each partition, until no
    more arrive.

    Raises as :mod:`sluice.clients.kafka.consumers`, and RuntimeError if the topic keeps growing.
    """
    topic_id = Topic(kafka, topic).id()
    with closing(consumer(kafka, f"sluice-{topic}-records", _SETTINGS)) as reader:
        bounds = begin_and_end_offsets(reader, topic)
        first, is_complete = read_starts(saved, topic_id, bounds, depth, MAX_READ_BACK)
        starts, ends = dict(first), {partition: end for partition, (_, end) in bounds.items()}
        records: list[StreamPosition] = []
        for _ in range(MAX_ROUNDS):
            records += _records(read_range(reader, topic, starts, ends, READ_SECONDS))
            time.sleep(SETTLE_SECONDS)
            starts, bounds = ends, begin_and_end_offsets(reader, topic)
            ends = {partition: end for partition, (_, end) in bounds.items()}
            if ends == starts:
                return tail_of(records, topic_id, bounds, first, is_complete)
    raise RuntimeError(
        "the topic grows although no producer holds the lock: another program writes to it; end that first"
    )


def _records(messages: Iterable[Message]) -> list[StreamPosition]:
    found = []
    for message in messages:
        headers = cast(list[tuple[str, bytes | None]], message.headers() or [])
        position = stream_position(headers)
        if position is not None:
            place = cast(int, message.partition()), cast(int, message.offset())
            found.append(replace(position, place=place))
    return found
