"""Rows of source objects, for a bounded producer; rejected rows go to the quarantine."""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sluice.clients.s3.requests import at_once, connect
from sluice.config import platform as platforms
from sluice.config.csv_reading import CsvReading
from sluice.core.csv.layout import Layout
from spark_jobs.common.kafka.avro import AvroSchema, Schemas, schema_header
from spark_jobs.common.kafka.fingerprints import FingerprintSchemas
from spark_jobs.common.lake.source_quarantine import quarantine_rows
from spark_jobs.common.producer.sending import Sent, total
from spark_jobs.common.producer.source_object import REJECTED_SCHEMA, Reading, Share, SourceObject

if TYPE_CHECKING:
    from spark_jobs.common.producer.run import Job

log = logging.getLogger(__name__)

# Bytes of an object that is worth a second task: what it takes to read and cut them twice.
SHARED_BYTES = 16 << 20


def send_objects(job: Job) -> None:
    """Send the rows of a plan's object versions, then quarantine the rejected ones.

    A task reads an object from its begin to its end, so each target partition gets its rows in their order; a
    large one is read by several, each for some of the target partitions. An object with rejected rows is read
    again for these.
    """
    sending = job.sending()
    worker = threading.Thread(
        target=start_workers, args=(job.spark, sending.connect), name="start-workers", daemon=True
    )
    worker.start()
    readings, schemas = _readings(job)
    if job.spec.follows_fingerprints:
        # Before any record names one: a consumer that does not know it looks for it.
        for schema in schemas:
            FingerprintSchemas.of(job.spec, job.platform).publish(schema)
    # Once in each worker process, not with each task: both grow with the objects of a load.
    kept = job.spark.sparkContext.broadcast((readings, sending))

    def task(parts: Iterable[tuple[int, Share]]) -> Iterator[Sent]:
        readings, sending = kept.value
        for number, share in parts:
            reading = readings[number]
            yield replace(sending, headers=reading.headers).send(reading.sent(worker_client(), share))

    # Else its task could come last, and its answer when this process is gone.
    worker.join()
    # Not by a frame: no row comes to the JVM, and Spark SQL need not start.
    parts = shares([reading.source for reading in readings], job.spark.sparkContext.defaultParallelism)
    counts = total(job.spark.sparkContext.parallelize(parts, len(parts)).mapPartitions(task).collect())
    rows, rejected = (sum(getattr(one, name) for one in counts.values()) for name in ("rows", "rejected"))
    log.info("rows read rows=%d malformed=%d", rows, rejected)
    again = [reading for reading in readings if reading.source.source_id in _rejecting(counts)]
    if again:
        log.info("objects with malformed rows objects=%d", len(again))
        bad = _rejected(job.spark, again)
        quarantine_rows(job.spark, job.platform, job.spec, bad, sorted(job.plan.start_offsets))


def _rejecting(counts: Sent) -> set[str]:
    return {source_id for source_id, one in counts.items() if one.rejected}


def _readings(job: Job) -> tuple[list[Reading], list[AvroSchema]]:
    """One for each object of the plan, and the schemas of all. Raises InvalidHeader or CorruptObject before
    anything is sent."""
    reading, rules, client = CsvReading.of(job.spec), job.plan.rules, connect(job.platform.s3)
    limit = f" (max.message.bytes {rules.max_message_bytes})"
    layouts = dict[tuple[str, ...], Layout]()
    declared, schemas = Schemas.load(job.spec).current, dict[tuple[str, ...], AvroSchema]()
    readings = list[Reading]()
    sources = [
        SourceObject(**{field.name: document[field.name] for field in fields(SourceObject)})
        for document in job.plan.sources
    ]
    headers = at_once(sources, lambda source: source.column_names(client, reading.form))
    for source, names in zip(sources, headers, strict=True):
        if names not in layouts:
            layouts[names] = reading.layout(names, source.uri, rules.max_value_bytes, limit)
            found = reading.schema_of(names, source.uri)
            schemas[names] = declared if found is reading.schema else AvroSchema(json.dumps(found))
        named = job.headers((schema_header(schemas[names]),))
        readings.append(Reading(source, reading.form, layouts[names], named))
    return readings, list(dict.fromkeys(schemas.values()))


def shares(sources: Sequence[SourceObject], tasks: int) -> list[tuple[int, Share]]:
    """The numbers of the objects, each with the shares in which tasks send it: several of one that is large,
    and more than what one of ``tasks`` at a time would have of all."""
    whole = sum(source.size for source in sources)
    found = []
    for number, source in enumerate(sources):
        count = 1
        if source.size > SHARED_BYTES:
            count = min(math.ceil(tasks * source.size / whole), source.partition_count)
        found += [(number, Share(one, count)) for one in range(count)]
    return found


def _rejected(spark: SparkSession, readings: Sequence[Reading]) -> DataFrame:
    """The rejected rows of these objects, as REJECTED_SCHEMA."""
    kept, count = spark.sparkContext.broadcast(readings), len(readings)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from kept.value[number].rejected(worker_client())

    return spark.range(0, count, 1, count).mapInArrow(task, REJECTED_SCHEMA)


@cache
def worker_client() -> Any:
    """One for all tasks of a worker: to make one takes as long as to type 20,000 rows."""
    return connect(platforms.load("producer").s3)


def start_workers(spark: SparkSession, connect: Callable[[], None]) -> None:
    """Read no object, so that Python workers with their imports and connections wait for the first ones.

    For a thread beside what the driver asks before it reads. Never raises: the first reading finds the same
    error, and names it.
    """
    try:
        count = spark.sparkContext.defaultParallelism
        spark.sparkContext.parallelize(range(count), count).foreach(lambda _: connect())
    except Exception as error:
        # Without its text: Airflow shows the last error in the log as the reason why a process ended.
        log.warning("no Python worker was started, the first rows take longer (%s)", type(error).__name__)
