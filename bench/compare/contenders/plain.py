"""The plain way, as people publish it: CSV -> Avro -> Kafka, and Kafka -> Avro -> parquet on S3; and a topic
that others fill -> Iceberg.

A Spark program of its own, which imports nothing of Sluice: ``plain.py <job> <settings>``, job one of JOBS.
``tuned``: with the settings that guides to Spark and Kafka recommend. Lines of JSON on stdout say when the
query started and what each batch did.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

TRIGGER_SECONDS = 1
PRODUCER = {
    "kafka.compression.type": "zstd",
    "kafka.batch.size": str(512 * 1024),
    "kafka.linger.ms": "20",
}
CONSUMER = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
}
CHECKPOINT_MANAGER = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"


def start(settings: dict[str, Any]) -> SparkSession:
    spark = SparkSession.builder.appName("plain").getOrCreate()
    for key, value in settings["s3a"].items():
        spark.conf.set(key, value)
    if settings["tuned"]:
        spark.conf.set("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINT_MANAGER)
        spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
    return spark


def produce(spark: SparkSession, settings: dict[str, Any]) -> None:
    rows = spark.read.option("timestampNTZFormat", settings["times"]).csv(
        settings["source"], header=True, schema=settings["columns"]
    )
    missing = [F.lit(None).cast(kind).alias(name) for name, kind in settings["missing_columns"].items()]
    record = F.struct("*", *missing)
    (
        rows.select(to_avro(record, settings["schema"]).alias("value"))
        .write.format("kafka")
        .options(**settings["kafka"], **(PRODUCER if settings["tuned"] else {}))
        .option("topic", settings["topic"])
        .save()
    )


def consume(spark: SparkSession, settings: dict[str, Any]) -> None:
    stopped = begin(spark)
    query = (
        records(spark, settings)
        .select(from_avro("value", settings["schema"]).alias("record"))
        .select("record.*")
        .writeStream.format("parquet")
        .option("path", settings["path"])
        .option("checkpointLocation", settings["checkpoint"])
        .trigger(processingTime=f"{TRIGGER_SECONDS} seconds")
        .start()
    )
    wait(query, stopped)


def others(spark: SparkSession, settings: dict[str, Any]) -> None:
    """A topic of others into ``table``: JSON, or Avro in Confluent's wire format with the subject's latest
    schema, whichever a record names."""
    for key, value in settings["catalog"].items():
        spark.conf.set(key, value)
    stopped = begin(spark)
    if registry := settings["registry"]:
        latest = SchemaRegistryClient(registry).get_latest_version(f"{settings['topic']}-value")
        order = from_avro(F.expr("substring(value, 6)"), str(latest.schema.schema_str))
    else:
        order = F.from_json(F.col("value").cast("string"), settings["columns"])
    query = (
        records(spark, settings)
        .select(F.col("key").cast("string"), order.alias("order"))
        .select("key", "order.*")
        .writeStream.format("iceberg")
        .outputMode("append")
        .option("checkpointLocation", settings["checkpoint"])
        .trigger(processingTime=f"{TRIGGER_SECONDS} seconds")
        .toTable(settings["table"])
    )
    wait(query, stopped)


def begin(spark: SparkSession) -> threading.Event:
    """Say that the query starts; what is returned is set by SIGTERM."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    spark.streams.addListener(Lines())
    say({"event": "started", "at": time.time()})
    return stopped


def records(spark: SparkSession, settings: dict[str, Any]) -> DataFrame:
    return (
        spark.readStream.format("kafka")
        .options(**settings["kafka"], **(CONSUMER if settings["tuned"] else {}))
        .option("subscribe", settings["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings["max_offsets_per_trigger"])
        .load()
    )


def wait(query: StreamingQuery, stopped: threading.Event) -> None:
    while query.isActive and not stopped.wait(0.5):
        pass
    query.stop()
    if error := query.exception():
        raise error


def as_json(spark: SparkSession, settings: dict[str, Any]) -> None:
    """Not the plain way: sends the records of a topic to ``to`` as JSON, with their keys and partitions."""
    sent = (
        spark.read.format("kafka").options(**settings["kafka"]).option("subscribe", settings["topic"]).load()
    )
    record = from_avro("value", settings["schema"])
    fields = [record[name].alias(name.lower()) for name in settings["columns"]]
    (
        sent.select("key", F.to_json(F.struct(*fields)).alias("value"), "partition")
        .write.format("kafka")
        .options(**settings["kafka"], **PRODUCER)
        .option("topic", settings["to"])
        .save()
    )


class Lines(StreamingQueryListener):
    """Prints a line for each batch."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  Spark's name
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        found = event.progress
        seconds = found.durationMs.get("triggerExecution", 0) / 1000
        if found.numInputRows:
            say({"event": "batch", "rows": found.numInputRows, "began": found.timestamp, "seconds": seconds})

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


JOBS = {"produce": produce, "consume": consume, "others": others, "as_json": as_json}


def main() -> None:
    job, settings = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    spark = start(settings)
    JOBS[job](spark, settings)
    spark.stop()


if __name__ == "__main__":
    main()
