"""What the topic knows of the feed: where to resume, and which events it holds already."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from confluent_kafka import Message

from spark_jobs.common.feed.headers import EVENT_ID, FEED, RESUME, SEQ
from spark_jobs.common.feed.records import Records

log = logging.getLogger(__name__)

# What a killed producer had handed to the network may still arrive: so long nothing must.
SETTLE_SECONDS = 1.0
MOST_ROUNDS = 30


@dataclass(frozen=True)
class Place:
    """What one record says: its number, its event's id, where to resume, and which feed it is from."""

    seq: int
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


def place(headers: Iterable[tuple[str, str | bytes | None]]) -> Place | None:
    """What a record's headers say; None for a record that is not a feed's."""
    said = {name: value for name, value in headers if isinstance(value, bytes)}
    try:
        seq, event_id = int(said[SEQ]), said[EVENT_ID].decode()
        resume, feed = (said[name].decode() if name in said else None for name in (RESUME, FEED))
    except (KeyError, ValueError):
        return None
    return Place(seq, event_id, resume, feed)


def tail_of(places: Iterable[Place], ends: Mapping[int, int], feed: str) -> Tail:
    """The tail that these records make. ``feed``: the one that is to be resumed; a position of another one
    says nothing in it."""
    ordered = sorted(places, key=lambda found: found.seq)
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
        following=newest.seq + 1,
        resume=newest.resume if newest.feed == feed else None,
    )


def read_tail(records: Records, feed: str, depth: int) -> Tail:
    """Read the last ``depth`` records of each partition, once nothing more arrives.

    Raises as ``Records``, and RuntimeError where the topic keeps growing: another program writes to it.
    """
    bounds = records.bounds()
    ends = {partition: end for partition, (_, end) in bounds.items()}
    begin = {partition: max(first, end - depth) for partition, (first, end) in bounds.items()}
    found = _places(records.between(begin, ends))
    for _ in range(MOST_ROUNDS):
        time.sleep(SETTLE_SECONDS)
        now = records.ends()
        if now == ends:
            return tail_of(found, ends, feed)
        found += _places(records.between(ends, now))
        ends = now
    raise RuntimeError(
        "the topic grows although no producer holds the lock: another program writes to it; end that first"
    )


def _places(messages: Iterable[Message]) -> list[Place]:
    found = (place(cast(list[tuple[str, bytes | None]], message.headers() or [])) for message in messages)
    return [one for one in found if one is not None]
