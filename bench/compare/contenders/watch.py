"""When a contender's records become queryable, seen from outside: latency, and the time after kill -9."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from types import TracebackType
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from botocore.exceptions import ClientError
from confluent_kafka import TopicPartition
from pyarrow import parquet

from bench.compare.contenders.jobs import Plain, Sluice, check
from bench.compare.figures import Figures, percentile
from bench.compare.meter import Background
from bench.compare.stack import LIMIT_SECONDS, BenchStack, end
from local.runtime.roles import WAREHOUSE
from local.stack.stack import wait_until
from sluice.clients.kafka.consumers import RANGE_SETTINGS, consumer, read_range
from sluice.clients.processes.parent import WORKED_SECONDS
from sluice.clients.s3.objects import Bucket
from tests.support.processes import component_processes, process_tree, signal_all
from tests.support.traffic import TrafficGenerator

POLL_SECONDS = 0.05
# After the first batch, which has what was waiting.
SETTLE_SECONDS = 15.0

Offsets = dict[int, int]
# (seconds since 1970, partition -> the offset up to which everything is queryable), ascending.
Published = Sequence[tuple[float, Mapping[int, int]]]


def latencies(sent: Mapping[tuple[int, int], float], published: Published) -> list[float]:
    """Seconds from each record's timestamp until it is queryable; without records that are not yet.

    ``sent``: (partition, offset) -> seconds since 1970.
    """
    found = []
    for (partition, offset), at in sent.items():
        first = bisect_left(published, True, key=lambda one: one[1].get(partition, 0) > offset)
        if first < len(published):
            found.append(published[first][0] - at)
    return found


class Contender(Protocol):
    """A consumer that runs on its own and can be killed."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def kill(self) -> None:
        """kill -9, and what its supervisor does then."""

    def ends(self) -> Offsets | None:
        """Partition -> the end of what is queryable, if that has changed since the last call."""

    def rows(self) -> int:
        """All that are queryable."""


class WatchedSluice:
    """Supervised by the stack's runtime, which restarts it."""

    def __init__(self, sluice: Sluice) -> None:
        self.stream, self.rows = sluice.stream, sluice.published
        self._location: str | None = None

    def start(self) -> None:
        self.stream.start_stream()

    def stop(self) -> None:
        self.stream.stop_stream()

    def kill(self) -> None:
        signal_all(component_processes(self.stream, self.stream.spec.program), signal.SIGKILL)

    def ends(self) -> Offsets | None:
        # The pointer costs no S3 call.
        location = self.stream.metadata_location()
        if location == self._location:
            return None
        self._location = location
        return self.stream.ends()


class WatchedPlain:
    """Restarted at once, as by a supervisor without a delay."""

    def __init__(self, bench: BenchStack, plain: Plain, topic: str) -> None:
        self._bench, self._plain = bench, plain
        self._command = plain.consumer(topic)
        self._topic, self._next = topic, 0
        self._process: subprocess.Popen[bytes] | None = None
        self._s3 = bench.stack.admin_s3()

    def start(self) -> None:
        self._process = self._bench.spawn(self._command, self._plain.name)

    def stop(self) -> None:
        if self._process is not None:
            end(self._process)

    def kill(self) -> None:
        if self._process is not None:
            signal_all(process_tree(self._process.pid), signal.SIGKILL)
            self._process.wait()
        self.start()

    def ends(self) -> Offsets | None:
        # Spark's readers see a file when the sink's log of its batch is there; every tenth is compacted.
        folder = f"{self._plain.folder}data/_spark_metadata/{self._next}"
        if not (self._exists(folder) or self._exists(f"{folder}.compact")):
            return None
        key = f"{self._plain.folder}checkpoint/offsets/{self._next}"
        offsets: dict[str, Any] = json.loads(self._read(key).splitlines()[-1])[self._topic]
        self._next += 1
        return {int(partition): offset for partition, offset in offsets.items()}

    def rows(self) -> int:
        logs = f"{self._plain.folder}data/_spark_metadata/"
        entries = Bucket(self._s3, WAREHOUSE).entries(logs)
        current = [entry.key for entry in entries if entry.is_latest and not entry.is_delete_marker]
        # A compacted log repeats the lines of those before it.
        lines = {line for key in current for line in self._read(key).decode().splitlines()}
        files = [json.loads(line)["path"] for line in lines if line.startswith("{")]
        bodies = (self._read(urlsplit(file).path.lstrip("/")) for file in files)
        return sum(parquet.read_metadata(io.BytesIO(body)).num_rows for body in bodies)

    def _read(self, key: str) -> bytes:
        return self._s3.get_object(Bucket=WAREHOUSE, Key=key)["Body"].read()

    def _exists(self, key: str) -> bool:
        try:
            self._s3.head_object(Bucket=WAREHOUSE, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] != "404":
                raise
            return False
        return True


