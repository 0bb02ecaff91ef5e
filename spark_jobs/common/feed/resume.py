"""What the topic knows of the feed: where to resume, and which events it holds already."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import cast

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from sluice.io.kafka import begin_and_end_offsets, consumer
from sluice.model.spec.platform import Kafka
from spark_jobs.common.feed.sender import EVENT_ID, FEED, RESUME, SEQUENCE

log = logging.getLogger(__name__)

# Without a record for so long, a broker that owes some has stopped answering.
STALL_TIMEOUT_SECONDS = 60.0
_BATCH = 1_000


class Records:
    """A connection to one topic, from ``with`` to its end. Needs the rights to describe and to read it."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._topic = topic
        # Never joined and never committed to.
        self._consumer = consumer(
            kafka,
            f"sluice-{topic}-records",
            {
                "enable.partition.eof": True,
                # What retention deleted meanwhile is not there any more.
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 32 * 1024,
            },
        )

    def __enter__(self) -> Records:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def bounds(self) -> dict[int, tuple[int, int]]:
        """As :func:`sluice.io.kafka.begin_and_end_offsets`."""
        return begin_and_end_offsets(self._consumer, self._topic)

    def ends(self) -> dict[int, int]:
        """Partition -> next offset to be written; raises as :meth:`bounds`."""
        return {partition: end for partition, (_, end) in self.bounds().items()}

    def between(self, begin: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[Message]:
        """The records at offsets from ``begin`` to before ``ends``, each partition in its order.

        Raises KafkaException for an error of a broker, TimeoutError after PATIENCE_SECONDS without a record.
        """
        open_ = {partition for partition, end in ends.items() if begin[partition] < end}
        if not open_:
            return
        self._consumer.assign([TopicPartition(self._topic, p, begin[p]) for p in sorted(open_)])
        heard = time.monotonic()
        while open_:
            batch = self._consumer.consume(_BATCH, timeout=0.1)
            if not batch and time.monotonic() - heard > STALL_TIMEOUT_SECONDS:
                raise TimeoutError(
                    f"topic {self._topic!r}: no record of {sorted(open_)} in {STALL_TIMEOUT_SECONDS:g} s"
                )
            for message in batch:
                heard = time.monotonic()
                error, partition, offset = message.error(), message.partition(), message.offset()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                assert partition is not None
                assert offset is not None
                if error is None and offset < ends[partition]:
                    yield message
                if error is not None or offset + 1 >= ends[partition]:
                    open_.discard(partition)
        self._consumer.unassign()


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


def read_tail(records: Records, feed: str, depth: int) -> Tail:
    """Read the last ``depth`` records of each partition, once nothing more arrives.

    Raises as ``Records``, and RuntimeError where the topic keeps growing: another program writes to it.
    """
    bounds = records.bounds()
    ends = {partition: end for partition, (_, end) in bounds.items()}
    begin = {partition: max(first, end - depth) for partition, (first, end) in bounds.items()}
    found = _places(records.between(begin, ends))
    for _ in range(MAX_ROUNDS):
        time.sleep(SETTLE_SECONDS)
        now = records.ends()
        if now == ends:
            return tail_of(found, ends, feed)
        found += _places(records.between(ends, now))
        ends = now
    raise RuntimeError(
        "the topic grows although no producer holds the lock: another program writes to it; end that first"
    )


def _places(messages: Iterable[Message]) -> list[StreamPosition]:
    found = (place(cast(list[tuple[str, bytes | None]], message.headers() or [])) for message in messages)
    return [one for one in found if one is not None]
