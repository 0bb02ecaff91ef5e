"""What the integration tests do to a stack, and how they look at it: with other means than the jobs use."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from local.stack.stack import Stack, wait_until
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.broker_topics import BrokerTopics
from sluice.clients.lake.position import position
from sluice.clients.s3.requests import split_prefix
from sluice.core.errors import Missing
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.batches import BatchLog
from sluice.trace.find import StreamTrace
from tests.integration import streams
from tests.support import airflow_calls, topic_offsets
from tests.support.stream import PUBLISH_SECONDS, StreamUnderTest
from tests.support.traffic import Trips

DAG = "nyc_taxi_load"
SPEC = streams.load("nyc_taxi")
SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "nyc_taxi" / "taxi-data.csv.gz"
LOAD_SECONDS = 900


@dataclass
class Run:
    """A finished run: its state, its tasks' states, and what it says of its sources."""

    rig: Rig
    run_id: str
    state: str
    tasks: dict[str, str] = field(default_factory=dict)

    def xcom(self, task: str) -> Any:
        return self.rig.airflow.returned(DAG, self.run_id, task)

    def log(self, task: str, attempt: int = 1) -> str:
        return "\n".join(self.rig.airflow.log(DAG, self.run_id, task, attempt))

    @property
    def sources(self) -> list[str]:
        plan = airflow_calls.document(self.rig.stack, self.xcom("produce")["plan"])
        return [source["source_id"] for source in plan["sources"]]


