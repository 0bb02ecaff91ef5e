"""What the topic knows of the feed: where to resume, and which events it holds already."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, cast

from confluent_kafka import Message

from sluice.io.kafka import RANGE_SETTINGS, begin_and_end_offsets, consumer, read_range
from sluice.model.spec.platform import Kafka
from spark_jobs.common.feed.sender import EVENT_ID, FEED, RESUME, SEQUENCE

log = logging.getLogger(__name__)

READ_SECONDS = 60.0
_SETTINGS: Mapping[str, Any] = {
    **RANGE_SETTINGS,
    "fetch.wait.max.ms": 100,
    "queued.max.messages.kbytes": 32 * 1024,
}
# What a killed producer had handed to the network may still arrive: so long nothing must.
SETTLE_SECONDS = 1.0
MAX_ROUNDS = 30


@dataclass(frozen=True)
class StreamPosition:
    """What one record says: its number, its event's id, where to resume, and which feed it is from."""

    sequence: int
    event_id: str
    resume: str | None
    feed: str | None


@dataclass(frozen=True)
class Tail:
    """The end of a topic. ``ends``: partition -> next offset. ``ids``: of its last records, oldest first.
    ``following``: the number of the next record. ``resume``: where the feed goes on, None for what is new."""

    ends: dict[int, int]
    ids: list[str] = field(default_factory=list)
    following: int = 1
    resume: str | None = None


def place(headers: Iterable[tuple[str, str | bytes | None]]) -> StreamPosition | None:
    """What a record's headers say; None for a record that is not a feed's."""
    said = {name: value for name, value in headers if isinstance(value, bytes)}
    try:
        sequence, event_id = int(said[SEQUENCE]), said[EVENT_ID].decode()
        resume, feed = (said[name].decode() if name in said else None for name in (RESUME, FEED))
    except (KeyError, ValueError):
        return None
    return StreamPosition(sequence, event_id, resume, feed)


def tail_of(places: Iterable[StreamPosition], ends: Mapping[int, int], feed: str) -> Tail:
    """The tail that these records make. ``feed``: the one that is to be resumed; a position of another one
    says nothing in it."""
    ordered = sorted(places, key=lambda found: found.sequence)
    if not ordered:
        return Tail(dict(ends))
    newest = ordered[-1]
    if newest.feed != feed:
        log.warning(
            "the topic's newest record is of the feed %s; %s begins with what is new there", newest.feed, feed
        )
    return Tail(
        ends=dict(ends),
        ids=[found.event_id for found in ordered],
        following=newest.sequence + 1,
        resume=newest.resume if newest.feed == feed else None,
    )


def read_tail(kafka: Kafka, topic: str, feed: str, depth: int) -> Tail:
    """Read the last ``depth`` records of each partition, once nothing more arrives.

    Raises LookupError, KafkaException or TimeoutError as the functions of :mod:`sluice.io.kafka`, and
    RuntimeError if the topic keeps growing: another program writes to it.
    """
    with closing(consumer(kafka, f"sluice-{topic}-records", _SETTINGS)) as reader:
        bounds = begin_and_end_offsets(reader, topic)
        starts = {partition: max(first, end - depth) for partition, (first, end) in bounds.items()}
        ends = {partition: end for partition, (_, end) in bounds.items()}
        found: list[StreamPosition] = []
        for _ in range(MAX_ROUNDS):
            found += _places(read_range(reader, topic, starts, ends, READ_SECONDS))
            time.sleep(SETTLE_SECONDS)
            starts = ends
            ends = {partition: end for partition, (_, end) in begin_and_end_offsets(reader, topic).items()}
            if ends == starts:
                return tail_of(found, ends, feed)
    raise RuntimeError(
        "the topic grows although no producer holds the lock: another program writes to it; end that first"
    )


def _places(messages: Iterable[Message]) -> list[StreamPosition]:
    found = (place(cast(list[tuple[str, bytes | None]], message.headers() or [])) for message in messages)
    return [one for one in found if one is not None]
