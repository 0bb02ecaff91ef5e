"""A stream of the growth measurement: made longer by its own consumer, and measured.

Its history is one load that goes on: records of one source, so each batch looks up what is loaded already.
The consumer's log says when a batch is published, so waiting costs no S3 call.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from bench.background import Background
from bench.queries_exact import end_of_run
from bench.recovery import cpu_seconds, java_processes, memory_megabytes
from local.services import minio
from local.setup.bootstrap import java_home
from local.stack.stack import Stack, wait_until
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.processes.parent import WORKED_SECONDS
from sluice.config import stream as streams
from sluice.config.sections.topic import PROGRESS_TOPIC
from tests.support.processes import component_processes, signal_all
from tests.support.stream import StreamUnderTest
from tests.support.traffic import Trips

PARTITIONS = 2
RECORDS_PER_BATCH = 100
# Until the batches are steady after a start; then measured ones: two periods of what is done every tenth.
WARM_UP, MEASURED = 10, 20
LIMIT_SECONDS = 600.0

_LINE = re.compile(r"^(\S+ \S+) INFO \S+: (Spark started|lease acquired|batch published)(.*)$", re.M)


@dataclass(frozen=True)
class Event:
    """A line of the consumer's log. ``at``: seconds since 1970; of a batch: its records and seconds."""

    at: float
    what: str
    records: int = 0
    seconds: float = 0.0


