"""Run a stream's queries: wait for the stream's table, acquire the lease, start all, watch them."""

from __future__ import annotations

import argparse
import logging
import threading
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import NoReturn

from pyspark.sql import SparkSession

from sluice.model.queries.state import common_end_offsets
from sluice.model.spec import platform as platforms
from sluice.model.spec import stream as streams
from sluice.model.spec.config import ConfigError
from sluice.model.spec.platform import Platform
from sluice.model.spec.query import DEBUG_SINKS
from sluice.model.spec.stream import StreamSpec
from spark_jobs.common.kafka.heartbeat import CountingEvent, HeartbeatSender, HeartbeatThread, Watchdog
from spark_jobs.common.lake.tables import wait_for_table
from spark_jobs.common.lake.writer_lease import ConcurrentCommit, run_with_lease
from spark_jobs.common.queries import recovery
from spark_jobs.common.queries.preview import preview
from spark_jobs.common.queries.state_table import QueryStateWriter
from spark_jobs.common.queries.streaming_query import StreamingQueryRun
from spark_jobs.common.sinks import factory
from spark_jobs.common.sinks.base import Sink
from spark_jobs.common.spark import progress_listener, session
from spark_jobs.common.spark.process import Fenced, run_process
from spark_jobs.common.spark.session import PARTITIONS, SETTINGS

log = logging.getLogger(__name__)

WAIT_SECONDS = 5.0
CHECK_SECONDS = 1.0


def main(name: str, options: Sequence[str] = ()) -> int:
    """Run the queries of stream ``name``, or preview one; returns the exit code."""
    arguments = argparse.ArgumentParser(description=f"The queries of stream {name}, for its runtime.")
    arguments.add_argument("--preview", metavar="QUERY", help="print its results from the beginning")
    args = arguments.parse_args(options)
    return run(name) if args.preview is None else preview(name, args.preview)


def run(name: str) -> int:
    """Run the queries of stream ``name`` until SIGTERM; returns the exit code.

    0: stopped as asked, after the batches in flight. 76: fenced by a later writer. 1: any other failure of a
    query.
    """
    return run_process(f"the queries of {name}", lambda stop: _run(name, stop))


def _run(name: str, stop: threading.Event) -> None:
    spec = streams.load(name)
    check_no_debug_sinks(spec)
    platform = platforms.load("consumer")
    heartbeat = HeartbeatThread(HeartbeatSender(platform.kafka, name, "queries", spec.topic.name))
    heartbeat.start()
    try:
        spark = session.start(f"sluice {name} queries", platform, PARTITIONS, SETTINGS)
        heartbeat.activity = lambda: session.tasks(spark)
        with progress_listener.attach(spark, platform, name):
            QueriesRun(spark, platform, spec, heartbeat).until(stop)
    finally:
        heartbeat.stop()


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


class QueriesRun:
    """All queries of ``spec``."""

    def __init__(
        self, spark: SparkSession, platform: Platform, spec: StreamSpec, heartbeat: HeartbeatThread
    ) -> None:
        self._spark, self._platform, self._spec, self._heartbeat = spark, platform, spec, heartbeat

    def until(self, stop: threading.Event) -> None:
        """Run until ``stop``. Raises Fenced, and the error that ends a query."""
        if wait_for_table(self._spark, self._spec.table, self._heartbeat.report, WAIT_SECONDS, stop):
            writer = QueryStateWriter(self._spark, self._spec)
            run_with_lease(writer, lambda _: self._run(writer, stop))

    def _run(self, writer: QueryStateWriter, stop: threading.Event) -> None:
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
                sinks[name] = factory.create_sinks(self._spark, self._spec, name, self._platform, sink_stop)
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
        watchdog = Watchdog()
        self._heartbeat.activity = lambda: None
        while all(query.is_active for query in running):
            stuck = [
                query.name
                for query in running
                if watchdog.is_stuck(query.name, query.activity(), idle=query.is_resting)
            ]
            if not stuck:
                busy = [query.doing for query in running if not query.is_resting]
                state, detail = ("working", "; ".join(busy)) if busy else ("idle", f"{len(running)} queries")
                self._heartbeat.report(state, detail, common_end_offsets(writer.states.values()))
            if stop.wait(CHECK_SECONDS):
                return


def raise_above(writer: QueryStateWriter, fenced: Fenced) -> NoReturn:
    """Raise what a sink's refusal of the writer's epoch means: Fenced if a later writer has the lease, else
    ConcurrentCommit. Then the queries' table is older than the sink, as after a restored catalog, and the
    next epoch is above the sink's."""
    writer.raise_if_fenced()
    writer.at_least = fenced.epoch + 1
    raise ConcurrentCommit(f"{writer.table.name} is older than a sink: {fenced}") from fenced


def _activity(spark: SparkSession, sink_stop: CountingEvent) -> object:
    return session.tasks(spark), sink_stop.waits
