"""The producer of a feed."""

from __future__ import annotations

import json
import logging
import threading
import time
from contextlib import closing
from dataclasses import replace

from sluice.config import platform as platforms
from sluice.config import streams
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sections.feed import LATEST, Feed
from sluice.config.stream import StreamSpec
from sluice.core.processes.heartbeat import HEARTBEAT_INTERVAL
from spark_jobs.common.feed.client import Activity, Client
from spark_jobs.common.feed.event import Source
from spark_jobs.common.feed.lock import Lock
from spark_jobs.common.feed.position import SavedPosition, Start, gap, resume, unknown
from spark_jobs.common.feed.progress import Progress
from spark_jobs.common.feed.reader import Counts, Reader, RecentIds
from spark_jobs.common.feed.resume import read_tail
from spark_jobs.common.feed.sender import Sender, Undelivered, feed_name
from spark_jobs.common.feed.window import Window
from spark_jobs.common.kafka.heartbeat import HeartbeatSender
from spark_jobs.common.spark.failures import Fenced
from spark_jobs.common.spark.functions import function
from spark_jobs.common.spark.process import run_process

log = logging.getLogger(__name__)

# As long as a broker's restart may take; after that the process ends, and the next one resumes.
DELIVERY_SECONDS = 300.0
# The longest flush at a stop; the next start reads again what Kafka has not acknowledged by then.
FLUSH_SECONDS = 8.0
LOG_SECONDS = 60.0
# Between two saves of the ids of sent events, which are half a megabyte: much less than retention leaves a
# topic's newest records.
IDS_SECONDS = 300.0
_POLL_SECONDS = 0.5
_END_SECONDS = 3.0
# Ids that are remembered, and that are read back of each partition, per event that may be in flight: the
# duplicates of a rewound position come on top of those in flight.
_RECENT_FACTOR = 20
TAIL_FACTOR = 2


def run(name: str) -> int:
    """Produce for stream ``name`` until SIGTERM or SIGINT; returns the exit code.

    143: ended as asked. 76: another producer runs, or may run. 78: its position is unknown, or its
    declaration wrong. 1: any other failure.
    """
    # httpx logs every request; the client below logs more of each.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return run_process(f"the producer of {name}", lambda stop: _produce(name, stop))


def source(spec: StreamSpec, feed: Feed) -> Source:
    """The stream's own functions. Raises ConfigError for a missing function."""
    rewind = function(spec, feed.rewind) if feed.rewind else str
    return Source(function(spec, feed.event), rewind)


def _produce(name: str, stop: threading.Event) -> None:
    spec, platform = streams.load(name), platforms.load("producer")
    url = spec.feed_url(platform.feeds)
    assert spec.feed is not None
    feed = spec.feed
    events = source(spec, feed)
    with closing(Lock(platform.lake, name)) as lock:
        if not lock.take(feed.lock_seconds, stop.is_set):
            if stop.is_set():
                return
            raise Fenced(f"another producer of {name} holds the lock; waited {feed.lock_seconds} s for it")
        start = find_start(spec, feed, url, platform.kafka, lock)
        log.info("started url=%s position=%s ids_read_back=%d", url, start.position or LATEST, len(start.ids))
        producer = FeedProducer(spec, feed, url, platform.kafka, events, start, lock)
        unacknowledged = producer.run_until(stop)
        log.info("stopped: %s", producer.counts.message())
        if unacknowledged:
            log.warning("events=%d not acknowledged; the next start reads them again", unacknowledged)


def find_start(spec: StreamSpec, feed: Feed, url: str, kafka: Kafka, lock: Lock) -> Start:
    """Where to begin, under the lock. Raises PositionUnknown, and as :func:`read_tail`."""
    saved = lock.load()
    tail = read_tail(kafka, spec.topic.name, saved, TAIL_FACTOR * feed.max_in_flight)
    start = resume(tail, saved, feed_name(url), feed)
    if start.decision is not None and (saved is None or start.decision != saved.decision):
        log.warning("position decided: %s", json.dumps(start.decision))
    return start


