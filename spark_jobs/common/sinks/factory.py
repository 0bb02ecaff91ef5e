"""Create the sinks of a declared query."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from sluice.model.spec import connection
from sluice.model.spec.platform import Platform
from sluice.model.spec.query import SinkKind
from sluice.model.spec.stream import StreamSpec
from spark_jobs.common.sinks.base import Sink, Target
from spark_jobs.common.sinks.files import FilesSink
from spark_jobs.common.sinks.iceberg import IcebergSink
from spark_jobs.common.sinks.jdbc import JdbcSink
from spark_jobs.common.sinks.kafka import KafkaSink


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
