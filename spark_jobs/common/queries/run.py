"""Run a stream's queries: wait for the stream's table, acquire the lease, start all, watch them."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from time import monotonic
from typing import NoReturn

from pyspark.sql import SparkSession

from sluice.clients.s3.login.credentials import check_login
from sluice.config import connection, streams
from sluice.config import platform as platforms
from sluice.config.platform import Platform
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.sink import DEBUG_SINKS, SinkKind
from sluice.config.stream import StreamSpec
from sluice.config.tables import lake_tables
from sluice.core.queries.progress import QueryState, common_end_offsets
from spark_jobs.common.kafka.heartbeat import CountingEvent, HeartbeatSender, HeartbeatThread, Watchdog
from spark_jobs.common.kafka.login import explained
from spark_jobs.common.kafka.offsets import Topic
from spark_jobs.common.lake import known_tables, login
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.lake.writer_lease import ConcurrentCommit, run_with_lease
from spark_jobs.common.queries import arrival_times, recovery
from spark_jobs.common.queries.preview import preview
from spark_jobs.common.queries.state_table import QueryStateWriter
from spark_jobs.common.queries.streaming_query import StreamingQueryRun
from spark_jobs.common.sinks.base import Sink, Target
from spark_jobs.common.sinks.files import FilesSink
from spark_jobs.common.sinks.iceberg import IcebergSink
from spark_jobs.common.sinks.jdbc import JdbcSink
from spark_jobs.common.sinks.kafka import KafkaSink
from spark_jobs.common.spark import progress_listener, session
from spark_jobs.common.spark.failures import Fenced
from spark_jobs.common.spark.login import s3 as s3_login
from spark_jobs.common.spark.process import run_process

WAIT_SECONDS = 5.0
CHECK_SECONDS = 1.0
# Between two looks at a login to S3 that ends.
LOGIN_SECONDS = 10.0


def main(name: str, options: Sequence[str] = ()) -> int:
    """Run the queries of stream ``name``, or preview one, until SIGTERM; the exit code of run_process."""
    arguments = argparse.ArgumentParser(description=f"The queries of stream {name}, for its runtime.")
    arguments.add_argument("--preview", metavar="QUERY", help="print its results from the beginning")
    args = arguments.parse_args(options)
    if args.preview is not None:
        return preview(name, args.preview)
    return run_process(f"the queries of {name}", lambda stop: _run(name, stop))


def _run(name: str, stop: threading.Event) -> None:
    spec = streams.load(name)
    check_no_debug_sinks(spec)
    platform = platforms.load("consumer")
    with explained(platform.kafka), login.explained(platform), s3_login.explained(platform):
        _run_queries(spec, platform, stop)


def _run_queries(spec: StreamSpec, platform: Platform, stop: threading.Event) -> None:
    check_keys(platform)
    arrival_times.check(spec, Topic(platform.kafka, spec.topic.name))
    heartbeat = HeartbeatThread(HeartbeatSender(platform.kafka, spec.name, "queries", spec.topic.name))
    heartbeat.start()
    try:
        spark = session.start(f"sluice {spec.name} queries", platform, session.PARTITIONS, session.SETTINGS)
        heartbeat.activity = lambda: session.tasks(spark)
        with progress_listener.attach(spark, platform, spec.name):
            QueriesRun(spark, platform, spec, heartbeat).until(stop)
    finally:
        heartbeat.stop()


def check_keys(platform: Platform) -> None:
    """Raises ConfigError if the tables' own keys would have to write the checkpoints."""
    if platform.lake.vends and platform.checkpoints.in_bucket:
        raise ConfigError(
            f"{platform.role}.toml: access_delegation is {platform.lake.catalog.access_delegation!r}, and "
            f"[checkpoints] is {platform.checkpoints.root}: Iceberg writes a query's first position there "
            "with the table's keys. Fix: put [checkpoints] on a volume, or leave out access_delegation"
        )


def check_no_debug_sinks(spec: StreamSpec) -> None:
    """Raises ConfigError if a query of the stream has a sink for previews."""
    for name, query in spec.queries.items():
        for sink in query.sinks:
            if sink.kind in DEBUG_SINKS:
                raise ConfigError(
                    f"stream {spec.name}: query {name} has a sink of kind {sink.kind}, which "
                    "keeps nothing after the process. Fix: remove it from stream.toml, and preview the query "
                    f"with python -m spark_jobs queries {spec.name} --preview {name}"
                )


def create_sinks(
    spark: SparkSession, spec: StreamSpec, name: str, platform: Platform, stop: threading.Event
) -> list[Sink]:
    """The sinks of query ``name`` in the order of stream.toml; ``stop`` ends their retries.

    Raises ConfigError if the file of an Airflow connection is missing.
    """
    sinks: list[Sink] = []
    for declared in spec.queries[name].sinks:
        target = Target(spec.name, name, spec.queries[name], declared, stop)
        match SinkKind(declared.kind):
            case SinkKind.JDBC:
                database = connection.load(declared.connection)
                sinks.append(JdbcSink(target, spec.result_types(name), database))
            case SinkKind.KAFKA:
                sinks.append(KafkaSink(target, platform.kafka))
            case SinkKind.ICEBERG:
                sinks.append(IcebergSink(spark, target, spec.result_types(name)))
            case SinkKind.FILES:
                sinks.append(FilesSink(target, platform.s3, platform.lake.warehouse))
            case kind:
                raise ValueError(f"query {name}: a sink of kind {kind} is for --preview only")
    return sinks


