"""Read from the topic where to resume the feed, and which events it holds."""

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
# Records of a killed producer may still arrive; the topic must be unchanged for this long.
SETTLE_SECONDS = 1.0
MAX_ROUNDS = 30


@dataclass(frozen=True)
class StreamPosition:
    """The feed headers of one record. ``resume``: the position from which to resume."""

    sequence: int
    event_id: str
    resume: str | None
    feed: str | None


@dataclass(frozen=True)
class Tail:
    """The end of a topic. ``ends``: partition -> next offset. ``ids``: of its last records, oldest first.
    ``resume``: the feed's position, None to begin with new events."""

    ends: dict[int, int]
    ids: list[str] = field(default_factory=list)
    next_sequence: int = 1
    resume: str | None = None


def stream_position(headers: Iterable[tuple[str, str | bytes | None]]) -> StreamPosition | None:
    """The feed headers of a record; None for a record of another producer."""
    values = {name: value for name, value in headers if isinstance(value, bytes)}
    try:
        sequence, event_id = int(values[SEQUENCE]), values[EVENT_ID].decode()
        resume, feed = (values[name].decode() if name in values else None for name in (RESUME, FEED))
    except (KeyError, ValueError):
        return None
    return StreamPosition(sequence, event_id, resume, feed)


def tail_of(positions: Iterable[StreamPosition], ends: Mapping[int, int], feed: str) -> Tail:
    """The tail of these records. A position of another feed than ``feed`` is not used."""
    ordered = sorted(positions, key=lambda position: position.sequence)
    if not ordered:
        return Tail(dict(ends))
    newest = ordered[-1]
    if newest.feed != feed:
        log.warning("feed changed from=%s to=%s; starting with its new events", newest.feed, feed)
    return Tail(
        ends=dict(ends),
        ids=[position.event_id for position in ordered],
        next_sequence=newest.sequence + 1,
        resume=newest.resume if newest.feed == feed else None,
    )


def read_tail(kafka: Kafka, topic: str, feed: str, depth: int) -> Tail:
    """Read the last ``depth`` records of each partition, until no more arrive.

    Raises as :mod:`sluice.io.kafka`, and RuntimeError if the topic keeps growing.
    """
    with closing(consumer(kafka, f"sluice-{topic}-records", _SETTINGS)) as reader:
        bounds = begin_and_end_offsets(reader, topic)
        starts = {partition: max(first, end - depth) for partition, (first, end) in bounds.items()}
        ends = {partition: end for partition, (_, end) in bounds.items()}
        positions: list[StreamPosition] = []
        for _ in range(MAX_ROUNDS):
            positions += _positions(read_range(reader, topic, starts, ends, READ_SECONDS))
            time.sleep(SETTLE_SECONDS)
            starts = ends
            ends = {partition: end for partition, (_, end) in begin_and_end_offsets(reader, topic).items()}
            if ends == starts:
                return tail_of(positions, ends, feed)
    raise RuntimeError(
        "the topic grows although no producer holds the lock: another program writes to it; end that first"
    )


def _positions(messages: Iterable[Message]) -> list[StreamPosition]:
    headers = (cast(list[tuple[str, bytes | None]], message.headers() or []) for message in messages)
    return [position for values in headers if (position := stream_position(values)) is not None]