def events(text: str) -> list[Event]:
    """What a consumer's log says about starts and batches, in its order."""
    found = []
    for time_text, what, rest in _LINE.findall(text):
        numbers = dict(re.findall(r"(records|seconds)=([\d.]+)", rest))
        at = datetime.strptime(time_text, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
        found.append(Event(at, what, int(numbers.get("records", 0)), float(numbers.get("seconds", 0))))
    return found


class GrowingStream(StreamUnderTest):
    """One stream of a stack, without another producer. ``batches``: the published ones."""

    def __init__(self, stack: Stack, name: str) -> None:
        super().__init__(stack, streams.load(name))
        self._trips, self._producer = Trips(self), self.producer()
        self._log = stack.home.logs / f"{self.spec.program}.log"
        self._sent = self._sources = self.batches = 0

    def begin(self) -> None:
        for topic in (self.spec.topic, PROGRESS_TOPIC):
            KafkaAdmin(self.stack.platform("airflow").kafka).provision(topic)
        self.start_stream()

    def grow(self, batches: int, say: Callable[[str], None] = print) -> dict[str, float]:
        """Publish that many batches, as fast as the consumer does; S3 calls and bytes of all of them."""
        before, published = self._metrics(), self.batches
        began, sent = time.monotonic(), 0
        while sent < batches:
            some = min(50, batches - sent)
            self.publish([self._key(number) for number in self._numbers(some)])
            sent += some
            each = (time.monotonic() - began) / sent
            left = f"{each * (batches - sent) / 60:.0f} min to go"
            say(f"{self.spec.name}: {self.batches} batches, {each:.2f} s each, {left}")
        return self._per_batch(before, self.batches - published)

    def publish(self, keys: Sequence[str]) -> list[Event]:
        """Send a record per key, over all partitions in turn; the events until all are published."""
        mark = self._size()
        self._send(keys)
        return self._wait(mark, len(keys))

    def load_sources(self, count: int) -> None:
        """Publish one row of each of that many sources."""
        first, self._sources = self._sources, self._sources + count
        self.publish([f"{number:016x}:0:0" for number in range(first, first + count)])

    def fail_over(self) -> dict[str, float]:
        """Kill the consumer (-9); seconds until a successor has published, and what it spent until then.

        ``beyond_start_seconds``: without the time until its Spark session is up, by its log.
        """
        since = self.status().since or 0.0
        # Otherwise the runtime would delay the restart.
        time.sleep(max(since + WORKED_SECONDS + 1 - time.time(), 0.0))
        mark, killed = self._size(), time.time()
        signal_all(component_processes(self, self.spec.program), signal.SIGKILL)
        self._send([self._key(number) for number in self._numbers(1)])
        found, cpu = self._wait(mark, RECORDS_PER_BATCH), cpu_seconds(self)
        times = {event.what: event.at for event in reversed(found)}
        published = times["batch published"]
        return {
            "failover_seconds": round(published - killed, 2),
            "failover_beyond_start_seconds": round(published - times["Spark started"], 2),
            "failover_lease_seconds": round(times["lease acquired"] - times["Spark started"], 2),
            "failover_cpu_seconds": cpu,
        }

    def steady(self) -> dict[str, float]:
        """Figures per batch of MEASURED batches, with the S3 calls by API."""
        keys = [self._key(number) for number in self._numbers(MEASURED)]
        before, cpu = self._metrics(), cpu_seconds(self)
        found = self.publish(keys)
        spent, after = cpu_seconds(self) - cpu, self._metrics()
        seconds = [event.seconds for event in found if event.records]
        return {
            **self._per_batch(before, len(seconds), after),
            "seconds_per_batch": round(sum(seconds) / len(seconds), 3),
            "cpu_seconds_per_batch": round(spent / len(seconds), 3),
        }

    def memory(self) -> dict[str, float]:
        """Megabytes: resident, and the objects that the JVM's heap holds after a full collection."""
        return {
            "rss_megabytes": memory_megabytes(self)["component"],
            "live_heap_megabytes": round(self._live_heap() / 2**20, 1),
        }

    def _live_heap(self) -> int:
        (java,) = java_processes(self, self.spec.program)
        command = [f"{java_home()}/bin/jcmd", str(java), "GC.class_histogram"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        # Total  <objects>  <bytes>
        return int(text.split("\nTotal")[1].split()[1])

    def load(self, rows: Sequence[str]) -> dict[str, float]:
        """Run a load of a CSV object (its header first); seconds and S3 calls of its tasks, but no calls if
        those of another task may be among them."""
        dag, key = self.loading, f"{self.spec.name}/{time.time_ns()}.csv"
        self.stack.admin_s3().put_object(Bucket="source", Key=key, Body="\n".join([*rows, ""]).encode())
        self.airflow.wait_for_dag(dag, LIMIT_SECONDS)
        self.airflow.unpause(dag)
        mark = self._size()
        with Calls(self.stack) as calls:
            run = self.airflow.trigger(dag, {"objects": [key]})
            state = end_of_run(self.stack, dag, run, 2 * LIMIT_SECONDS)
        tasks = {task["task_id"]: task for task in self.airflow.tasks(dag, run)}
        if state != "success":
            failed = next((name for name, task in tasks.items() if task["state"] == "failed"), None)
            log = self.airflow.log(dag, run, failed)[-20:] if failed else []
            raise RuntimeError("\n".join([f"{run} of {dag} is {state}, task {failed}:", *log]))
        self._wait(mark, len(rows) - 1)
        begins, ends = (
            {name: _seconds(task[date]) for name, task in tasks.items()}
            for date in ("start_date", "end_date")
        )
        found = {"wait_for_publish_seconds": round(ends["wait_for_publish"] - ends["produce"], 2)}
        for before, name, after in (
            ("wait_for_publish", "validate", "audit"),
            ("validate", "audit", "emit_asset_event"),
        ):
            found[f"{name}_seconds"] = round(ends[name] - begins[name], 2)
            count = calls.between((ends[before], begins[name]), (ends[name], begins[after]))
            if count is not None:
                found[f"{name}_s3_calls"] = count
        return found

    def maintain(self) -> str:
        """Run the stream's maintenance; its end state."""
        dag = f"{self.spec.name}_maintenance"
        self.airflow.wait_for_dag(dag, LIMIT_SECONDS)
        self.airflow.unpause(dag)
        return end_of_run(self.stack, dag, self.airflow.trigger(dag), 3600)

    def metadata_sizes(self) -> dict[str, float]:
        """Bytes of the table's metadata file: as JSON, and as it is stored."""
        table = self.table()
        bucket, key = table.metadata_location.removeprefix("s3://").split("/", 1)
        stored = self.stack.admin_s3().head_object(Bucket=bucket, Key=key)["ContentLength"]
        return {"metadata_bytes": len(table.metadata.model_dump_json()), "metadata_stored_bytes": stored}

    def table_sizes(self) -> dict[str, int]:
        """What may grow."""
        table = self.table()
        head = table.current_snapshot()
        return {
            "snapshots": len(table.metadata.snapshots),
            "manifests": len(head.manifests(table.io)) if head else 0,
            "data_files": int(head.summary["total-data-files"] or 0) if head and head.summary else 0,
        }

    def _numbers(self, batches: int) -> range:
        first, self._sent = self._sent, self._sent + batches * RECORDS_PER_BATCH
        return range(first, self._sent)

    def _key(self, number: int) -> str:
        return f"{'f' * 16}:{number}:{number // PARTITIONS}"

    def _send(self, keys: Sequence[str]) -> None:
        for number, key in enumerate(keys):
            body = self._trips.body(number)
            self._producer.produce(
                self.spec.topic.name, body, key=key.encode(), partition=number % PARTITIONS
            )
            self._producer.poll(0)
        if left := self._producer.flush(60):
            raise TimeoutError(f"{left} records were not taken by Kafka within 60 s")

    def _wait(self, mark: int, records: int) -> list[Event]:
        """The events after ``mark`` when that many records are published."""
        found = list[Event]()

        def published() -> bool:
            found[:] = events(self._log.read_bytes()[mark:].decode(errors="replace"))
            return sum(event.records for event in found) >= records

        wait_until(f"{records} records published", published, LIMIT_SECONDS + records / 50, 0.1)
        self.batches += sum(1 for event in found if event.records)
        return found

    def _size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _per_batch(
        self, before: Counter[str], batches: int, after: Counter[str] | None = None
    ) -> dict[str, float]:
        after = after or self._metrics()
        each = {name: round((after[name] - before[name]) / max(batches, 1), 2) for name in sorted(after)}
        received, sent = each.pop("received"), each.pop("sent")
        return {
            "s3_calls_per_batch": round(sum(each.values()), 2),
            "bytes_written_per_batch": received,
            "bytes_read_per_batch": sent,
            **{f"calls.{name}": value for name, value in each.items() if value},
        }

    def _metrics(self) -> Counter[str]:
        text = minio.metrics(self.stack.context)
        return Counter(minio.parse_requests(text) | minio.parse_traffic(text))


def _seconds(time_text: str) -> float:
    return datetime.fromisoformat(time_text).timestamp()


class Calls(Background):
    """S3 calls to the stack over time, by MinIO's counters, sampled four times a second."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(0.25)
        self._stack = stack
        # When MinIO was asked, when it had answered, and the calls so far.
        self.samples: list[tuple[float, float, int]] = []

    def step(self) -> None:
        asked, count = time.time(), sum(minio.requests(self._stack.context).values())
        self.samples.append((asked, time.time(), count))

    def between(self, pause: tuple[float, float], next_pause: tuple[float, float]) -> int | None:
        """Calls from one pause between tasks to another one; None without a sample in each of them, as on a
        busy machine."""
        first, last = self._in(pause), self._in(next_pause)
        return last[0] - first[-1] if first and last else None

    def _in(self, pause: tuple[float, float]) -> list[int]:
        begin, end = pause
        return [count for asked, answered, count in self.samples if begin <= asked and answered <= end]
