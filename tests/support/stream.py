"""A stream of a stack, for tests, drills and measurements: read by other means than the jobs use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any

from confluent_kafka import Producer
from pyiceberg.table import Table

from local.stack.stack import Stack, wait_until
from sluice.cli.airflow_api import Airflow
from sluice.clients.kafka.consumers import topic_offsets
from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.commits import Commit, ancestors, commits, summary_of
from sluice.clients.processes.base import Runtime
from sluice.clients.processes.opened import open_runtime
from sluice.config.stream import StreamSpec
from sluice.core.errors import Missing
from sluice.core.processes.status import ProcessStatus
from sluice.ledger.history import History

# supervisord's states of a program that runs or will.
GOING = ("STARTING", "RUNNING", "BACKOFF")
PUBLISH_SECONDS = 400.0
SEND_SECONDS = 60.0


class StreamUnderTest:
    """One stream of a stack. Only `producer` may be called from several threads."""

    def __init__(self, stack: Stack, spec: StreamSpec) -> None:
        self.stack, self.spec = stack, spec
        self.supervision, self.loading = f"{spec.name}_stream", f"{spec.name}_load"

    @cached_property
    def airflow(self) -> Airflow:
        return self.stack.airflow()

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Partition → (first, next) offset, from the broker."""
        return topic_offsets(self.stack.platform("reader").kafka, self.spec.topic.name)

    def producer(self, **more: Any) -> Producer:
        """An external producer with the producer role's rights; `more`: librdkafka's configuration."""
        # More than a test sends before the first delivery.
        queue = {"queue.buffering.max.messages": "2000000"}
        return Producer(self.stack.kafka("producer") | {"linger.ms": "5", "log_level": "0"} | queue | more)

    def send(self, values: Mapping[int, Iterable[bytes | None]]) -> set[tuple[int, int]]:
        """Send records of an external producer, partition → values, without keys; give partition and offset
        of each. Raises TimeoutError unless Kafka took all."""
        offsets, errors, count = set[tuple[int, int]](), list[str](), 0

        def delivered(error: object, message: Any) -> None:
            if error is not None:
                errors.append(str(error))
            else:
                offsets.add((message.partition(), message.offset()))

        producer = self.producer()
        for partition, bodies in values.items():
            for body in bodies:
                producer.produce(self.spec.topic.name, body, partition=partition, on_delivery=delivered)
                count += 1
        producer.flush(SEND_SECONDS)
        if len(offsets) != count:
            reason = errors[0] if errors else f"no answer within {SEND_SECONDS:.0f} s"
            raise TimeoutError(f"Kafka took {len(offsets)} of {count} records: {reason}")
        return offsets

    def send_spread(self, bodies: Sequence[bytes]) -> set[tuple[int, int]]:
        """As `send`, to all partitions in turn."""
        partitions = self.spec.topic.partitions
        return self.send({partition: bodies[partition::partitions] for partition in range(partitions)})

    @cached_property
    def lake(self) -> Lake:
        return self.stack.lake("airflow")

    def table(self) -> Table:
        """Raises clients.errors.Missing before the stream's first start."""
        return self.lake.table(self.spec.table)

    def commits(self, since: float = 0.0) -> list[Commit]:
        """The consumers' commits to main after `since`, oldest first."""
        newest = takewhile(lambda commit: commit.at > since, commits(self.table()))
        return [commit for commit in newest if commit.kind][::-1]

    def ends(self) -> dict[int, int]:
        """Partition → published end offset; without partitions that have no record."""
        found = self.lake.position(self.spec.table)
        return {} if found is None else {p: end for p, end in found.ends.items() if end > found.starts[p]}

    def epoch(self) -> int:
        """The newest writer epoch of the table's snapshots; 0 before the first."""
        try:
            metadata = self.table().metadata
        except Missing:
            return 0
        epochs = [int(summary_of(s).get("sluice.epoch", 0)) for s in metadata.snapshots]
        return max([0, *epochs])

    def unpublished(self) -> list[str]:
        """The branches whose head is not on main."""
        table = self.table()
        on_main = {snapshot.snapshot_id for snapshot in ancestors(table)}
        return [name for name, ref in table.metadata.refs.items() if ref.snapshot_id not in on_main]

    def snapshot_files(self) -> set[str]:
        """The addresses of the manifest lists in the bucket, also of snapshots that are staged and in no
        metadata."""
        bucket, _, folder = self._location.removeprefix("s3://").partition("/")
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=f"{folder}/metadata/snap-"
        )
        return {item["Key"] for page in pages for item in page.get("Contents", [])}

    @cached_property
    def _location(self) -> str:
        return self.table().location()

    @cached_property
    def _s3(self) -> Any:
        return self.stack.admin_s3()

    def wait_for_staged(self, before: set[str], seconds: float = 60) -> None:
        """Wait until a snapshot is staged; polls every millisecond, since the publish follows soon."""
        wait_until("a staged snapshot", lambda: bool(self.snapshot_files() - before), seconds, 0.001)

    def metadata_location(self) -> str | None:
        """From the catalog, without an S3 call."""
        return self.lake.location(self.spec.table)

    def wait_for_commit(self, before: str | None, seconds: float = 60) -> None:
        """Wait until the table's pointer moves; polls every millisecond, since the publish follows soon."""
        wait_until("a commit", lambda: self.metadata_location() != before, seconds, 0.001)

    def process(self, program: str | None = None) -> dict[str, Any]:
        """supervisord's view of a program, by default of the consumer's."""
        return dict(self.stack.daemon.proxy().getProcessInfo(program or self.spec.program))

    def is_going(self, program: str | None = None) -> bool:
        """Whether a program runs or will."""
        return self.process(program)["statename"] in GOING

    def end(self, program: str) -> None:
        """Through supervisord, if the program is going."""
        if self.is_going(program):
            self.stack.daemon.proxy().stopProcess(program)

    def status(self, program: str | None = None) -> ProcessStatus:
        """Supervision's view of a program: a component's own process, not its parent process."""
        return self._runtime.status(program or self.spec.program)

    @cached_property
    def _runtime(self) -> Runtime:
        return open_runtime(self.stack.platform("airflow"))

    def stop_stream(self) -> None:
        """Through supervisord, without Airflow."""
        self._runtime.stop(self.spec.program, grace=0)

    def start_stream(self) -> None:
        """Through supervisord, without Airflow; waits until the consumer has the writer lease."""
        before = self.epoch()
        self._runtime.start(self.spec.program)
        wait_until("the consumer's writer lease", lambda: self.epoch() > before, PUBLISH_SECONDS)

    @cached_property
    def history(self) -> History:
        return self.stack.systems("airflow").history(self.spec.name)

    def runs(self, dag: str, limit: int = 20) -> list[dict[str, Any]]:
        """The newest runs of a DAG, newest first."""
        newest = {"order_by": "-run_after", "limit": limit}
        return list(self.airflow.request("GET", f"/dags/{dag}/dagRuns", params=newest)["dag_runs"])
