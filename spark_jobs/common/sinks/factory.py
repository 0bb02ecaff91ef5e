"""The sinks of a declared query, opened."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from sluice.model.spec import connection
from sluice.model.spec import query as queries
from sluice.model.spec.platform import Platform
from sluice.model.spec.query import SinkKind
from sluice.model.spec.stream import StreamSpec
from spark_jobs.common.sinks.base import Sink
from spark_jobs.common.sinks.files import FilesSink
from spark_jobs.common.sinks.iceberg import IcebergSink
from spark_jobs.common.sinks.jdbc import JdbcSink
from spark_jobs.common.sinks.kafka import KafkaSink

# A database that is away for minutes is waited for; the step that provisions sinks is red meanwhile.
STALL_TIMEOUT_SECONDS = 600.0


def opened(
    spark: SparkSession, spec: StreamSpec, name: str, platform: Platform, stop: threading.Event
) -> list[Sink]:
    """The sinks of query ``name``, in the order of stream.toml; ``stop`` ends their waiting.

    Raises ConfigError where the Airflow connection of one was not handed over.
    """
    return [_opened(spark, spec, name, sink, platform, stop) for sink in spec.queries[name].sinks]


def _opened(
    spark: SparkSession,
    spec: StreamSpec,
    name: str,
    sink: queries.Sink,
    platform: Platform,
    stop: threading.Event,
) -> Sink:
    query = spec.queries[name]
    match SinkKind(sink.kind):
        case SinkKind.JDBC:
            types, where = spec.result_types(name), connection.load(sink.connection)
            return JdbcSink(spec.name, name, query, sink, types, where, stop, STALL_TIMEOUT_SECONDS)
        case SinkKind.KAFKA:
            return KafkaSink(spec.name, name, query, sink, platform.kafka, stop, STALL_TIMEOUT_SECONDS)
        case SinkKind.ICEBERG:
            return IcebergSink(spark, spec.name, name, query, sink, spec.result_types(name))
        case SinkKind.FILES:
            return FilesSink(spec.name, name, query, sink, platform.s3, platform.lake.warehouse)
        case SinkKind.CONSOLE | SinkKind.MEMORY:
            raise ValueError(f"query {name}: a sink of kind {sink.kind} is not supervised")
