"""Send events to the topic in order, each acknowledged, with headers for the position in the feed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from confluent_kafka import KafkaError, Message, Producer

from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sections.topic import Topic
from sluice.core.error_codes import ErrorCode
from sluice.core.tables.records import Headers
from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.progress import Progress
from spark_jobs.common.feed.window import Entry, Window

EVENT_ID = "event-id"
# Grows by one with every record, over restarts too; undelivered records of a killed producer leave a gap.
SEQUENCE = "feed-sequence"
# From where to resume if this is the topic's newest record; left out if there is no position.
RESUME = "feed-position"
# The feed to which the position belongs.
FEED = "feed"
# The value's length in bytes, if it was cut.
EVENT_BYTES = "original-size"

# The part of a message that is not the value. The declaration of a feed's topic leaves room for both.
_OVERHEAD_BYTES = 16 * 1024
MAX_QUEUED_KIB = 64 * 1024
BATCH_BYTES = 512 * 1024

SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    # A record that failed for good must not be followed by the next one of its partition.
    "enable.gapless.guarantee": True,
    # Unlimited, for the same reason; the run ends itself after DELIVERY_SECONDS.
    "delivery.timeout.ms": 0,
    # As the Java clients choose.
    "partitioner": "murmur2_random",
    "compression.type": "zstd",
    "linger.ms": 50,
    "request.timeout.ms": 30_000,
    "queue.buffering.max.kbytes": MAX_QUEUED_KIB,
}


def feed_name(url: str) -> str:
    """A feed's host and path; port and query may change."""
    parts = urlsplit(url)
    return f"{parts.hostname}{parts.path}"


def record_headers(
    event: Event, sequence: int, feed: str, position: str | None, original_size: int | None = None
) -> Headers:
    """The headers of one record. ``position``: ``Window.resume_position`` before the event is added."""
    headers: Headers = [
        (EVENT_ID, event.event_id.encode()),
        (SEQUENCE, b"%d" % sequence),
        (FEED, feed.encode()),
    ]
    if position is not None:
        headers.append((RESUME, position.encode()))
    if original_size is not None:
        headers.append((EVENT_BYTES, b"%d" % original_size))
    return headers


def _librdkafka_log() -> logging.Logger:
    """The client's log, without its warnings of the settings above, which are meant."""
    log = logging.getLogger(f"{__name__}.librdkafka")
    log.addFilter(lambda record: "CONFWARN" not in record.getMessage())
    return log


class Undelivered(Exception):
    """Kafka did not take a record. The next start resumes before it."""

    code = ErrorCode.UNDELIVERED


class Sender:
    """The topic of one producer. One thread sends, another polls."""

    def __init__(
        self,
        kafka: Kafka,
        topic: Topic,
        feed: str,
        window: Window,
        progress: Progress,
        next_sequence: int,
    ) -> None:
        """``next_sequence``: of the first record."""
        limit = topic.max_message_bytes
        self.max_bytes = limit - _OVERHEAD_BYTES
        self._topic, self._feed = topic.name, feed
        self._progress, self.next_sequence = progress, next_sequence
        self._window = window
        self._failure: KafkaError | None = None
        self._producer = Producer(
            kafka.librdkafka()
            | SETTINGS
            | {"message.max.bytes": limit, "batch.size": min(BATCH_BYTES, limit)},
            logger=_librdkafka_log(),
        )

    def send(self, event: Event, data: str, position: str | None, wait: Callable[[], None]) -> None:
        """Queue an event, cut to the topic's limit; calls ``wait`` while the queue is full."""
        value = data.encode()
        original_size = len(value) if len(value) > self.max_bytes else None
        resume = self._window.resume_position(position)
        headers = record_headers(event, self.next_sequence, self._feed, resume, original_size)
        sequence, self.next_sequence = self.next_sequence, self.next_sequence + 1
        entry = self._window.add(position)
        key = None if event.key is None else event.key.encode()
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value[: self.max_bytes],
                    key,
                    headers=headers,
                    on_delivery=partial(self._delivered, entry, sequence, event.event_id),
                )
            except BufferError:
                wait()
            else:
                return

    def poll(self, seconds: float) -> None:
        """Handle Kafka's acknowledgements, waiting at most ``seconds`` for one. Raises Undelivered."""
        self._producer.poll(seconds)
        if self._failure is not None:
            raise Undelivered(f"Kafka did not take a record of {self._topic!r}: {self._failure.str()}")

    def abandon(self) -> None:
        """Send nothing more, not even queued records."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)

    def _delivered(
        self, entry: Entry, sequence: int, event_id: str, error: KafkaError | None, message: Message
    ) -> None:
        if error is not None:
            self._failure = self._failure or error
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        # Kafka acknowledges a retry of a record that it holds without its offset.
        known = offset if offset is not None and offset >= 0 else None
        self._progress.acknowledge(sequence, event_id, partition, known)
        self._window.acknowledge(entry)
