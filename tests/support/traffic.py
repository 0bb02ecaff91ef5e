"""Background load: numbered records, each of which can be verified."""

from __future__ import annotations

import io
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa

from local.stack import lake as details
from tests.support.stream import StreamUnderTest

PER_SECOND = 10
# Carries a record's number: a time in microseconds that no taxi ride has.
FIELD = "tpep_pickup_datetime"
# The maximum length of a drill: what Kafka cannot take now waits.
STALL_TIMEOUT_SECONDS = 1800


class Trips:
    """Avro bodies of valid trips, by another Avro library than the jobs use."""

    def __init__(self, stream: StreamUnderTest) -> None:
        declared: dict[str, Any] = json.loads(stream.spec.schema_file.read_text())
        self._schema = fastavro.parse_schema(declared)
        self._trip = {f["name"]: 1 for f in declared["fields"] if not isinstance(f["type"], list)}

    def body(self, number: int) -> bytes:
        """A trip that started at `number` microseconds since 1970."""
        out = io.BytesIO()
        trip = self._trip | {FIELD: number, "tpep_dropoff_datetime": number + 1}
        fastavro.schemaless_writer(out, self._schema, trip)
        return out.getvalue()


class TrafficGenerator:
    """PER_SECOND external records, over all partitions in turn, from `start` to `stop`, but while it pauses.

    The producer is idempotent: it sends nothing twice if the broker dies.
    """

    def __init__(self, stream: StreamUnderTest) -> None:
        self._stream = stream
        self._trips = Trips(stream)
        self._producer = stream.producer(
            **{"enable.idempotence": "true", "message.timeout.ms": str(STALL_TIMEOUT_SECONDS * 1000)}
        )
        # Unique among generators and rides: now, 200 years later.
        self._first = time.time_ns() // 1000 + 200 * 365 * 86400 * 1_000_000
        self._sent = 0
        self._delivered: set[int] = set()
        # The reasons of undelivered records.
        self.failures: list[str] = []
        self._guard = threading.Lock()
        self._end = threading.Event()
        self._pauses = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def pause(self) -> None:
        self._pauses.set()

    def resume(self) -> None:
        self._pauses.clear()

    def stop(self, seconds: float = 120.0) -> int:
        """Stop sending and wait for the deliveries; give the number of undelivered records. Idempotent."""
        self._end.set()
        if self._thread.ident is not None:  # it was started
            self._thread.join()
        left: int = self._producer.flush(seconds)
        return left + len(self.failures)

    @property
    def delivered(self) -> set[int]:
        """The numbers of the delivered records."""
        with self._guard:
            return set(self._delivered)

    @property
    def span(self) -> tuple[int, int]:
        """All sent numbers are in `[first, after)`."""
        return self._first, self._first + self._sent

    def send(self, count: int) -> None:
        """Send a burst."""
        for _ in range(count):
            self._send()
        self._producer.poll(0)

    def _run(self) -> None:
        while not self._end.wait(1 / PER_SECOND):
            if not self._pauses.is_set():
                self._send()
            self._producer.poll(0)

    def _send(self) -> None:
        with self._guard:
            number = self._first + self._sent
            self._sent += 1

        def delivered(error: object, _: object) -> None:
            if error is not None:
                self.failures.append(str(error))
                return
            with self._guard:
                self._delivered.add(number)

        spec = self._stream.spec
        self._producer.produce(
            spec.topic.name,
            self._trips.body(number),
            partition=number % spec.topic.partitions,
            on_delivery=delivered,
        )


def published(stream: StreamUnderTest, span: tuple[int, int]) -> Counter[int]:
    """Number → its count on main, for the numbers in the span."""
    lake, _ = details.tables(stream.stack, stream.spec)
    first = datetime.fromtimestamp(span[0] / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    rows = lake.scan(
        # In whole seconds; other numbers are left out below.
        row_filter=f"{FIELD} >= '{first}'",
        selected_fields=(FIELD,),
    ).to_arrow_batch_reader()
    found: Counter[int] = Counter()
    for batch in rows:
        numbers = batch.column(FIELD).cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        found.update(number for number in numbers if span[0] <= number < span[1])
    return found


def lost_and_duplicated(delivered: Iterable[int], found: Counter[int]) -> tuple[int, int]:
    """The numbers of missing records and of duplicates among the delivered ones."""
    lost = sum(1 for number in delivered if number not in found)
    return lost, sum(times - 1 for times in found.values() if times > 1)
