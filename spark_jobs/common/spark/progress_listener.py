"""Query progress, from Spark's listener to its Kafka topic.

librdkafka sends from its own thread, so a query never waits; a killed process loses its last second.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from sluice.clients.kafka.login.certificates import Renewed
from sluice.clients.kafka.login.properties import librdkafka
from sluice.clients.kafka.query_progress import (
    ACTIVITY_SECONDS,
    ActivityEvent,
    ActivityKind,
    Entry,
    Totals,
    parse,
    record_key,
    to_json,
)
from sluice.config.platform import Platform
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sections.topic import PROGRESS_TOPIC

log = logging.getLogger(__name__)

# The longest wait for the last records at the end of the process.
CLOSE_SECONDS = 5.0
# Spark reports the end of a query from another thread, after the end.
END_SECONDS = 2.0
POLL_SECONDS = 1.0
MAX_DETAIL = 500
UNNAMED = "unnamed"

SETTINGS: dict[str, Any] = {
    "linger.ms": 500,
    "compression.type": "lz4",
    # Hours of batches, some megabytes; further ones are lost.
    "queue.buffering.max.messages": 10_000,
    "message.timeout.ms": 3_600_000,
    # Errors are logged here.
    "log_level": 2,
}


@contextmanager
def attach(spark: SparkSession, platform: Platform, stream: str) -> Iterator[None]:
    """Send the progress of all queries of the session while the block runs; failures are only logged.

    Leaving the block takes CLOSE_SECONDS and END_SECONDS at most.
    """
    producer = ProgressProducer(platform.kafka, stream)
    listener = ProgressListener(producer.send)
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            listener.report_activity()
            producer.poll(POLL_SECONDS)

    thread = threading.Thread(target=poll, name="progress", daemon=True)
    spark.streams.addListener(listener)
    thread.start()
    try:
        yield
    finally:
        listener.all_ended.wait(END_SECONDS)
        stop.set()
        thread.join()
        producer.close()
    # Not after an exception: the JVM may be its reason.
    spark.streams.removeListener(listener)


class ProgressProducer:
    """Sends entries from any thread without waiting. ``lost``: number of entries that were not sent."""

    def __init__(self, kafka: Kafka, stream: str) -> None:
        self._stream = stream
        settings = {**librdkafka(kafka), **SETTINGS}
        self._renewed = Renewed(kafka, lambda: Producer(settings, error_cb=self._unavailable))
        self._lock = threading.Lock()
        self._failing = False
        self.lost = 0

    def send(self, entry: Entry) -> None:
        key = record_key(self._stream, entry.query)
        try:
            self._renewed.client.produce(
                PROGRESS_TOPIC.name, to_json(entry), key, on_delivery=self._delivered
            )
        except (BufferError, KafkaException) as error:
            self._failed(str(error), lost=1)

    def poll(self, seconds: float) -> None:
        before = self._renewed.client
        if self._renewed.renew():
            # Its connections last as long as the brokers let them.
            before.flush(CLOSE_SECONDS)
        self._renewed.client.poll(seconds)

    def close(self) -> None:
        left = self._renewed.client.flush(CLOSE_SECONDS)
        if left:
            self._failed(f"not acknowledged in {CLOSE_SECONDS:g} s at the end of the process", left)
            self._renewed.client.purge()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed(error.str(), lost=1)
        elif self._failing:
            self._failing = False
            log.info("progress writes resumed stream=%s lost=%d", self._stream, self.lost)

    def _unavailable(self, error: KafkaError) -> None:
        # librdkafka retries; other errors are of single brokers.
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._failed(error.str(), lost=0)

    def _failed(self, reason: str, lost: int) -> None:
        with self._lock:
            self.lost += lost
            is_first, self._failing = not self._failing, True
        if is_first:
            log.warning("progress writes failing stream=%s lost=%d: %s", self._stream, self.lost, reason)


@dataclass
class _Run:
    query: str
    # From now on, also of a run that started before the listener.
    totals: Totals = field(default_factory=lambda: Totals(time.time()))
    is_idle: bool = False
    reported_at: float = 0.0


class ProgressListener(StreamingQueryListener):
    """Passes entries to ``send``. Spark calls it in one thread, ``report_activity`` is called in another."""

    def __init__(self, send: Callable[[Entry], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self.all_ended = threading.Event()
        self.all_ended.set()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        with self._lock:
            run = _Run(event.name or UNNAMED)
            self._runs[str(event.runId)] = run
            self.all_ended.clear()
            self._report(str(event.runId), run, ActivityKind.STARTED)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self.batch_ended(json.loads(event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        with self._lock:
            run = self._runs.get(str(event.runId))
            if run is not None and not run.is_idle:
                run.is_idle = True
                self._report(str(event.runId), run, ActivityKind.IDLE)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        with self._lock:
            run = self._runs.pop(str(event.runId), None)
            if run is not None:
                reason = (event.exception or "").strip().partition("\n")[0][:MAX_DETAIL]
                self._report(str(event.runId), run, ActivityKind.ENDED, reason)
            if not self._runs:
                self.all_ended.set()

    def batch_ended(self, data: Mapping[str, Any]) -> None:
        """``data``: Spark's JSON of a batch."""
        with self._lock:
            run = self._runs.setdefault(str(data["runId"]), _Run(data.get("name") or UNNAMED))
            progress = parse(data, run.query, run.totals)
            run.totals, run.is_idle, run.reported_at = progress.totals, False, monotonic()
            self._send(progress)

    def report_activity(self) -> None:
        """Send an activity event for each query without an entry for ACTIVITY_SECONDS."""
        with self._lock:
            for run_id, run in self._runs.items():
                if monotonic() - run.reported_at >= ACTIVITY_SECONDS:
                    self._report(run_id, run, ActivityKind.IDLE if run.is_idle else ActivityKind.WORKING)

    def _report(self, run_id: str, run: _Run, kind: ActivityKind, detail: str = "") -> None:
        run.reported_at = monotonic()
        self._send(ActivityEvent(run.query, run_id, time.time(), kind, detail))
