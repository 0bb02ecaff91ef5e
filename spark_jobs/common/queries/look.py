"""A query for a person who looks: from the beginning of the table, onto the terminal, and nothing is kept."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sluice.model.spec import platform as platforms
from sluice.model.spec import query as queries
from sluice.model.spec import stream as streams
from sluice.model.spec.config import ConfigError
from sluice.model.spec.platform import CATALOG
from sluice.model.spec.query import Kind
from sluice.model.spec.stream import StreamSpec
from spark_jobs.common.queries import aggregate
from spark_jobs.common.queries.sinks_look import ConsoleSink
from spark_jobs.common.sinks.base import Sink
from spark_jobs.common.spark import session
from spark_jobs.common.spark.process import live
from spark_jobs.common.spark.settings import PARTITIONS, SETTINGS


def look(name: str, query: str) -> int:
    """Show each batch of a query of stream ``name`` until interrupted; returns the exit code, as ``run``."""
    return live(f"a look at {query} of {name}", lambda stop: _look(name, query, stop))


def _look(name: str, query: str, stop: threading.Event) -> None:
    spec = streams.load(name)
    if query not in spec.queries:
        raise ConfigError(f"stream {name} has no query {query!r}; it has {', '.join(spec.queries)}")
    spark = session.start(f"sluice {name} look", platforms.load("reader"), PARTITIONS, SETTINGS)
    sink = ConsoleSink(name, query, spec.queries[query], queries.Sink(Kind.CONSOLE))
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
