"""Background records while a drill goes on, each of them known, so that each can be looked for."""

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

from local.drills.stream import StreamUnderTest
from local.stack import lake as details

PER_SECOND = 10
# The field that carries a record's number: a time in microseconds, which no taxi ride will have.
FIELD = "tpep_pickup_datetime"
# As long as a drill may take: what Kafka cannot take now waits, and is not given up.
STALL_TIMEOUT_SECONDS = 1800


class Trips:
    """Avro bodies of good trips, made with another Avro library than the jobs use."""

    def __init__(self, site: StreamUnderTest) -> None:
        declared: dict[str, Any] = json.loads(site.spec.schema_file.read_text())
        self._schema = fastavro.parse_schema(declared)
        self._trip = {f["name"]: 1 for f in declared["fields"] if not isinstance(f["type"], list)}

    def body(self, number: int) -> bytes:
        """A trip that began at `number` microseconds since 1970."""
        out = io.BytesIO()
        trip = self._trip | {FIELD: number, "tpep_dropoff_datetime": number + 1}
        fastavro.schemaless_writer(out, self._schema, trip)
        return out.getvalue()


class TrafficGenerator:
    """Foreign records, PER_SECOND of them, over all partitions in turn, from `start` to `stop`.

    The producer is idempotent: a broker that dies does not make it send anything twice.
    """

    def __init__(self, site: StreamUnderTest) -> None:
        self._site = site
        self._trips = Trips(site)
        self._producer = site.producer(
            **{"enable.idempotence": "true", "message.timeout.ms": str(STALL_TIMEOUT_SECONDS * 1000)}
        )
        # Unlike those of every other trickle, and of every ride: the numbers go on from now, 200 years later.
        self._first = time.time_ns() // 1000 + 200 * 365 * 86400 * 1_000_000
        self._sent = 0
        self._taken: set[int] = set()
        self._refused: list[str] = []
        self._guard = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trickle", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 120.0) -> int:
        """Sends no more, and waits until Kafka has taken it all; gives how much it has not. Repeatable."""
        self._end.set()
        if self._thread.ident is not None:  # else it was never started
            self._thread.join()
        left: int = self._producer.flush(seconds)
        return left + len(self._refused)

    @property
    def taken(self) -> set[int]:
        """The numbers of the records that Kafka has."""
        with self._guard:
            return set(self._taken)

    @property
    def span(self) -> tuple[int, int]:
        """All numbers that were sent are in `[first, after)`."""
        return self._first, self._first + self._sent

    @property
    def refusals(self) -> list[str]:
        """Why records were given up; empty as it should be."""
        return list(self._refused)

    def more(self, count: int) -> None:
        """Sends so many at once, besides."""
        for _ in range(count):
            self._send()
        self._producer.poll(0)

    def _run(self) -> None:
        while not self._end.wait(1 / PER_SECOND):
            self._send()
            self._producer.poll(0)

    def _send(self) -> None:
        with self._guard:
            number = self._first + self._sent
            self._sent += 1

        def noted(error: object, _: object) -> None:
            if error is not None:
                self._refused.append(str(error))
                return
            with self._guard:
                self._taken.add(number)

        spec = self._site.spec
        self._producer.produce(
            spec.topic.name,
            self._trips.body(number),
            partition=number % spec.topic.partitions,
            on_delivery=noted,
        )


def published(site: StreamUnderTest, span: tuple[int, int]) -> Counter[int]:
    """Number → how often it is on main, for the numbers in the span."""
    lake, _ = details.tables(site.stack, site.spec)
    first, after = (datetime.fromtimestamp(number / 1e6, UTC) for number in span)
    words = [moment.strftime("%Y-%m-%dT%H:%M:%S") for moment in (first, after)]
    rows = lake.scan(
        # A second too much on each side; what is not the trickle's is left out below.
        row_filter=f"{FIELD} >= '{words[0]}'",
        selected_fields=(FIELD,),
    ).to_arrow_batch_reader()
    found: Counter[int] = Counter()
    for batch in rows:
        numbers = batch.column(FIELD).cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        found.update(number for number in numbers if span[0] <= number < span[1])
    return found


def lost_and_doubled(taken: Iterable[int], found: Counter[int]) -> tuple[int, int]:
    """How many records that Kafka took are not there, and how many are there too often (each as often)."""
    lost = sum(1 for number in taken if number not in found)
    return lost, sum(times - 1 for times in found.values() if times > 1)
