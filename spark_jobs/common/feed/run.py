"""The producer of a feed: from its start to its end."""

from __future__ import annotations

import logging
import threading
from contextlib import closing

from sluice.model.spec import platform as platforms
from sluice.model.spec import stream as streams
from sluice.model.spec.stream import Feed, StreamSpec
from spark_jobs.common.feed.event import Source
from spark_jobs.common.feed.lock import Lock
from spark_jobs.common.feed.producer import TAIL_FACTOR, FeedProducer
from spark_jobs.common.feed.resume import read_tail
from spark_jobs.common.feed.sender import feed_name
from spark_jobs.common.spark.functions import function
from spark_jobs.common.spark.process import Fenced, run_process

log = logging.getLogger(__name__)


def run(name: str) -> int:
    """Produce for stream ``name`` until told to stop (SIGTERM, SIGINT); returns the exit code.

    0: ended as asked. 76: another producer runs, or may run. 1: anything else; the last line of stderr says
    what.
    """
    # It logs every request; the client says more of each.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return run_process(f"the producer of {name}", lambda stop: _produce(name, stop))


def source(spec: StreamSpec, feed: Feed) -> Source:
    """What the stream says of its feed. Raises ConfigError for a function that is not there."""
    rewind = function(spec, feed.rewind) if feed.rewind else str
    return Source(function(spec, feed.event), rewind)


def _produce(name: str, stop: threading.Event) -> None:
    """Raises Fenced, Lost, and what a database, a broker or the reading raises."""
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
        depth = TAIL_FACTOR * feed.max_in_flight
        tail = read_tail(platform.kafka, spec.topic.name, feed_name(url), depth)
        position = tail.resume or "what is new"
        log.info(
            "reading %s from %s; the ids of the topic's last %d records are known",
            url,
            position,
            len(tail.ids),
        )
        production = FeedProducer(spec, feed, url, platform.kafka, events, tail, lock)
        unacknowledged = production.until(stop)
        log.info("stopped: %s", production.counts.message())
        if unacknowledged:
            log.warning(
                "Kafka has not acknowledged %d events; the next start reads them again", unacknowledged
            )
