"""Preview a query's results from the beginning of the stream's table; nothing outlives the process.

The debug sinks (console, memory) guarantee nothing: a batch that runs again is shown again.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sluice.config import platform as platforms
from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.query import Query
from sluice.config.stream import StreamSpec
from sluice.core.queries.result import VERSION
from spark_jobs.common.queries import aggregate, first_batch
from spark_jobs.common.spark import session
from spark_jobs.common.spark.checkpoint import Checkpoint
from spark_jobs.common.spark.filesystem import Files
from spark_jobs.common.spark.process import run_process

ROWS = 20
# Number and rows of a batch.
Write = Callable[[int, DataFrame], None]


class ConsoleSink:
    """Prints up to ROWS results of each batch as a table."""

    def __init__(self, stream: str, query_name: str, query: Query) -> None:
        self._title = f"{stream} {query_name}"
        self._keys = query.keys

    def write(self, batch: int, rows: DataFrame) -> None:
        sys.stdout.write(f"{self._title}, batch {batch}:\n")
        rows.orderBy(*self._keys).show(ROWS, truncate=False)
        sys.stdout.flush()


class MemorySink:
    """Keeps results in the driver's memory, as the view ``global_temp.<stream>_<query>``: a streaming query
    has its own session, whose other views no other session sees.

    A query with aggregates shows the newest result of each key with its ``version``; others all rows.
    """

    def __init__(self, stream: str, query_name: str, query: Query) -> None:
        self._name = f"{stream}_{query_name}"
        self.view = f"global_temp.{self._name}"
        self._query = query
        self._newest: dict[tuple[object, ...], dict[str, object]] = {}
        self._rows: list[pa.Table] = []

    def write(self, batch: int, rows: DataFrame) -> None:
        # Not as Row, whose datetimes are in this machine's time zone, which may have an hour twice.
        table = rows.toArrow()
        if self._query.aggregates:
            results = ({**row, VERSION: batch} for row in table.to_pylist())
            self._newest |= {tuple(row[key] for key in self._query.keys): row for row in results}
            schema = table.schema.append(pa.field(VERSION, pa.int64()))
            all_rows = pa.Table.from_pylist(list(self._newest.values()), schema)
        else:
            self._rows.append(table)
            all_rows = pa.concat_tables(self._rows)
        rows.sparkSession.createDataFrame(all_rows).createOrReplaceGlobalTempView(self._name)


def preview(name: str, query: str) -> int:
    """Print each batch of a query of stream ``name`` until interrupted; returns the exit code."""
    return run_process(f"a preview of {query} of {name}", lambda stop: _preview(name, query, stop))


def _preview(name: str, query: str, stop: threading.Event) -> None:
    spec = streams.load(name)
    if query not in spec.queries:
        raise ConfigError(f"stream {name} has no query {query!r}; it has {', '.join(spec.queries)}")
    spark = session.start(
        f"sluice {name} preview", platforms.load("reader"), session.PARTITIONS, session.SETTINGS
    )
    write = ConsoleSink(name, query, spec.queries[query]).write
    with tempfile.TemporaryDirectory(prefix="sluice-preview-") as folder:
        streaming = start(spark, spec, query, write, Path(folder))
        while streaming.isActive and not stop.wait(0.5):
            pass
        streaming.stop()
        failure = streaming.exception()
    if failure is not None and not stop.is_set():
        raise failure


def start(spark: SparkSession, spec: StreamSpec, query: str, write: Write, folder: Path) -> StreamingQuery:
    """Start a query with a debug sink and its checkpoint in ``folder``; the caller stops it."""
    checkpoint = Checkpoint(Files(spark), folder.as_uri())
    first_batch.plan(spark, checkpoint, spec.table)

    def write_batch(results: DataFrame, batch: int) -> None:
        # A sink reads them more than once, and a query with state must run once.
        persisted = results.persist()
        try:
            write(batch, persisted)
        finally:
            persisted.unpersist()

    label = f"{spec.name}.{query} preview"
    rows = aggregate.source(spark, spec.table)
    streaming = aggregate.stream(rows, spec.queries[query], label, checkpoint.uri)
    return streaming.foreachBatch(write_batch).start()