class Watch(Background):
    """Asks a contender all the time for what is queryable, and stops it at the end of ``with``."""

    def __init__(self, contender: Contender) -> None:
        super().__init__(POLL_SECONDS)
        self._contender = contender
        self.published: list[tuple[float, Offsets]] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._contender.stop()

    def step(self) -> None:
        if ends := self._contender.ends():
            self.published.append((time.time(), ends))

    def wait(self, done: Callable[[Offsets], bool]) -> float:
        """The first moment at which what is queryable is ``done``."""
        found: list[float] = []

        def is_done() -> bool:
            self.check()
            found[:] = [at for at, ends in self.published if done(ends)]
            return bool(found)

        wait_until("queryable records", is_done, LIMIT_SECONDS, POLL_SECONDS)
        return found[0]


def measure(bench: BenchStack, contender: Contender, sluice: Sluice, seconds: float, kills: int) -> Figures:
    """Latency of 10 records a second over ``seconds``, then the seconds after each of ``kills`` until later
    records are queryable. ``sluice``: whose topic gets the records."""
    traffic, topic, found = TrafficGenerator(sluice.stream), sluice.spec.topic.name, Figures()
    traffic.start()
    try:
        contender.start()
        with Watch(contender) as watch:
            first = watch.wait(bool)
            time.sleep(SETTLE_SECONDS + seconds)
            sent = sent_since(bench, topic, first + SETTLE_SECONDS)
            # Wait for all records: those that wait longest are the last to be published.
            watch.wait(lambda ends: all(ends.get(p, 0) > offset for p, offset in sent))
            each = latencies(sent, watch.published)
            found |= {
                "latency_p50_seconds": round(percentile(each, 50), 2),
                "latency_p95_seconds": round(percentile(each, 95), 2),
                "records": float(len(each)),
                "batches": float(sum(at > first + SETTLE_SECONDS for at, _ in watch.published)),
            }
            recoveries = []
            for _ in range(kills):
                time.sleep(WORKED_SECONDS + 1)  # otherwise the runtime delays the next restart
                sent_before, killed = bench.ends(topic), time.time()
                contender.kill()
                # Not any commit: one may be the killed consumer's.
                recovered = watch.wait(partial(is_beyond, sent_before))
                recoveries.append(round(recovered - killed, 2))
            if recoveries:
                found |= {
                    "recovery_p50_seconds": percentile(recoveries, 50),
                    "recovery_p95_seconds": percentile(recoveries, 95),
                }
            check(f"undelivered records of {topic}", traffic.stop(), 0)
            ends = bench.ends(topic)
            watch.wait(lambda published: published == ends)
        check(f"queryable records of {topic}", contender.rows(), bench.records(topic))
    finally:
        traffic.stop()
    return found


def is_beyond(ends: Mapping[int, int], published: Offsets) -> bool:
    """Whether any record after ``ends`` is queryable."""
    return any(end > ends.get(partition, 0) for partition, end in published.items())


def sent_since(bench: BenchStack, topic: str, since: float) -> dict[tuple[int, int], float]:
    """The topic's records after ``since``: (partition, offset) -> the timestamp that their sender gave."""
    ends = bench.ends(topic)
    with closing(consumer(bench.superuser(), "bench", RANGE_SETTINGS)) as reader:
        asked = [TopicPartition(topic, partition, int(since * 1000)) for partition in ends]
        found = reader.offsets_for_times(asked, timeout=10)
        # -1: no record is that late.
        starts = {each.partition: each.offset for each in found if each.offset >= 0}
        return {
            (cast("int", message.partition()), cast("int", message.offset())): message.timestamp()[1] / 1000
            for message in read_range(reader, topic, starts, ends, 60)
        }