class FeedProducer:
    """One run of a producer that holds the lock. For one thread; it reads the feed in another."""

    # Between two heartbeats, each of which checks the lock.
    heartbeat_seconds = HEARTBEAT_INTERVAL
    ids_seconds = IDS_SECONDS

    def __init__(
        self, spec: StreamSpec, feed: Feed, url: str, kafka: Kafka, source: Source, start: Start, lock: Lock
    ) -> None:
        """``start``: found under the lock. Saves it."""
        self._feed, self._name, self._lock = feed, feed_name(url), lock
        self._halt = threading.Event()
        self._activity = Activity()
        self._window = Window(feed.max_in_flight, start.position)
        self._progress = Progress(self._name, start, feed.max_in_flight)
        self._sender = Sender(
            kafka, spec.topic, self._name, self._window, self._progress, start.next_sequence
        )
        self._heartbeat = HeartbeatSender(kafka, spec.name, "producer", spec.topic.name)
        self._reader = Reader(
            Client(url, feed, source.rewind, self._activity, self._halt),
            source,
            RecentIds(_RECENT_FACTOR * feed.max_in_flight, start.ids),
            self._window,
            self._sender,
            self._activity,
            self._halt,
        )
        self._next_heartbeat = 0.0
        self._ids_saved = time.monotonic()
        self._next_log = time.monotonic() + LOG_SECONDS
        self._last_logged = Counts()
        # Before the first record: else foreign records could hide all there is of this run.
        self._save(with_ids=True)

    @property
    def counts(self) -> Counts:
        return self._reader.counts

    def run_until(self, stop: threading.Event) -> int:
        """Produce until ``stop``; returns the records without acknowledgement FLUSH_SECONDS later.

        Raises Lost, Undelivered, and errors of the reader; nothing is sent after that.
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
            # Once more, for what the reader queued in between.
            self._sender.abandon()
            raise

    def _flush(self) -> int:
        deadline = time.monotonic() + FLUSH_SECONDS
        while (left := len(self._window)) and time.monotonic() < deadline:
            self._step()
        self._save(with_ids=True)
        self._send_heartbeat()
        return left

    def _save(self, *, with_ids: bool = False) -> SavedPosition:
        """Save the position, which also shows that this process still holds the lock. Raises as
        :meth:`Lock.save`."""
        saved = self._progress.saved(
            self._window.low_water_mark,
            self._sender.next_sequence,
            self._activity.read_at,
            with_ids=with_ids,
        )
        self._lock.save(saved, with_ids=with_ids)
        return saved

    def _step(self) -> None:
        self._sender.poll(_POLL_SECONDS)
        age = self._window.oldest_age
        if age > DELIVERY_SECONDS:
            raise Undelivered(f"Kafka has not acknowledged a record for {age:.0f} s")
        now = time.monotonic()
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + self.heartbeat_seconds
            saved = self._save(with_ids=self._are_ids_due(now))
            self._send_heartbeat()
            if not self._activity.is_connected and (reason := gap(self._feed, saved.read_at, time.time())):
                raise unknown(reason, saved, saved.topic_id, self._name)
        if now >= self._next_log:
            self._next_log = now + LOG_SECONDS
            counts = replace(self.counts)
            if counts != self._last_logged:
                self._last_logged = counts
                log.info("%s", counts.message())

    def _are_ids_due(self, now: float) -> bool:
        """Whether ids are saved now: before retention deletes a slow feed's records, the only ones to hold
        them."""
        if now < self._ids_saved + self.ids_seconds or not self._progress.has_unsaved_ids:
            return False
        self._ids_saved = now
        return True

    def _send_heartbeat(self) -> None:
        state, since = self._activity.state()
        detail = self._activity.error if state == "connecting" else self.counts.message()
        self._heartbeat.send(self._progress.ends, state, detail, since)
