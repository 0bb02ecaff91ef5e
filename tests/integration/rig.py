"""What the integration tests do to a stack, and how they look at it: with other means than the jobs use."""

from __future__ import annotations

import gzip
import io
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
import psycopg2
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from local.stack import Stack, wait_until
from sluice.model import stream

DAG = "nyc_taxi_load"
SPEC = stream.load("nyc_taxi")
SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "nyc_taxi" / "taxi-data.csv.gz"
LOAD_SECONDS = 420
LAND_SECONDS = 180


@dataclass
class Run:
    """A finished run: its state, its tasks' states, and what it says of its sources."""

    rig: Rig
    run_id: str
    state: str
    tasks: dict[str, str] = field(default_factory=dict)

    def xcom(self, task: str) -> Any:
        return self.rig.airflow.xcom(DAG, self.run_id, task)

    def log(self, task: str, attempt: int = 1) -> str:
        return "\n".join(self.rig.airflow.log(DAG, self.run_id, task, attempt))

    @property
    def sources(self) -> list[str]:
        return [source["source_id"] for source in self.xcom("produce")["sources"]]


class Rig:
    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.airflow = stack.airflow()

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
        key = f"tests/{name}"
        self.stack.admin_s3().put_object(Bucket="source", Key=key, Body=body)
        return key

    def create_topic(self, partitions: int) -> None:
        admin = AdminClient(self.stack.kafka("admin"))
        admin.create_topics([NewTopic(SPEC.topic.name, partitions, 1)])[SPEC.topic.name].result(30)

    def send(self, values: dict[int, list[bytes | None]]) -> None:
        """Records of a foreign producer: partition -> values, without keys."""
        producer = Producer(self.stack.kafka("producer") | {"linger.ms": "5"})
        for partition, bodies in values.items():
            for body in bodies:
                producer.produce(SPEC.topic.name, body, partition=partition)
        assert producer.flush(30) == 0

    def trips(self, count: int) -> list[bytes | None]:
        """Avro bodies of good trips, made with another Avro library."""
        schema = fastavro.parse_schema(json.loads(SPEC.schema_file.read_text()))
        bodies: list[bytes | None] = []
        for number in range(count):
            out = io.BytesIO()
            trip = {f["name"]: 1 for f in schema["fields"] if not isinstance(f["type"], list)}
            trip |= {"tpep_pickup_datetime": number, "tpep_dropoff_datetime": number + 1}
            fastavro.schemaless_writer(out, schema, trip)
            bodies.append(out.getvalue())
        return bodies

    # Running.

    def start(self, **conf: Any) -> str:
        return self.airflow.trigger(DAG, conf)

    def finish(self, run_id: str, seconds: float = LOAD_SECONDS) -> Run:
        state = self.airflow.wait(DAG, run_id, seconds)
        tasks = {task["task_id"]: task["state"] for task in self.airflow.tasks(DAG, run_id)}
        run = Run(self, run_id, state, tasks)
        for task in (name for name, end in tasks.items() if end == "failed"):
            print(f"{run_id} {task} failed:\n{run.log(task, self.attempts(run_id, task))[-3000:]}")
        return run

    def load(self, **conf: Any) -> Run:
        return self.finish(self.start(**conf))

    def attempts(self, run_id: str, task: str) -> int:
        (found,) = [t for t in self.airflow.tasks(DAG, run_id) if t["task_id"] == task]
        return int(found["try_number"])

    # Looking.

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Partition -> (first, next) offset, from the broker."""
        partitions = (
            self._consumer.list_topics(SPEC.topic.name, timeout=20).topics[SPEC.topic.name].partitions
        )
        return {
            p: self._consumer.get_watermark_offsets(TopicPartition(SPEC.topic.name, p), timeout=20)
            for p in sorted(partitions)
        }

    @cached_property
    def _consumer(self) -> Consumer:
        # Silent: it outlives brokers that the tests kill, and would say so for the rest of the run.
        return Consumer(self.stack.kafka("admin") | {"group.id": "sluice-tests", "log_level": "0"})

    def table(self, name: str = SPEC.table) -> Any:
        return self.stack.catalog("reader").load_table(name)

    def published_ends(self) -> dict[int, int]:
        """Partition -> how far the table and the quarantine reach together, from their rows."""
        ends: Counter[int] = Counter()
        for partition, offset in [*self.coordinates(), *self.quarantined_coordinates()]:
            ends[partition] = max(ends[partition], offset + 1)
        return dict(ends)

    def coordinates(self) -> list[tuple[int, int]]:
        found = self.table().scan(selected_fields=("_kafka_partition", "_kafka_offset")).to_arrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def quarantine(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table(SPEC.quarantine_table).scan().to_arrow().to_pylist()
        return rows

    def quarantined_coordinates(self) -> list[tuple[int, int]]:
        return [
            (r["_kafka_partition"], r["_kafka_offset"]) for r in self.quarantine() if r["stage"] == "topic"
        ]

    def rows_of(self, source_id: str) -> list[int]:
        """The published row numbers of a source, sorted, each as often as it is there."""
        scan = self.table().scan(row_filter=f"_source_id = '{source_id}'", selected_fields=("_source_row",))
        return sorted(scan.to_arrow().column(0).to_pylist())

    def wait_for_everything(self, seconds: float = LAND_SECONDS) -> None:
        """Until all that is on the topic is published or in quarantine."""
        wanted = {p: after for p, (first, after) in self.bounds().items() if after > first}
        wait_until(
            f"everything up to {wanted} published", lambda: self.published_ends() == wanted, seconds, 1
        )

    def assert_exact(self) -> None:
        """Every offset of the topic exactly once, in the table or else in the quarantine; no row twice."""
        counted = Counter(self.coordinates())
        assert [pair for pair, times in counted.items() if times > 1] == []
        aside = set(self.quarantined_coordinates())
        assert aside & set(counted) == set()
        expected = {(p, o) for p, (first, after) in self.bounds().items() for o in range(first, after)}
        assert (set(counted) | aside) == expected
        rows = self.table().scan(selected_fields=("_source_id", "_source_row")).to_arrow().to_pylist()
        sources = Counter((r["_source_id"], r["_source_row"]) for r in rows if r["_source_id"])
        assert [row for row, times in sources.items() if times > 1] == []

    # The stream's process.

    def stream_info(self) -> dict[str, Any]:
        return dict(self.stack.supervisor().getProcessInfo(SPEC.program))

    def ensure_stream(self) -> None:
        """So that a test can run alone: a load starts the stream and makes its tables."""
        if self.stream_info()["statename"] != "RUNNING":
            assert self.load(objects=[self.put("first-of-all.csv", self.slice(0, 100))]).state == "success"

    def stop_stream(self) -> None:
        if self.stream_info()["statename"] in ("RUNNING", "STARTING", "BACKOFF"):
            self.stack.supervisor().stopProcess(SPEC.program)

    def start_stream(self) -> None:
        """Start it and wait until it owns the stream."""
        before = self.token()
        self.stack.supervisor().startProcess(SPEC.program)
        wait_until("the stream's take-over", lambda: self.token() > before, LAND_SECONDS)

    def token(self) -> int:
        summaries = [s.summary.additional_properties for s in self.table().metadata.snapshots if s.summary]
        return max(int(summary.get("sluice.token", 0)) for summary in summaries)

    def stream_log(self) -> str:
        return (self.stack.home.logs / f"{SPEC.program}.log").read_text(errors="replace")

    # The moment between a batch's append and its publishing.

    def metadata_location(self) -> str:
        """From the catalog's own row, which costs no S3 call."""
        with self._catalog.cursor() as cursor:
            cursor.execute(
                "select metadata_location from iceberg_tables where table_namespace = %s and table_name = %s",
                SPEC.table.split("."),
            )
            (location,) = cursor.fetchone() or ("",)
            return str(location)

    @cached_property
    def _catalog(self) -> Any:
        lake = self.stack.platform("reader").lake
        connection = psycopg2.connect(
            host=lake.catalog_host,
            port=lake.catalog_port,
            dbname=lake.catalog_database,
            user=lake.catalog_user,
            password=lake.catalog_password,
        )
        connection.autocommit = True
        return connection

    def unpublished(self) -> list[str]:
        """The branches whose head is not on main."""
        metadata = self.table().metadata
        parents = {s.snapshot_id: s.parent_snapshot_id for s in metadata.snapshots}
        on_main, snapshot = set(), metadata.refs["main"].snapshot_id
        while snapshot is not None:
            on_main.add(snapshot)
            snapshot = parents.get(snapshot)
        return [name for name, ref in metadata.refs.items() if ref.snapshot_id not in on_main]

    def wait_for_commit(self, before: str, seconds: float = 60) -> None:
        """Until the table's pointer moves; looks every millisecond, because what follows is soon over."""
        deadline = time.monotonic() + seconds
        while self.metadata_location() == before:
            assert time.monotonic() < deadline, "no commit came"
            time.sleep(0.001)

    def slice(self, first: int, count: int) -> list[str]:
        return list(islice(self.sample[1:], first, first + count))
