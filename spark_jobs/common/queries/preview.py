"""A query on the terminal.

Sinks for a person who looks. They guarantee nothing, and nothing of them outlives the process.

A stream that is supervised refuses them: nobody would see what they show.

A query for a person who looks: from the beginning of the table, onto the terminal, and nothing is kept.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from contextlib import redirect_stdout
from pathlib import Path
from typing import TextIO

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sluice.model.spec import platform as platforms
from sluice.model.spec import query as queries
from sluice.model.spec import stream as streams
from sluice.model.spec.config import ConfigError
from sluice.model.spec.platform import CATALOG
from sluice.model.spec.query import VERSION, Query, SinkKind
from sluice.model.spec.stream import StreamSpec
from spark_jobs.common.queries import aggregate
from spark_jobs.common.sinks.base import Sink
from spark_jobs.common.spark import session
from spark_jobs.common.spark.process import run_process
from spark_jobs.common.spark.session import PARTITIONS, SETTINGS

ROWS = 20


class ConsoleSink:
    """Prints up to ROWS results of each batch as a table. **No guarantee**: it knows no batch, fences
    nobody, and prints a batch again that runs again."""

    def __init__(
        self, stream: str, query_name: str, query: Query, sink: queries.Sink, out: TextIO | None = None
    ) -> None:
        """``out``: where it prints; None: wherever ``sys.stdout`` leads when it does."""
        self.name = sink.name
        self._title = f"{stream} {query_name}"
        self._keys = query.keys
        self._out = out

    def open(self, epoch: int) -> int | None:
        """None: it holds nothing."""
        return None

    def write(self, batch: int, rows: DataFrame) -> bool:
        out = sys.stdout if self._out is None else self._out
        out.write(f"{self._title}, batch {batch}:\n")
        with redirect_stdout(out):
            rows.orderBy(*self._keys).show(ROWS, truncate=False)
        out.flush()
        return True

    def close(self) -> None:
        """Nothing is open."""


class MemorySink:
    """Keeps results in the driver's memory, as the view ``global_temp.<stream>_<query>``: a streaming query
    runs in a session of its own, whose other views nobody sees.

    A query that measures: of each key the newest result, with its ``version``. One that does not: all rows.
    **No guarantee**: it knows no batch and fences nobody; a batch of rows that runs again is there twice.
    All of it must fit into the driver.
    """

    def __init__(self, stream: str, query_name: str, query: Query, sink: queries.Sink) -> None:
        self.name = sink.name
        self._name = f"{stream}_{query_name}"
        self.view = f"global_temp.{self._name}"
        self._query = query
        self._newest: dict[tuple[object, ...], dict[str, object]] = {}
        self._rows: list[pa.Table] = []

    def open(self, epoch: int) -> int | None:
        """None: it holds nothing."""
        return None

    def write(self, batch: int, rows: DataFrame) -> bool:
        # Not as Row: that has moments in this machine's time zone, which may have an hour twice.
        found = rows.toArrow()
        if self._query.aggregates:
            given = ({**row, VERSION: batch} for row in found.to_pylist())
            self._newest |= {tuple(row[key] for key in self._query.keys): row for row in given}
            schema = found.schema.append(pa.field(VERSION, pa.int64()))
            kept = pa.Table.from_pylist(list(self._newest.values()), schema)
        else:
            self._rows.append(found)
            kept = pa.concat_tables(self._rows)
        rows.sparkSession.createDataFrame(kept).createOrReplaceGlobalTempView(self._name)
        return True

    def close(self) -> None:
        """Let go of the results; the view goes with the process."""
        self._newest.clear()
        self._rows.clear()


def look(name: str, query: str) -> int:
    """Show each batch of a query of stream ``name`` until interrupted; returns the exit code, as ``run``."""
    return run_process(f"a look at {query} of {name}", lambda stop: _look(name, query, stop))


def _look(name: str, query: str, stop: threading.Event) -> None:
    spec = streams.load(name)
    if query not in spec.queries:
        raise ConfigError(f"stream {name} has no query {query!r}; it has {', '.join(spec.queries)}")
    spark = session.start(f"sluice {name} look", platforms.load("reader"), PARTITIONS, SETTINGS)
    sink = ConsoleSink(name, query, spec.queries[query], queries.Sink(SinkKind.CONSOLE))
    with tempfile.TemporaryDirectory(prefix="sluice-look-") as folder:
        streaming = show(spark, spec, query, sink, Path(folder))
        while streaming.isActive and not stop.wait(0.5):
            pass
        streaming.stop()
        failure = streaming.exception()
    if failure is not None and not stop.is_set():
        raise failure


def show(spark: SparkSession, spec: StreamSpec, query: str, sink: Sink, folder: Path) -> StreamingQuery:
    """The query of a stream into a sink that is for a person (console, or memory in a Python shell), with its
    checkpoint in ``folder``; the caller stops it, and removes that."""
    declared = spec.queries[query]
    rows = spark.readStream.format("iceberg").load(f"{CATALOG}.{spec.table}")
    return (
        aggregate.results(rows, declared)
        .writeStream.queryName(f"{spec.name}.{query} look")
        .outputMode(declared.mode)
        .option("checkpointLocation", folder.as_uri())
        .trigger(processingTime=f"{declared.trigger_seconds} seconds")
        .foreachBatch(lambda found, batch: _show(found, batch, sink))
        .start()
    )


def _show(found: DataFrame, batch: int, sink: Sink) -> None:
    # Looked at more than once, and what keeps state must run once.
    kept = found.persist()
    try:
        sink.write(batch, kept)
    finally:
        kept.unpersist()
