"""The rows of source objects, as a bounded producer sends them: malformed ones go to the quarantine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import reduce

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from spark_jobs.common.kafka import identity
from spark_jobs.common.kafka.avro import Schemas, encode, schema_headers
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.quarantine import quarantine_rows
from spark_jobs.common.producer import csv
from spark_jobs.common.producer.objects import SourceObject, header_line, read_lines
from spark_jobs.common.producer.run import Job

log = logging.getLogger(__name__)

_NAMES = ("source_id", "bucket", "key", "version_id", "lanes")


def object_rows(job: Job) -> Iterator[DataFrame]:
    """The rows of a plan's object versions, all in one frame. Their order and identity follow from the
    objects alone; what is malformed is quarantined when the others are sent."""
    schema = Schemas.load(job.spec.schema_file).current
    by_header: dict[str, list[SourceObject]] = {}
    for document in job.plan.sources:
        source = SourceObject(**{name: document[name] for name in _NAMES})
        by_header.setdefault(header_line(job.platform, source), []).append(source)
    parsed = reduce(
        DataFrame.unionByName,
        (
            csv.parse(read_lines(job.spark, group), header, schema, job.spec.csv, group[0].uri)
            for header, group in by_header.items()
        ),
    )
    counted = Observation()
    observed = parsed.observe(
        counted,
        F.count(F.lit(1)).alias("rows"),
        F.count("reason").alias("malformed"),
    )
    good = identity.with_lane_and_seq(observed.where(F.col("reason").isNull()))
    value, headers = encode(F.col("record"), schema), schema_headers(schema)
    yield good.withColumns({"value": value, "headers": headers})
    rows_read, malformed = counted.get["rows"], counted.get["malformed"]
    log.info("read %d rows, %d of them malformed", rows_read, malformed)
    if malformed:
        tables.ensure_quarantine(job.spark, job.spec)
        quarantine_rows(job.spark, job.spec, parsed.where(F.col("reason").isNotNull()))
