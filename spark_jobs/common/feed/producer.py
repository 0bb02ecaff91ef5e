"""The life of a producer that holds the lock: read, send, beat, end well."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace

from sluice.model.health.heartbeat import HEARTBEAT_INTERVAL
from sluice.model.spec.platform import Kafka
from sluice.model.spec.stream import Feed, StreamSpec
from spark_jobs.common.feed.client import Activity, Client
from spark_jobs.common.feed.event import Source
from spark_jobs.common.feed.lock import Lock
from spark_jobs.common.feed.reader import Counts, Reader, RecentIds
from spark_jobs.common.feed.resume import Tail
from spark_jobs.common.feed.sender import Headers, Sender, Undelivered, feed_name
from spark_jobs.common.feed.window import Window
from spark_jobs.common.kafka.heartbeat import HeartbeatSender

log = logging.getLogger(__name__)

# As long as a broker's restart may take; after that the process ends, and the next one resumes.
DELIVERY_SECONDS = 300.0
# Of a stop. What is not acknowledged by then is read again by the next start.
FLUSH_SECONDS = 8.0
TELL_SECONDS = 60.0
_POLL_SECONDS = 0.5
_END_SECONDS = 3.0
# The ids that are remembered, and that are read back of each partition, per event that may be in flight: what
# a rewound position repeats comes on top of what was in flight.
_SEEN_FACTOR = 20
TAIL_FACTOR = 2


class FeedProducer:
    """One run. Made, and used, by one thread; it reads the feed in another."""

    def __init__(
        self,
        spec: StreamSpec,
        feed: Feed,
        url: str,
        kafka: Kafka,
        source: Source,
        tail: Tail,
        lock: Lock,
        beat_seconds: float = HEARTBEAT_INTERVAL,
    ) -> None:
        """``tail``: of the topic, read under the lock. ``beat_seconds``: between two heartbeats, each of
        which asks for the lock."""
        self._name = spec.name
        self._lock = lock
        self._halt = threading.Event()
        self._activity = Activity()
        self._window = Window(feed.max_in_flight, tail.resume)
        headers = Headers(feed_name(url), tail.following, self._window)
        self._sender = Sender(kafka, spec.topic, self._window, headers, tail.ends)
        self._heartbeat = HeartbeatSender(kafka, spec.name, "producer", spec.topic.name)
        self._reader = Reader(
            Client(
                url, feed.user_agent, feed.read_timeout_seconds, source.rewind, self._activity, self._halt
            ),
            source,
            RecentIds(_SEEN_FACTOR * feed.max_in_flight, tail.ids),
            self._window,
            self._sender,
            self._activity,
            self._halt,
        )
        self._beat_seconds = beat_seconds
        self._next_beat = 0.0
        self._next_tell = time.monotonic() + TELL_SECONDS
        self._told = Counts()

    @property
    def counts(self) -> Counts:
        return self._reader.counts

    def until(self, stop: threading.Event) -> int:
        """Produce until ``stop``.

        Returns how many records Kafka had not acknowledged in FLUSH_SECONDS after that; none is lost: the
        next start reads them again. Raises Lost when the lock is, Undelivered when Kafka did not take a
        record, and what failed in reading. Whatever is raised, nothing more is sent.
        """
        self._reader.start()
        try:
            while self._reader.is_alive and not stop.is_set():
                self._step()
            self._reader.end(_END_SECONDS)
            if self._reader.failure is not None:
                raise self._reader.failure
            return self._flush()
        except BaseException:
            self._sender.abandon()
            self._reader.end(_END_SECONDS)
            # What the reader handed over in between.
            self._sender.abandon()
            raise

    def _flush(self) -> int:
        deadline = time.monotonic() + FLUSH_SECONDS
        while (left := len(self._window)) and time.monotonic() < deadline:
            self._step()
        self._beat()
        return left

    def _step(self) -> None:
        self._sender.poll(_POLL_SECONDS)
        waits = self._window.waits
        if waits > DELIVERY_SECONDS:
            raise Undelivered(f"Kafka has not acknowledged a record for {waits:.0f} s")
        now = time.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + self._beat_seconds
            self._lock.check()
            self._beat()
        if now >= self._next_tell:
            self._next_tell = now + TELL_SECONDS
            self._tell()

    def _beat(self) -> None:
        state, since = self._activity.state()
        detail = self._activity.trouble if state == "connecting" else self.counts.message()
        self._heartbeat.beat(self._sender.ends, state, detail, since)

    def _tell(self) -> None:
        counts = replace(self.counts)
        if counts != self._told:
            self._told = counts
            log.info("%s", counts.message())
