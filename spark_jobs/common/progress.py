"""What a process's queries say of themselves, kept in the bucket: they are looked at when it is long gone.

Spark's own listener hears of every batch, when it has ended. A thread writes what came since to the bucket
every WRITE_SECONDS, one object per query, and nothing where nothing came; so a driver that is killed takes
the lines of these seconds along, and no more. A query that says nothing for SIGN_SECONDS gets a line that its
process lives. That is two S3 calls a minute for a query at work, and one every two minutes for one at rest.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from sluice.model.platform import Platform
from sluice.model.progress import SIGN_SECONDS, WRITE_SECONDS, Entry, Kind, Sign, Totals, parse
from sluice.model.progress_lines import object_key, to_line

log = logging.getLogger(__name__)

# Of one query while S3 does not take them; then the oldest are dropped. Some megabytes.
MOST_LINES = 10_000
# For the last lines at the process's end, which has a deadline of its own.
CLOSE_SECONDS = 5.0
# Spark reports a query's end from a thread of its own, after the end.
END_SECONDS = 2.0
MOST_CHARACTERS = 500
# A query without a name: its progress must be kept somewhere.
UNNAMED = "unnamed"
# One try, and soon over: what was not taken is written with the next.
IMPATIENT = Config(retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=3, read_timeout=10)

# Writes an object: its key below the ledger, and its content. Raises BotoCoreError or ClientError.
Put = Callable[[str, bytes], None]


@contextmanager
def attach(
    spark: SparkSession, platform: Platform, stream: str, write_seconds: float = WRITE_SECONDS
) -> Iterator[None]:
    """While the block runs, all queries of the session ``spark`` are kept as those of ``stream``, every
    ``write_seconds``.

    What goes wrong with it is logged, and stops nothing. Leaving the block writes what is left, and takes
    CLOSE_SECONDS and END_SECONDS at most.
    """
    listener = Listener()
    writer = Writer(listener, stream, to_bucket(platform), time.time(), write_seconds)
    spark.streams.addListener(listener)
    writer.start()
    try:
        yield
    finally:
        listener.all_ended.wait(END_SECONDS)
        writer.stop()
    # Only where nothing was raised: else the JVM may be the reason, and the process ends.
    spark.streams.removeListener(listener)


@dataclass
class _Run:
    """A run of a query that has not ended."""

    query: str
    totals: Totals
    is_idle: bool = False
    # When it was heard of last, on the monotonic clock.
    heard: float = field(default_factory=time.monotonic)


class Listener(StreamingQueryListener):
    """Collects lines until they are taken. Spark calls it from one thread, :class:`Writer` from another."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most_lines: int = MOST_LINES) -> None:
        """``most_lines``: kept of a query; the oldest go first."""
        self._clock, self._most_lines = clock, most_lines
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._lines: dict[str, deque[str]] = {}
        self.dropped = 0
        self.all_ended = threading.Event()
        self.all_ended.set()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        query, now = event.name or UNNAMED, time.time()
        with self._lock:
            self._runs[str(event.runId)] = _Run(query, Totals(now), heard=self._clock())
            self.all_ended.clear()
            self._keep(Sign(query, str(event.runId), now, Kind.STARTED))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self.progressed(json.loads(event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        with self._lock:
            run = self._runs.get(str(event.runId))
            if run is None or run.is_idle:
                return
            run.is_idle, run.heard = True, self._clock()
            self._keep(Sign(run.query, str(event.runId), time.time(), Kind.IDLE))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        with self._lock:
            run = self._runs.pop(str(event.runId), None)
            if run is not None:
                why = (event.exception or "").strip().partition("\n")[0][:MOST_CHARACTERS]
                self._keep(Sign(run.query, str(event.runId), time.time(), Kind.ENDED, why))
            if not self._runs:
                self.all_ended.set()

    def progressed(self, data: dict[str, Any]) -> None:
        """A batch, as Spark's JSON."""
        name, identity = data.get("name") or UNNAMED, str(data["runId"])
        with self._lock:
            # Begun before anybody listened: its sums count from now.
            run = self._runs.setdefault(identity, _Run(name, Totals(time.time())))
            progress = parse(data, run.query, run.totals)
            run.totals, run.is_idle, run.heard = progress.totals, False, self._clock()
            self._keep(progress)

    def take(self) -> dict[str, list[str]]:
        """Query -> its lines since the last time, with a sign for each that was silent for too long."""
        with self._lock:
            for identity, run in self._runs.items():
                if self._clock() - run.heard >= SIGN_SECONDS:
                    run.heard = self._clock()
                    kind = Kind.IDLE if run.is_idle else Kind.WORKING
                    self._keep(Sign(run.query, identity, time.time(), kind))
            taken = {query: list(lines) for query, lines in self._lines.items() if lines}
            self._lines.clear()
            return taken

    def give_back(self, query: str, lines: list[str]) -> None:
        """What could not be written, before what came since."""
        with self._lock:
            both = [*lines, *self._lines.get(query, ())]
            self.dropped += max(len(both) - self._most_lines, 0)
            self._lines[query] = deque(both, self._most_lines)

    def _keep(self, entry: Entry) -> None:
        lines = self._lines.setdefault(entry.query, deque(maxlen=self._most_lines))
        self.dropped += len(lines) == self._most_lines
        lines.append(to_line(entry))


class Writer:
    """Writes a listener's lines from a thread of its own: every ``write_seconds``, and when it is stopped."""

    def __init__(
        self,
        listener: Listener,
        stream: str,
        put: Put,
        start: float,
        write_seconds: float = WRITE_SECONDS,
    ) -> None:
        self._write_seconds = write_seconds
        self._listener, self._stream, self._put, self._start = listener, stream, put, start
        self._fails = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write what is left, for CLOSE_SECONDS at most."""
        self._stop.set()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            log.warning("progress of %s: the last lines were not written in time", self._stream)

    def write(self) -> None:
        """One object for each query that said something. From the first that is not taken on, all stays for
        the next time."""
        failure: Exception | None = None
        taken = self._listener.take()
        for query, lines in taken.items():
            if failure is None:
                key = object_key(self._stream, query, time.time(), self._start)
                try:
                    self._put(key, "".join(f"{line}\n" for line in lines).encode())
                except (BotoCoreError, ClientError) as error:
                    failure = error
            if failure is not None:
                self._listener.give_back(query, lines)
        if taken:
            self._say(failure)

    def _say(self, failure: Exception | None) -> None:
        """Once for a streak of failures: it may last for hours, and is tried twice a minute."""
        if failure is not None and not self._fails:
            log.warning("progress of %s is not written, and tried again: %s", self._stream, failure)
        elif failure is None and self._fails:
            log.info(
                "progress is written again; %d lines were dropped since the start", self._listener.dropped
            )
        self._fails = failure is not None

    def _run(self) -> None:
        ended = False
        while not ended:
            ended = self._stop.wait(self._write_seconds)
            self.write()


def to_bucket(platform: Platform) -> Put:
    options = cast("dict[str, Any]", platform.s3.boto3())
    client = boto3.client("s3", **{**options, "config": options["config"].merge(IMPATIENT)})
    bucket, _, prefix = platform.lake.ledger.partition("://")[2].partition("/")
    root = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    def put(key: str, body: bytes) -> None:
        client.put_object(Bucket=bucket, Key=f"{root}{key}", Body=body, ContentType="application/jsonl")

    return put
