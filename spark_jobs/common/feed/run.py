"""The producer of a feed."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from confluent_kafka import KafkaException

from sluice.config import platform as platforms
from sluice.config import streams
from sluice.config.platform import Platform
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sections.feed import LATEST, Feed
from sluice.config.stream import StreamSpec
from sluice.core.processes.heartbeat import HEARTBEAT_INTERVAL
from spark_jobs.common.feed.client import Activity, Client, EventsForgotten
from spark_jobs.common.feed.event import Source
from spark_jobs.common.feed.former import Former
from spark_jobs.common.feed.position import PositionUnknown, SavedPosition, gap, resume, unknown
from spark_jobs.common.feed.reader import Counts, Reader, RecentIds
from spark_jobs.common.feed.records import feed_name
from spark_jobs.common.feed.resume import load_position, read_tail
from spark_jobs.common.feed.sender import Sender
from spark_jobs.common.feed.transaction import TRANSACTION_SECONDS, EpochEnded, Undelivered
from spark_jobs.common.kafka.heartbeat import HeartbeatSender
from spark_jobs.common.kafka.login import explained
from spark_jobs.common.spark.failures import Fenced
from spark_jobs.common.spark.functions import function
from spark_jobs.common.spark.process import run_process

log = logging.getLogger(__name__)

# As long as a broker's restart may take; after that the process ends, and the next one resumes.
DELIVERY_SECONDS = 300.0
_NOT_TAKEN = f"Kafka has not taken a transaction for {DELIVERY_SECONDS:.0f} s"
# The longest commit at a stop; the next start reads again what Kafka has not committed by then.
FLUSH_SECONDS = 8.0
LOG_SECONDS = 60.0
# From a transaction's first event to its commit. Each takes an offset of every partition that has events, and
# consumers read its events after it.
COMMIT_SECONDS = 1.0
# Between two saves of the ids of sent events, which are half a megabyte: much less than retention leaves a
# topic's newest records. A start reads the events since then.
IDS_SECONDS = 300.0
_POLL_SECONDS = 0.5
_END_SECONDS = 3.0
# Ids that are remembered, per event that may be in flight: the duplicates of a rewound position come on top
# of those in flight. When as many are not saved, they are.
_RECENT_FACTOR = 20


def run(name: str) -> int:
    """Produce for stream ``name`` until SIGTERM or SIGINT; returns the exit code.

    143: ended as asked. 76: a later producer runs, or one of an earlier release. 78: its position is unknown,
    or its declaration wrong. 1: any other failure.
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
    events = source(spec, spec.feed)
    with explained(platform.kafka):
        _produce_until(spec, spec.feed, url, platform, events, stop)


def _produce_until(
    spec: StreamSpec, feed: Feed, url: str, platform: Platform, events: Source, stop: threading.Event
) -> None:
    """Produce, and start again with a certificate that was replaced, until ``stop``."""
    while True:
        producer = start(spec, feed, url, platform, events, stop)
        uncommitted = producer.run_until(stop)
        log.info("stopped: %s", producer.counts.message())
        if uncommitted:
            log.warning("events=%d not committed; the next start reads them again", uncommitted)
        if stop.is_set() or not producer.is_outdated:
            return
        log.info("starts again with the certificate that was replaced")


def start(
    spec: StreamSpec, feed: Feed, url: str, platform: Platform, events: Source, stop: threading.Event
) -> FeedProducer:
    """Fence the stream's producer, find where it was, and save that again as the new one.

    Raises PositionUnknown, Fenced, Undelivered, and as :func:`read_tail`.
    """
    deadline = time.monotonic() + feed.lock_seconds
    sender = Sender(platform.kafka, spec.name, spec.topic, feed.max_in_flight)
    try:
        sender.fence(lambda: stop.is_set() or time.monotonic() > deadline)
        with closing(Former(platform, spec.name)) as former:
            begin = find_start(spec, feed, url, platform.kafka, former)
            producer = FeedProducer(spec, feed, url, platform.kafka, events, begin, sender)
            if begin.is_former:
                former.forget()
                sender.forget_former()
                log.info("position moved from PostgreSQL to Kafka")
    except EpochEnded as error:
        raise ended(error, platform.kafka, spec.name, sender.instance) from error
    except BaseException:
        sender.abandon()
        raise
    log.info("started url=%s position=%s ids_known=%d", url, begin.position or LATEST, len(begin.ids))
    return producer


