"""Events to the topic: in order, each acknowledged, with headers that say where the feed is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from confluent_kafka import KafkaError, Message, Producer

from sluice.model.error_codes import ErrorCode
from sluice.model.spec.platform import Kafka
from sluice.model.spec.stream import Topic
from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.window import Entry, Window

EVENT_ID = "event-id"
SEQUENCE = "feed-sequence"
RESUME = "feed-position"
FEED = "feed"
EVENT_BYTES = "original-size"


def feed_name(url: str) -> str:
    """Which feed it is: host and path; the port and what is asked for may change."""
    parts = urlsplit(url)
    return f"{parts.hostname}{parts.path}"


class Headers:
    """What a record says about its place in the feed; it numbers the records.

    ``event-id``: the event's id. ``feed-seq``: grows by one with every record that is sent, over restarts too
    (what a killed producer had not delivered yet leaves a gap). ``feed-resume``: the position from which to
    resume if this is the topic's newest record; left out if there is none. ``feed``: which feed the position
    is of. ``event-bytes``: how long the value was, if it was cut.
    """

    def __init__(self, feed: str, following: int, window: Window) -> None:
        """``feed``: its name. ``following``: the number of the next record."""
        self._feed = feed.encode()
        self._following = following
        self._window = window

    def of(
        self, event: Event, position: str | None, was_bytes: int | None = None
    ) -> list[tuple[str, str | bytes | None]]:
        """The headers of the next record; call it before the event is added to the window."""
        headers: list[tuple[str, str | bytes | None]] = [
            (EVENT_ID, event.event_id.encode()),
            (SEQUENCE, b"%d" % self._following),
            (FEED, self._feed),
        ]
        self._following += 1
        resume = self._window.resume(position)
        if resume is not None:
            headers.append((RESUME, resume.encode()))
        if was_bytes is not None:
            headers.append((EVENT_BYTES, b"%d" % was_bytes))
        return headers


# What a broker takes where the topic does not say (max.message.bytes), and what of that is not the value.
_BROKER_MAX_BYTES = 1_048_588
_OVERHEAD_BYTES = 16 * 1024
MAX_QUEUED_KIB = 64 * 1024
BATCH_BYTES = 512 * 1024

SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    # A record that failed for good must not be followed by the next one of its partition.
    "enable.gapless.guarantee": True,
    # Nothing is given up while this process lives, for the same reason; who waits for too long ends it.
    "delivery.timeout.ms": 0,
    # As the Java clients choose.
    "partitioner": "murmur2_random",
    "compression.type": "zstd",
    "linger.ms": 50,
    "request.timeout.ms": 30_000,
    "queue.buffering.max.kbytes": MAX_QUEUED_KIB,
}


def _log_of_librdkafka() -> logging.Logger:
    """Where the client's own words go: all but its remarks on the settings, which are meant."""
    log = logging.getLogger(f"{__name__}.librdkafka")
    log.addFilter(lambda record: "CONFWARN" not in record.getMessage())
    return log


class Undelivered(Exception):
    """Kafka did not take a record. The next start resumes before it."""

    code = ErrorCode.UNDELIVERED


class Sender:
    """The topic of one producer. One thread sends, another polls."""

    def __init__(
        self, kafka: Kafka, topic: Topic, window: Window, headers: Headers, ends: dict[int, int]
    ) -> None:
        """``ends``: partition -> next offset, as the topic is before the first record."""
        most = int(topic.config.get("max.message.bytes", _BROKER_MAX_BYTES))
        self.max_bytes = max(most - _OVERHEAD_BYTES, 1)
        self._topic = topic.name
        self._window = window
        self._headers = headers
        self._ends = dict(ends)
        self._failure: KafkaError | None = None
        self._producer = Producer(
            kafka.librdkafka()
            | SETTINGS
            | {"message.max.bytes": max(most, 1_000), "batch.size": min(BATCH_BYTES, most)},
            logger=_log_of_librdkafka(),
        )

    def send(self, event: Event, data: str, position: str | None, wait: Callable[[], None]) -> None:
        """Hand an event over to be sent. ``wait`` is called as long as there is no room for it.

        What is too long for the topic is cut, and a header says how long it was.
        """
        value = data.encode()
        headers = self._headers.of(event, position, len(value) if len(value) > self.max_bytes else None)
        entry = self._window.add(position)
        key = None if event.key is None else event.key.encode()
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value[: self.max_bytes],
                    key,
                    headers=headers,
                    on_delivery=partial(self._delivered, entry),
                )
            except BufferError:
                wait()
            else:
                return

    def poll(self, seconds: float) -> None:
        """Take note of what Kafka says; waits up to so many seconds for it. Raises Undelivered."""
        self._producer.poll(seconds)
        if self._failure is not None:
            raise Undelivered(f"Kafka did not take a record of {self._topic!r}: {self._failure.str()}")

    def abandon(self) -> None:
        """Send nothing more, not even what was handed over already."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)

    @property
    def ends(self) -> dict[int, int]:
        """Partition -> the offset behind the last record that is acknowledged."""
        return dict(self._ends)

    def _delivered(self, entry: Entry, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error
            return
        partition, offset = message.partition(), message.offset()
        # A retry that was there already is acknowledged without its offset.
        if partition is not None and offset is not None and offset >= 0:
            self._ends[partition] = max(self._ends.get(partition, 0), offset + 1)
        self._window.settle(entry)