class QueriesRun:
    """All queries of ``spec``."""

    def __init__(
        self, spark: SparkSession, platform: Platform, spec: StreamSpec, heartbeat: HeartbeatThread
    ) -> None:
        self._spark, self._platform, self._spec, self._heartbeat = spark, platform, spec, heartbeat

    def until(self, stop: threading.Event) -> None:
        """Run until ``stop``. Raises Fenced, and the error that ends a query."""
        table = self._spec.table
        while not self._has_snapshot(table):
            self._heartbeat.report("idle", f"waiting for table {table}, created by the consumer", {})
            if stop.wait(WAIT_SECONDS):
                return
        self._check_tables()
        writer = QueryStateWriter(self._spark, self._spec)
        run_with_lease(writer, lambda: self._run(writer, stop))

    def _has_snapshot(self, table: str) -> bool:
        known_tables.check(self._spark, self._platform, self._spec.name, table)
        exists = self._spark.catalog.tableExists(f"{CATALOG}.{table}")
        return exists and IcebergTable(self._spark, table).head(MAIN) is not None

    def _check_tables(self) -> None:
        known_tables.check(self._spark, self._platform, self._spec.name, *lake_tables(self._spec))

    def _run(self, writer: QueryStateWriter, stop: threading.Event) -> None:
        # At each failover: the catalog may have been restored, or have another table by now.
        self._check_tables()
        writer.acquire()
        sinks: dict[str, list[Sink]] = {}
        running: list[StreamingQueryRun] = []
        try:
            for name in self._spec.queries:
                if stop.is_set():
                    return
                self._heartbeat.report(
                    "working", f"{name}: opening its sinks", common_end_offsets(writer.states.values())
                )
                sink_stop = CountingEvent(stop)
                # While a sink retries; later, the watchdog checks each query by itself.
                self._heartbeat.activity = partial(_activity, self._spark, sink_stop)
                sinks[name] = create_sinks(self._spark, self._spec, name, self._platform, sink_stop)
                root = self._platform.checkpoints.root
                try:
                    checkpoint = recovery.checkpoint(self._spark, root, writer, name, sinks[name])
                except Fenced as fenced:
                    raise_above(writer, fenced)
                running.append(
                    StreamingQueryRun(
                        self._spark, self._spec, name, writer, checkpoint, sinks[name], sink_stop
                    )
                )
                running[-1].start()
            self._watch(writer, running, stop)
        finally:
            for query in running:
                query.stop()
            for sink in chain.from_iterable(sinks.values()):
                sink.close()
        errors = [error for query in running if (error := query.error()) is not None]
        writer.raise_failure(errors, stopping=stop.is_set())

    def _watch(
        self, writer: QueryStateWriter, running: list[StreamingQueryRun], stop: threading.Event
    ) -> None:
        watchdog, next_check = Watchdog(), monotonic() + LOGIN_SECONDS
        self._heartbeat.activity = lambda: None
        while all(query.is_active for query in running):
            stuck = [
                query.name
                for query in running
                if watchdog.is_stuck(query.name, query.activity(), idle=query.is_resting)
            ]
            if not stuck:
                busy = [query.doing for query in running if not query.is_resting]
                state, detail = ("working", busy) if busy else ("idle", [f"{len(running)} queries"])
                said = "; ".join([*detail, *uncorrected(writer.states)])
                self._heartbeat.report(state, said, common_end_offsets(writer.states.values()))
            if stop.wait(CHECK_SECONDS):
                return
            if monotonic() >= next_check:
                next_check = monotonic() + LOGIN_SECONDS
                # Java's clients wait for credentials for minutes, and say nothing.
                check_login(self._platform.s3)


def uncorrected(states: Mapping[str, QueryState]) -> list[str]:
    """Name each query that cannot be corrected after a change of the stream's table."""
    return [
        f"{name}: {state.uncorrected} changes of rows are not in its sinks"
        for name, state in states.items()
        if state.uncorrected
    ]


def raise_above(writer: QueryStateWriter, fenced: Fenced) -> NoReturn:
    """Raise what a sink's refusal of the writer's epoch means: Fenced if another writer has the lease, else
    ConcurrentCommit. Then the queries' table is older than the sink, as after a restored catalog (or the
    answer to an opening was lost), and the next epoch is above the sink's."""
    writer.raise_if_fenced()
    writer.at_least = fenced.epoch + 1
    raise ConcurrentCommit(f"{writer.table.name} is older than a sink: {fenced}") from fenced


def _activity(spark: SparkSession, sink_stop: CountingEvent) -> object:
    return session.tasks(spark), sink_stop.waits