def find_start(spec: StreamSpec, feed: Feed, url: str, kafka: Kafka, former: Former) -> SavedPosition:
    """Where to begin, while Kafka takes nothing of an earlier producer. Raises as :func:`start`."""
    found = saved = load_position(kafka, spec.name)
    if saved is None:
        saved = former.load(feed.lock_seconds)
    elif saved.is_former:
        # It was killed before it could.
        former.forget()
        saved = replace(saved, is_former=False)
    tail = read_tail(kafka, spec.topic.name, saved)
    try:
        begin = resume(tail, saved, feed_name(url), feed)
    except PositionUnknown as error:
        # A later producer saves its position before it sends: these may be its records.
        if load_position(kafka, spec.name) == found:
            raise
        raise Fenced(
            f"another producer of {spec.name} has started, and Kafka lets it write instead"
        ) from error
    if begin.decision is not None and (saved is None or begin.decision != saved.decision):
        log.warning("position decided: %s", json.dumps(begin.decision))
    return begin


class FeedProducer:
    """One run of the producer that Kafka lets write. For one thread; it reads the feed in another."""

    # Between two heartbeats, each after a commit: one that is fenced sends none.
    heartbeat_seconds = HEARTBEAT_INTERVAL
    ids_seconds = IDS_SECONDS

    def __init__(
        self,
        spec: StreamSpec,
        feed: Feed,
        url: str,
        kafka: Kafka,
        source: Source,
        begin: SavedPosition,
        sender: Sender,
    ) -> None:
        """``begin``: found after ``sender`` fenced. Saves it."""
        self._spec, self._feed, self._url, self._kafka, self._sender = spec, feed, url, kafka, sender
        self._halt = threading.Event()
        self._activity = Activity(
            read_at=begin.read_at,
            gap=lambda since, now: gap(feed, since, now),
            stall_seconds=feed.read_timeout_seconds,
        )
        sender.begin(begin)
        self._heartbeat = HeartbeatSender(kafka, spec.name, "producer", spec.topic.name)
        self._reader = Reader(
            Client(url, feed, source.rewind, self._activity, self._halt),
            source,
            RecentIds(_RECENT_FACTOR * feed.max_in_flight, begin.ids),
            sender,
            self._activity,
            self._halt,
        )
        now = time.monotonic()
        self._next_heartbeat, self._ids_saved, self._next_log = 0.0, now, now + LOG_SECONDS
        self._last_logged = Counts()
        deadline = now + DELIVERY_SECONDS
        if not self._commit(lambda: time.monotonic() > deadline, with_ids=True):
            raise Undelivered(_NOT_TAKEN)

    @property
    def counts(self) -> Counts:
        return self._reader.counts

    @property
    def is_outdated(self) -> bool:
        """Whether the files of its login were replaced."""
        return self._sender.is_outdated

    def run_until(self, stop: threading.Event) -> int:
        """Produce until ``stop``, or until it is outdated; returns the events that are not committed
        FLUSH_SECONDS later.

        Raises Fenced, Undelivered, and errors of the reader; nothing is sent after that.
        """
        self._reader.start()
        try:
            while self._reader.is_alive and not stop.is_set() and not self.is_outdated:
                self._step(stop)
            self._reader.end(_END_SECONDS)
            failure = self._reader.failure
            if isinstance(failure, EventsForgotten):
                raise self._unknown(str(failure))
            if failure is not None:
                raise failure
            return self._end()
        except (EpochEnded, Undelivered) as error:
            found = ended(error, self._kafka, self._spec.name, self._sender.instance)
            if found is error:
                raise
            raise found from error
        finally:
            self._reader.end(_END_SECONDS)
            self._sender.abandon()

    def _end(self) -> int:
        deadline = time.monotonic() + FLUSH_SECONDS
        if not self._commit(lambda: time.monotonic() > deadline, with_ids=True):
            return self._sender.uncommitted
        self._send_heartbeat()
        return 0

    def _commit(self, gives_up: Callable[[], bool], *, with_ids: bool = False) -> bool:
        """Commit what was sent, with the position; whether Kafka did. Raises as :meth:`Sender.commit`."""
        return self._sender.commit(self._activity.read_at, gives_up, with_ids=with_ids)

    def _step(self, stop: threading.Event) -> None:
        is_due = self._sender.wait(_POLL_SECONDS, COMMIT_SECONDS)
        now = time.monotonic()
        is_heartbeat_due = now >= self._next_heartbeat
        if is_due or is_heartbeat_due:
            deadline = now + DELIVERY_SECONDS

            def gives_up() -> bool:
                self._send_heartbeat_if_due()
                return stop.is_set() or time.monotonic() > deadline

            if not self._commit(gives_up, with_ids=self._are_ids_due(now)) and not stop.is_set():
                raise Undelivered(_NOT_TAKEN)
        if is_heartbeat_due:
            self._send_heartbeat_if_due()
            self._check_gap()
        if now >= self._next_log:
            self._next_log = now + LOG_SECONDS
            counts = replace(self.counts)
            if counts != self._last_logged:
                self._last_logged = counts
                log.info("%s", counts.message())

    def _are_ids_due(self, now: float) -> bool:
        """Whether ids are saved now: before retention deletes a slow feed's records, the only ones to hold
        them; and before a start would have too many records to read."""
        unsaved = self._sender.unsaved_ids
        is_due = now >= self._ids_saved + self.ids_seconds and unsaved > 0
        if not is_due and unsaved < _RECENT_FACTOR * self._feed.max_in_flight:
            return False
        self._ids_saved = now
        return True

    def _check_gap(self) -> None:
        read_at = self._sender.saved.read_at
        if not self._activity.is_connected and (reason := gap(self._feed, read_at, time.time())):
            raise self._unknown(reason)

    def _unknown(self, reason: str) -> PositionUnknown:
        """What the next start will find: nothing is committed any more."""
        tail = read_tail(self._kafka, self._spec.topic.name, None)
        return unknown(reason, tail, load_position(self._kafka, self._spec.name), feed_name(self._url))

    def _send_heartbeat_if_due(self) -> None:
        now = time.monotonic()
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + self.heartbeat_seconds
            self._send_heartbeat()

    def _send_heartbeat(self) -> None:
        state, since = self._activity.state()
        detail = self._activity.error if state == "connecting" else self.counts.message()
        self._heartbeat.send(self._sender.saved.ends, state, detail, since)


def ended(error: EpochEnded | Undelivered, kafka: Kafka, name: str, instance: str) -> Exception:
    """Who began a new epoch: another producer than ``instance``, which saves a position at once; or Kafka
    itself, because this process stood still within a transaction. Of a producer that stood still for long its
    own client gives up first, though another one may have started: such an error is the same otherwise."""
    try:
        saved = load_position(kafka, name)
    except (KafkaException, TimeoutError) as failure:
        log.warning("position not read: %s", failure)
        # Restarted after another error, a fenced producer would fence its successor, and be fenced by that.
        saved = None
    if saved is not None and saved.instance != instance:
        return Fenced(f"another producer of {name} has started, and Kafka lets it write instead ({error})")
    if isinstance(error, Undelivered):
        return error
    if error.seconds > TRANSACTION_SECONDS:
        return Undelivered(
            f"Kafka aborted a transaction of {name} that was open for {error.seconds:.0f} s, more than "
            f"{TRANSACTION_SECONDS} s ({error}). Fix: none, the next start reads its events again"
        )
    return Fenced(f"another producer of {name} is starting, and Kafka lets it write instead ({error})")
