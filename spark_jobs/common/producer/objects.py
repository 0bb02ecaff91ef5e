"""Rows of source objects, for a bounded producer; malformed rows go to the quarantine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from sluice.clients.s3.requests import connect
from sluice.config import platform as platforms
from sluice.config.sending_rules import SendingRules
from spark_jobs.common.kafka import keys
from spark_jobs.common.kafka.avro import AvroSchema, Schemas, schema_headers
from spark_jobs.common.lake.source_quarantine import quarantine_rows
from spark_jobs.common.producer import csv
from spark_jobs.common.producer.lines import MAX_LINE_BYTES, Block, SourceObject, blocks, header_line
from spark_jobs.common.producer.usual_rows import Layout
from spark_jobs.common.spark.columns import computed

if TYPE_CHECKING:
    from spark_jobs.common.producer.run import Job

log = logging.getLogger(__name__)

LINE_SCHEMA = (
    "source_id string, object string, partition_count int, line bigint, row bigint, text string, "
    "undecodable boolean, cut boolean"
)
# Lines of a text that are in memory at once, with copies.
LINES_PER_BATCH = 20_000


@dataclass(frozen=True)
class Reading:
    """How a task reads an object: its rows in their usual form until the first other one, and the rest.
    ``first_other``: that row, for the rest."""

    source: SourceObject
    layout: Layout
    first_other: int = 0

    def usual_rows(self, client: Any) -> Iterator[pa.RecordBatch]:
        """Those before the first other row, which follows with ``record`` null if there is one."""
        for block in blocks(client, self.source):
            usual, records = self.layout.usual(block.lines)
            first = int(np.argmin(usual)) if not usual.all() else len(usual)
            yield self._batch(block.rows[:first], records[:first])
            if first < len(usual):
                yield self._batch(block.rows[first : first + 1], pa.nulls(1, records.type))
                return

    def _batch(self, rows: NDArray[np.int64], records: pa.StructArray) -> pa.RecordBatch:
        targets = rows % self.source.partition_count
        # A target partition at a time: where tasks send rows of several objects, few rows alternate.
        order = np.argsort(targets, kind="stable")
        columns = [
            pa.array([self.source.source_id] * len(rows), pa.string()),
            pa.array(rows[order]),
            pa.array(targets[order], pa.int32()),
            # As keys.with_partition_and_sequence: no earlier row is malformed.
            pa.array((rows // self.source.partition_count)[order]),
            records.take(pa.array(order)),
        ]
        return pa.RecordBatch.from_arrays(
            columns, ["source_id", "row", "target_partition", "sequence", "record"]
        )

    def rest(self, client: Any) -> Iterator[pa.RecordBatch]:
        """The rows from ``first_other`` on, as LINE_SCHEMA. Bytes that are not UTF-8 are escaped, and the
        line is ``undecodable``; of one that is ``cut`` the rest is not read."""
        for block in blocks(client, self.source):
            first = max(self.first_other - int(block.rows[0]), 0)
            for start in range(first, len(block.lines), LINES_PER_BATCH):
                yield self._lines(block, start, min(start + LINES_PER_BATCH, len(block.lines)))

    def _lines(self, block: Block, start: int, until: int) -> pa.RecordBatch:
        texts, undecodable, cut = list[str](), list[bool](), list[bool]()
        for number in range(start, until):
            raw = block.lines[number].rstrip(b"\r")
            cut.append(len(raw) > MAX_LINE_BYTES)
            raw = raw[:MAX_LINE_BYTES]
            try:
                texts.append(raw.decode())
                undecodable.append(False)
            except UnicodeDecodeError:
                texts.append(raw.decode("utf-8", "backslashreplace"))
                undecodable.append(True)
        count = until - start
        columns = [
            pa.array([self.source.source_id] * count, pa.string()),
            pa.array([self.source.uri] * count, pa.string()),
            pa.array([self.source.partition_count] * count, pa.int32()),
            pa.array(block.numbers[start:until]),
            pa.array(block.rows[start:until]),
            pa.array(texts, pa.string()),
            pa.array(undecodable, pa.bool_()),
            pa.array(cut, pa.bool_()),
        ]
        return pa.RecordBatch.from_arrays(
            columns, ["source_id", "object", "partition_count", "line", "row", "text", "undecodable", "cut"]
        )


def _read(spark: SparkSession, readings: Sequence[Reading], read: Any, schema: StructType | str) -> DataFrame:
    # Once per worker process, not with each task.
    shared = spark.sparkContext.broadcast(list(readings))

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        client = connect(platforms.load("producer").s3)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(shared.value[number], client)

    return spark.range(0, len(readings), 1, max(len(readings), 1)).mapInArrow(task, schema)


def start_worker(spark: SparkSession) -> None:
    """Read no object, so that a Python worker with its imports waits for the first one.

    For a thread beside what the driver asks before it reads. Never raises: the first reading finds the same
    error, and names it.
    """
    try:
        _read(spark, [], Reading.rest, LINE_SCHEMA).collect()
    except Exception as error:
        # Without its text: Airflow shows the last error in the log as the reason why a process ended.
        log.warning("no Python worker was started, the first rows take longer (%s)", type(error).__name__)


def read_usual(spark: SparkSession, readings: Sequence[Reading], record: StructType) -> DataFrame:
    """``source_id``, ``row``, ``target_partition``, ``sequence``, ``record``: null for a row at which the
    usual rows of its object end."""
    schema = (
        StructType()
        .add("source_id", StringType())
        .add("row", LongType())
        .add("target_partition", IntegerType())
        .add("sequence", LongType())
        .add("record", record)
    )
    return _read(spark, readings, Reading.usual_rows, schema)


def object_rows(job: Job) -> Iterator[DataFrame]:
    """Yield the rows of a plan's object versions; quarantine malformed ones after the send.

    First those in their usual form, of each object until its first other row. From there on Spark's parser
    reads the object, so each target partition gets the rows of an object in their order.
    """
    threading.Thread(target=start_worker, args=(job.spark,), name="start-worker", daemon=True).start()
    schema = Schemas.load(job.spec.schema_file).current
    record, rules = schema.struct(job.spark), job.plan.rules
    layouts: dict[str, Layout] = {}
    readings = []
    for document in job.plan.sources:
        source = SourceObject(**{field.name: document[field.name] for field in fields(SourceObject)})
        header = header_line(job.platform, source)
        if header not in layouts:
            layouts[header] = csv.layout(
                header, schema, record, job.spec.csv, source.uri, rules.max_value_bytes
            )
        readings.append(Reading(source, layouts[header]))
    encoded = {"value": to_avro("record", schema.text), "headers": schema_headers(schema)}
    counts, ends = Observation(), F.when(F.col("record").isNull(), F.concat_ws(":", "source_id", "row"))
    usual = read_usual(job.spark, readings, record).observe(
        counts, F.count("record").alias("rows"), F.concat_ws(" ", F.collect_set(ends)).alias("ended")
    )
    yield usual.where("record is not null").withColumns(encoded)
    sent, ended = counts.get["rows"], dict(end.split(":") for end in counts.get["ended"].split())
    if not ended:
        log.info("rows read rows=%d malformed=0", sent)
        return
    log.info("rows of another form objects=%d", len(ended))
    rest = [
        replace(reading, first_other=int(ended[reading.source.source_id]))
        for reading in readings
        if reading.source.source_id in ended
    ]
    parsed = encoded_rest(parse_rest(job.spark, rest, record), schema, rules)
    counts = Observation()
    placed = keys.with_partition_and_sequence(
        parsed.observe(counts, F.count(F.lit(1)).alias("rows"), F.count("reason").alias("malformed"))
    )
    yield placed.where("reason is null").withColumn("headers", schema_headers(schema))
    malformed = counts.get["malformed"]
    log.info("rows read rows=%d malformed=%d", sent + counts.get["rows"], malformed)
    if malformed:
        bad = parsed.where("reason is not null")
        quarantine_rows(job.spark, job.platform, job.spec, bad, sorted(job.plan.start_offsets))


def encoded_rest(parsed: DataFrame, schema: AvroSchema, rules: SendingRules) -> DataFrame:
    """The rows of :func:`parse_rest` with the record's ``value``, and a ``reason`` also for those that are
    not sent for their size."""
    value = F.when(F.col("reason").isNull(), to_avro("record", schema.text))
    cut = F.when(
        F.col("cut"), F.lit(f"too large: the line has more than {MAX_LINE_BYTES} bytes; these are its first")
    )
    encoded = computed(parsed, value=value)
    return encoded.withColumn("reason", F.coalesce(cut, "reason", oversize(rules)))


def oversize(rules: SendingRules) -> Column:
    """Why the ``value`` of a record is not sent; null if it is.

    By the value alone: a key has the number of earlier rows that are sent, which depends on this.
    """
    size = F.octet_length("value")
    limit = f" bytes, the topic takes {rules.max_value_bytes} (max.message.bytes {rules.max_message_bytes})"
    return F.when(
        size > rules.max_value_bytes,
        F.concat(F.lit("too large: the record's value has "), size.cast("string"), F.lit(limit)),
    )


def parse_rest(spark: SparkSession, readings: Sequence[Reading], record: StructType) -> DataFrame:
    """The rows that :func:`read_usual` leaves out, by Spark's parser, with ``record`` and ``reason``."""
    by_layout: dict[Layout, list[Reading]] = {}
    for reading in readings:
        by_layout.setdefault(reading.layout, []).append(reading)
    return reduce(
        DataFrame.unionByName,
        (
            csv.parse(_read(spark, group, Reading.rest, LINE_SCHEMA), layout, record)
            for layout, group in by_layout.items()
        ),
    )