class Rig(StreamUnderTest):
    def __init__(self, stack: Stack) -> None:
        super().__init__(stack, SPEC)

    # Putting things in.

    @cached_property
    def sample(self) -> list[str]:
        """The sample's lines, the header first."""
        return gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()

    def put(self, name: str, rows: list[str], header: str | None = None) -> str:
        """A CSV object with these data rows; returns its key."""
        text = "\n".join([self.sample[0] if header is None else header, *rows]) + "\n"
        return self.put_bytes(name, text.encode())

    def put_bytes(self, name: str, body: bytes) -> str:
        key = f"nyc_taxi/tests/{name}"
        self.stack.admin_s3().put_object(Bucket="source", Key=key, Body=body)
        return key

    def create_topic(self, partitions: int) -> None:
        admin = AdminClient({**self.stack.kafka("admin")})
        admin.create_topics([NewTopic(SPEC.topic.name, partitions, 1)])[SPEC.topic.name].result(30)
        wait_until("the topic", self.has_topic, 60, 0.1)

    def delete_topic(self) -> None:
        admin = AdminClient({**self.stack.kafka("admin")})
        admin.delete_topics([SPEC.topic.name])[SPEC.topic.name].result(30)
        wait_until("the topic's end", lambda: not self.has_topic(), 60, 0.1)

    def has_topic(self) -> bool:
        admin = AdminClient({**self.stack.kafka("admin")})
        return SPEC.topic.name in admin.list_topics(timeout=20).topics

    def trips(self, count: int) -> list[bytes | None]:
        """Avro bodies of good trips, made with another Avro library."""
        trips = Trips(self)
        return [trips.body(number) for number in range(count)]

    # Running.

    def start(self, **conf: Any) -> str:
        return self.airflow.trigger(DAG, conf)

    def finish(self, run_id: str, seconds: float = LOAD_SECONDS) -> Run:
        state = self.airflow.wait(DAG, run_id, seconds)
        tasks = {task["task_id"]: task["state"] for task in self.airflow.tasks(DAG, run_id)}
        airflow_calls.print_failed(self.airflow, DAG, run_id)
        return Run(self, run_id, state, tasks)

    def load(self, **conf: Any) -> Run:
        return self.finish(self.start(**conf))

    def attempts(self, run_id: str, task: str) -> int:
        (found,) = [t for t in self.airflow.tasks(DAG, run_id) if t["task_id"] == task]
        return int(found["try_number"])

    # Looking.

    def stream_log(self) -> str:
        """Empty before the stream's first start."""
        log = self.stack.home.logs / f"{self.spec.program}.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def named(self, name: str = SPEC.table) -> Any:
        return self.stack.lake("reader").table(name)

    def published_ends(self) -> dict[int, int]:
        """Partition -> how far the table and the quarantine reach together, from their rows."""
        ends: Counter[int] = Counter()
        for partition, offset in [*self.record_offsets(), *self.quarantined_offsets()]:
            ends[partition] = max(ends[partition], offset + 1)
        return dict(ends)

    def record_offsets(self) -> list[tuple[int, int]]:
        found = self.named().scan(selected_fields=("_kafka_partition", "_kafka_offset")).to_arrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def quarantine(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.named(SPEC.quarantine_table).scan().to_arrow().to_pylist()
        return rows

    def quarantined(self, source_id: str) -> dict[int, dict[str, Any]]:
        """The rows of a source in quarantine, by number."""
        return {row["_source_row"]: row for row in self.quarantine() if row["_source_id"] == source_id}

    def quarantined_offsets(self) -> list[tuple[int, int]]:
        return [
            (r["_kafka_partition"], r["_kafka_offset"]) for r in self.quarantine() if r["stage"] == "consumer"
        ]

    def rows_of(self, source_id: str) -> list[int]:
        """The published row numbers of a source, sorted, each as often as it is there."""
        scan = self.named().scan(row_filter=f"_source_id = '{source_id}'", selected_fields=("_source_row",))
        return sorted(scan.to_arrow().column(0).to_pylist())

    def places(self, source_id: str) -> dict[int, tuple[int, int]]:
        """The published row numbers of a source -> partition and offset."""
        names = ("_source_row", "_kafka_partition", "_kafka_offset")
        found = self.named().scan(row_filter=f"_source_id = '{source_id}'", selected_fields=names).to_arrow()
        columns = (found.column(name).to_pylist() for name in names)
        return {row: (partition, offset) for row, partition, offset in zip(*columns, strict=True)}

    def wait_for_everything(self, seconds: float = PUBLISH_SECONDS) -> None:
        """Until all that is on the topic is in the table's rows or in the quarantine's."""
        wanted = {p: after for p, (first, after) in self.bounds().items() if after > first}
        wait_until(
            f"everything up to {wanted} published", lambda: self.published_ends() == wanted, seconds, 1
        )

    def assert_exact(self) -> None:
        """Every offset of the topic exactly once, in the table or else in the quarantine; no row twice."""
        found = topic_offsets.compare_with_topic(self.stack, SPEC)
        assert found.is_ok, found.message()
        rows = self.named().scan(selected_fields=("_source_id", "_source_row")).to_arrow().to_pylist()
        sources = Counter((r["_source_id"], r["_source_row"]) for r in rows if r["_source_id"])
        assert [row for row, times in sources.items() if times > 1] == []

    def trace(self) -> StreamTrace:
        return StreamTrace.open(self.stack.systems("airflow"), SPEC)

    def assert_batches(self) -> None:
        """The batches that are listed are those that were published: together they read each published
        offset once, and have as many rows as the tables."""
        log = BatchLog.open(self.stack.s3("reader"), self.named())
        listed = [one.batch for one in log.newest(10_000) if not one.is_lost]
        assert len({batch.snapshot_id for batch in listed}) == len(listed)
        read = OffsetRanges()
        for batch in listed:
            assert not read.intersect(batch.ranges), f"{batch.ranges} is in two batches"
            assert batch.seconds is not None
            read = read.union(batch.ranges)
        found = position(self.named())
        assert found is not None
        assert read == OffsetRanges.from_ends(found.starts, found.ends)
        assert sum(batch.rows for batch in listed) == len(self.record_offsets())
        assert sum(batch.rejected for batch in listed) == len(set(self.quarantined_offsets()))

    # The stream's process.

    def ensure_stream(self) -> None:
        """So that a test can run alone, whatever came before: the stream runs, on a topic as declared."""
        BrokerTopics(KafkaAdmin(self.stack.platform("airflow").kafka)).provision(SPEC.topic)
        if not self.epoch() or not self.is_going():
            self.start_stream()
            # Its first batch publishes what came meanwhile; before the first of all there is no position.
            self.send({0: self.trips(1)})
            self.wait_for_everything()

    def reset(self) -> None:
        """The stream as on a stack that was never used: no process, topic, table, checkpoint, and no ledger,
        which would know that there was a table; nor does Airflow know what the ledger had."""
        self.stop_stream()
        if self.has_topic():
            self.delete_topic()
        catalog = self.stack.lake("consumer").catalog
        for name in (SPEC.table, SPEC.quarantine_table):
            try:
                location = self.lake.table(name).location()
            except Missing:
                continue
            catalog.drop_table(name)
            self._delete_versions(location)
        self._delete_versions(f"{self.stack.platform('airflow').lake.ledger}/{SPEC.name}")
        marks = {"variable_key_pattern": f"sluice_ledger_{SPEC.name}%"}
        for found in self.airflow.request("GET", "/variables", params=marks)["variables"]:
            self.airflow.request("DELETE", f"/variables/{found['key']}")
        shutil.rmtree(self.stack.home.checkpoints / SPEC.name, ignore_errors=True)

    def _delete_versions(self, folder: str) -> None:
        """Versions, not objects: deleting those would leave delete markers."""
        bucket, prefix = split_prefix(folder)
        s3 = self.stack.admin_s3()
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=f"{prefix}/"):
            for found in page.get("Versions", []):
                s3.delete_object(Bucket=bucket, Key=found["Key"], VersionId=found["VersionId"])

    def slice(self, first: int, count: int) -> list[str]:
        return list(islice(self.sample[1:], first, first + count))
