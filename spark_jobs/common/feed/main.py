"""What a feed's producer is started with, and how it ends."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass

from sluice.model import platform as platforms
from sluice.model import stream as streams
from sluice.model.stream import Feed, StreamSpec
from spark_jobs.common.feed import arrivals
from spark_jobs.common.feed.event import Source
from spark_jobs.common.feed.headers import feed_name
from spark_jobs.common.feed.lock import Lock
from spark_jobs.common.feed.production import TAIL_FACTOR, Production
from spark_jobs.common.feed.reader import Counts
from spark_jobs.common.feed.records import Records
from spark_jobs.common.feed.resume import read_tail
from spark_jobs.common.fence import Superseded
from spark_jobs.common.functions import function
from spark_jobs.common.process import live

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bounds:
    """How far a run goes; without either, for good."""

    events: int | None
    minutes: float | None

    @property
    def are_there(self) -> bool:
        return self.events is not None or self.minutes is not None


def run(name: str, arguments: Sequence[str]) -> int:
    """Produce for stream ``name`` as the ``arguments`` say; returns the exit code.

    Without options, until it is told to stop (SIGTERM, SIGINT). With ``--events`` or ``--minutes``, until the
    first of them is reached; then the last line of stdout is what came of it, as JSON. 0: ended as asked.
    76: another producer runs, or may run. 1: anything else; the last line of stderr says what.
    """
    bounds = _bounds(name, arguments)
    # It logs every request; the client says more of each.
    logging.getLogger("httpx").setLevel(logging.WARNING)

    def produce(stop: threading.Event) -> None:
        result = _Run(name, bounds, stop).produce()
        if bounds.are_there and result is not None:
            sys.stdout.write(json.dumps(result.document()) + "\n")

    return live(f"the producer of {name}", produce)


@dataclass(frozen=True)
class Result:
    """What came of a run. ``begin``, ``ends``: partition -> offset, before its first record and behind its
    last; all records between them are its ``events``. ``adopted``: another producer sent some of them."""

    begin: dict[int, int]
    ends: dict[int, int]
    counts: Counts
    adopted: bool
    seconds: float

    @property
    def events(self) -> int:
        return sum(end - self.begin.get(partition, 0) for partition, end in self.ends.items())

    def document(self) -> dict[str, object]:
        return {
            "begin": self.begin,
            "ends": self.ends,
            "events": self.events,
            **asdict(self.counts),
            "adopted": self.adopted,
            "seconds": round(self.seconds, 1),
        }


def source(spec: StreamSpec, feed: Feed) -> Source:
    """What the stream says of its feed. Raises ConfigError for a function that is not there."""
    rewind = function(spec, feed.rewind) if feed.rewind else str
    return Source(function(spec, feed.event), rewind)


class _Run:
    def __init__(self, name: str, bounds: Bounds, stop: threading.Event) -> None:
        self._spec, self._platform = streams.load(name), platforms.load("producer")
        self._url = self._spec.feed_url(self._platform.feeds)
        assert self._spec.feed is not None
        self._feed = self._spec.feed
        self._source = source(self._spec, self._feed)
        self._bounds = bounds
        self._stop = stop
        self._began = time.monotonic()
        self._deadline = None if bounds.minutes is None else self._began + bounds.minutes * 60

    def produce(self) -> Result | None:
        """Under the lock; None when it was told to stop before it got that. Raises Superseded, Lost, and what
        a database, a broker or the reading raises."""
        with closing(Lock(self._platform.lake, self._spec.name)) as lock:
            if lock.take(0 if self._bounds.are_there else self._feed.lock_seconds, self._stop.is_set):
                return self._send(lock, None)
            if self._stop.is_set():
                return None
            if not self._bounds.are_there:
                raise Superseded(
                    f"another producer of {self._spec.name} holds the lock; waited "
                    f"{self._feed.lock_seconds} s for it"
                )
            return self._adopt(lock)

    def _adopt(self, lock: Lock) -> Result:
        """What the producer that runs sends is this run's; where it ends, this one goes on."""
        log.info("another producer of %s runs: this run is what that one sends", self._spec.name)
        with self._records() as records:
            found = arrivals.watch(records, lock, self._bounds.events, self._deadline, self._stop)
        if found.is_over:
            return Result(found.begin, found.ends, Counts(), adopted=True, seconds=self._seconds())
        log.info("the other producer is gone, after %d events; this one goes on", found.events)
        return self._send(lock, found)

    def _send(self, lock: Lock, before: arrivals.Arrivals | None) -> Result:
        """``before``: what came already to this run, by another producer."""
        with self._records() as records:
            tail = read_tail(records, feed_name(self._url), TAIL_FACTOR * self._feed.most_in_flight)
        log.info(
            "reading %s from %s; the ids of the topic's last %d records are known",
            self._url,
            tail.resume or "what is new",
            len(tail.ids),
        )
        begin = tail.ends if before is None else before.begin
        most = self._bounds.events
        if most is not None and before is not None:
            most = max(most - before.events, 0)
        production = Production(
            self._spec, self._feed, self._url, self._platform.kafka, self._source, tail, lock, most
        )
        left = production.until(self._stop, self._deadline)
        log.info("stopped: %s", production.counts.sentence())
        if left:
            log.warning("Kafka has not acknowledged %d events; the next start reads them again", left)
        ends = production.ends
        if self._bounds.are_there:
            with self._records() as records:
                ends = records.ends()
        return Result(begin, ends, production.counts, before is not None, self._seconds())

    def _records(self) -> Records:
        return Records(self._platform.kafka, self._spec.topic.name)

    def _seconds(self) -> float:
        return time.monotonic() - self._began


def _bounds(name: str, arguments: Sequence[str]) -> Bounds:
    parser = argparse.ArgumentParser(description=f"Read the feed of {name} into its topic.")
    parser.add_argument("--events", type=int, help="end after so many events")
    parser.add_argument("--minutes", type=float, help="end after so many minutes")
    given = parser.parse_args(arguments)
    for option in ("events", "minutes"):
        value = getattr(given, option)
        if value is not None and value <= 0:
            parser.error(f"--{option} is {value}: give more than 0")
    return Bounds(given.events, given.minutes)
