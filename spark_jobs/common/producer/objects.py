"""Rows of source objects, for a bounded producer; rejected rows go to the quarantine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import RDD, Broadcast
from pyspark.sql import DataFrame, SparkSession

from sluice.clients.s3.requests import at_once, connect
from sluice.config import platform as platforms
from sluice.config.csv_reading import CsvReading
from sluice.core.csv.layout import Layout
from spark_jobs.common.kafka.avro import Schemas, schema_header
from spark_jobs.common.lake.source_quarantine import quarantine_rows
from spark_jobs.common.producer.sending import Sent, total
from spark_jobs.common.producer.source_object import REJECTED_SCHEMA, Reading, SourceObject

if TYPE_CHECKING:
    from spark_jobs.common.producer.run import Job

log = logging.getLogger(__name__)

Read = Callable[[Reading, Any], Iterator[pa.RecordBatch]]


def send_objects(job: Job) -> None:
    """Send the rows of a plan's object versions, then quarantine the rejected ones.

    A task reads an object from its begin to its end, so each target partition gets its rows in their order.
    An object with rejected rows is read again for these.
    """
    worker = threading.Thread(target=start_worker, args=(job.spark,), name="start-worker", daemon=True)
    worker.start()
    header, readings = schema_header(Schemas.load(job.spec).current), list(_readings(job))
    sending, sources = job.sending((header,)), _Sources.shared(job.spark, readings)

    def task(numbers: Iterable[int]) -> Iterator[Sent]:
        yield sending.send(sources.read(numbers, Reading.sent))

    # Else its task could come last, and its answer when this process is gone.
    worker.join()
    # Not by a frame: no row comes to the JVM, and Spark SQL need not start.
    counts = total(sources.numbers(job.spark).mapPartitions(task).collect())
    rows, rejected = (sum(getattr(one, name) for one in counts.values()) for name in ("rows", "rejected"))
    log.info("rows read rows=%d malformed=%d", rows, rejected)
    again = [reading for reading in readings if reading.source.source_id in _rejecting(counts)]
    if again:
        log.info("objects with malformed rows objects=%d", len(again))
        bad = _rejected(job.spark, again)
        quarantine_rows(job.spark, job.platform, job.spec, bad, sorted(job.plan.start_offsets))


def _rejecting(counts: Sent) -> set[str]:
    return {source_id for source_id, one in counts.items() if one.rejected}


def _readings(job: Job) -> Iterator[Reading]:
    """One for each object of the plan. Raises InvalidHeader or CorruptObject before anything is sent."""
    reading, rules, client = CsvReading.of(job.spec), job.plan.rules, connect(job.platform.s3)
    limit = f" (max.message.bytes {rules.max_message_bytes})"
    layouts = dict[tuple[str, ...], Layout]()
    sources = [
        SourceObject(**{field.name: document[field.name] for field in fields(SourceObject)})
        for document in job.plan.sources
    ]
    headers = at_once(sources, lambda source: source.column_names(client, reading.form))
    for source, names in zip(sources, headers, strict=True):
        if names not in layouts:
            layouts[names] = reading.layout(names, source.uri, rules.max_value_bytes, limit)
        yield Reading(source, reading.form, layouts[names])


def _rejected(spark: SparkSession, readings: Sequence[Reading]) -> DataFrame:
    """The rejected rows of these objects, as REJECTED_SCHEMA."""
    sources = _Sources.shared(spark, readings)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from sources.read(batch.column(0).to_pylist(), Reading.rejected)

    count = len(readings)
    return spark.range(0, count, 1, count).mapInArrow(task, REJECTED_SCHEMA)


@dataclass(frozen=True)
class _Sources:
    """Objects by their numbers, once in each worker process and not with each task."""

    readings: Broadcast[list[Reading]]
    count: int

    @classmethod
    def shared(cls, spark: SparkSession, readings: Sequence[Reading]) -> _Sources:
        return cls(spark.sparkContext.broadcast(list(readings)), len(readings))

    def numbers(self, spark: SparkSession) -> RDD[int]:
        """A task for each object."""
        return spark.sparkContext.parallelize(range(self.count), max(self.count, 1))

    def read(self, numbers: Iterable[int], read: Read) -> Iterator[pa.RecordBatch]:
        for number in numbers:
            yield from read(self.readings.value[number], worker_client())


@cache
def worker_client() -> Any:
    """One for all tasks of a worker: to make one takes as long as to type 20,000 rows."""
    return connect(platforms.load("producer").s3)


def start_worker(spark: SparkSession) -> None:
    """Read no object, so that a Python worker with its imports waits for the first one.

    For a thread beside what the driver asks before it reads. Never raises: the first reading finds the same
    error, and names it.
    """
    try:
        spark.sparkContext.parallelize([0], 1).map(lambda _: None).collect()
    except Exception as error:
        # Without its text: Airflow shows the last error in the log as the reason why a process ended.
        log.warning("no Python worker was started, the first rows take longer (%s)", type(error).__name__)
