"""A stack and one of its streams, as drills and tests act on and read them: by other means than the jobs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import takewhile
from typing import Any

import psycopg2
from confluent_kafka import Producer
from pyiceberg.table import Table

from local.base import UsageError
from local.stack.airflow_api import Airflow
from local.stack.stack import Stack, wait_until
from sluice.clients.errors import Missing
from sluice.clients.lake.catalog import Commit, Lake, ancestors, commits, sluice_properties
from sluice.clients.ledger import History
from sluice.io.kafka import topic_offsets
from sluice.model.health.sample import ProcessStatus
from sluice.model.spec.stream import StreamSpec
from sluice.runtime.supervisord import SupervisorRuntime

LAND_SECONDS = 180.0
GOING = ("STARTING", "RUNNING", "BACKOFF")


class StreamUnderTest:
    """One stream of a stack. Not to be shared between threads, but for `producer`."""

    def __init__(self, stack: Stack, spec: StreamSpec) -> None:
        self.stack = stack
        self.spec = spec

    @cached_property
    def airflow(self) -> Airflow:
        return self.stack.airflow()

    @property
    def supervision(self) -> str:
        """The id of the DAG that supervises the stream."""
        return f"{self.spec.name}_stream"

    @property
    def loading(self) -> str:
        """The id of the DAG that loads objects into the stream."""
        return f"{self.spec.name}_load"

    # The topic.

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Partition -> (first, next) offset, from the broker."""
        return topic_offsets(self.stack.platform("reader").kafka, self.spec.topic.name)

    def producer(self, **more: Any) -> Producer:
        """A foreign producer with the producer role's rights, `more` in librdkafka's words."""
        # As many at once as a test may want to send, before the first of them is taken.
        queue = {"queue.buffering.max.messages": "2000000"}
        return Producer(self.stack.kafka("producer") | {"linger.ms": "5", "log_level": "0"} | queue | more)

    # The lake.

    @cached_property
    def lake(self) -> Lake:
        return Lake.open(self.stack.platform("airflow"))

    def table(self) -> Table:
        """As it is now. Raises clients.errors.Missing before the stream's first start."""
        return self.lake.table(self.spec.table)

    def commits(self, since: float = 0.0) -> list[Commit]:
        """The consumers' commits to main after `since`, oldest first."""
        newest = takewhile(lambda commit: commit.at > since, commits(self.table()))
        return [commit for commit in newest if commit.kind][::-1]

    def ends(self) -> dict[int, int]:
        """Partition -> how far main says it is published; partitions without a record left out."""
        found = self.lake.position(self.spec.table)
        return {} if found is None else {p: end for p, end in found.ends.items() if end > found.starts[p]}

    def epoch(self) -> int:
        """The newest owner's number, of main and of the branches; 0 before the first."""
        try:
            metadata = self.table().metadata
        except Missing:
            return 0
        epochs = [int(sluice_properties(s).get("epoch", 0)) for s in metadata.snapshots]
        branches = [int(name[1:]) for name in metadata.refs if name[0] == "w" and name[1:].isdecimal()]
        return max([0, *epochs, *branches])

    def unpublished(self) -> list[str]:
        """The branches whose head is not on main."""
        table = self.table()
        on_main = {snapshot.snapshot_id for snapshot in ancestors(table)}
        return [name for name, ref in table.metadata.refs.items() if ref.snapshot_id not in on_main]

    def holds_an_unpublished_batch(self) -> bool:
        """Whether the newest owner has appended what it has not published."""
        return f"w{self.epoch()}" in self.unpublished()

    def wait_for_everything(self, seconds: float = LAND_SECONDS) -> None:
        """Until all that is on the topic is published or in quarantine. Raises TimeoutError."""
        wanted = {p: after for p, (first, after) in self.bounds().items() if after > first}
        wait_until(f"everything up to {wanted} published", lambda: self.ends() == wanted, seconds, 1)

    # The moment between a batch's append and its publishing.

    def metadata_location(self) -> str:
        """From the catalog's own row, which costs no S3 call."""
        try:
            return self._ask_catalog()
        except psycopg2.OperationalError:
            # PostgreSQL was killed since it was last asked: that is what drills do.
            self.__dict__.pop("_catalog", None)
            return self._ask_catalog()

    def _ask_catalog(self) -> str:
        with self._catalog.cursor() as cursor:
            cursor.execute(
                "select metadata_location from iceberg_tables where table_namespace = %s and table_name = %s",
                self.spec.table.split("."),
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
            connect_timeout=5,
        )
        connection.autocommit = True
        return connection

    def wait_for_commit(self, before: str, seconds: float = 60) -> None:
        """Until the table's pointer moves; looks every millisecond, because what follows is soon over."""
        wait_until("a commit", lambda: self.metadata_location() != before, seconds, 0.001)

    # The processes.

    def process(self, program: str | None = None) -> dict[str, Any]:
        """What supervisord knows of a program, of the stream's own unless another is named."""
        return dict(self.stack.supervisor().getProcessInfo(program or self.spec.program))

    def status(self, program: str | None = None) -> ProcessStatus:
        """A program as supervision sees it: a component's own process, not its parent process."""
        return self._runtime.status(program or self.spec.program)

    @cached_property
    def _runtime(self) -> SupervisorRuntime:
        config = self.stack.platform("airflow").supervisor
        if config is None:
            raise UsageError("the platform file of role 'airflow' has no [supervisor]: make up writes it")
        return SupervisorRuntime(config)

    def stop_stream(self) -> None:
        """Through supervisord, past Airflow."""
        if self.process()["statename"] in GOING:
            self.stack.supervisor().stopProcess(self.spec.program)

    def start_stream(self) -> None:
        """Through supervisord, past Airflow; waits until it owns the stream."""
        before = self.epoch()
        if self.process()["statename"] not in GOING:
            self.stack.supervisor().startProcess(self.spec.program)
        wait_until("the stream's take-over", lambda: self.epoch() > before, LAND_SECONDS)

    # What supervision says.

    @cached_property
    def history(self) -> History:
        return History.open(self.stack.platform("airflow"), self.spec.name)

    def supervision_runs(self, limit: int = 20) -> list[dict[str, Any]]:
        """The newest runs of the supervising DAG, newest first."""
        path = f"/dags/{self.supervision}/dagRuns"
        answer = self.airflow.request("GET", path, params={"order_by": "-run_after", "limit": limit})
        return list(answer["dag_runs"])


def moved_on(commits: Iterable[Commit], after: float, total: int) -> float | None:
    """When the first batch later than `after` brought main past `total`; None when none did."""
    for commit in commits:
        if commit.kind == "batch" and commit.at > after and sum(commit.ends.values()) > total:
            return commit.at
    return None
