"""The rows of a generated source, as a bounded producer sends them: all of them, malformed ones too."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.model.spec import generator
from sluice.model.spec.generator import Generated
from spark_jobs.common.spark.process import function

if TYPE_CHECKING:
    from spark_jobs.common.producer.run import Job

log = logging.getLogger(__name__)

# Rows (with the column `row`) -> the same with the record's `value`.
Generate = Callable[[DataFrame, Generated], DataFrame]


def generated_rows(job: Job) -> Iterator[DataFrame]:
    """The rows of a plan's generated sources, one source after the other; of a source with a rate, a second's
    rows at a time, each at its time, or more where sending them took longer. Slices of which the topic holds
    every row are left out, and take none."""
    assert job.spec.generator is not None
    generate = function(job.spec, job.spec.generator.rows)
    for document in job.plan.sources:
        parameters = generator.parse(
            job.spec.generator, document["parameters"], f"source {document['source_id']}"
        )
        yield from _slices(job, parameters, document["partition_count"], generate)


def _slices(job: Job, parameters: Generated, partition_count: int, generate: Generate) -> Iterator[DataFrame]:
    sent = job.sent[parameters.source_id]
    pending = deque(
        (first, until)
        for first, until in parameters.slices()
        if not sent.covers(generator.sequences(first, until, partition_count))
    )
    rate = parameters["rows_per_second"]
    began, done = time.monotonic(), 0
    while pending:
        if rate:
            time.sleep(max(0.0, began + done / rate - time.monotonic()))
        due = (time.monotonic() - began) * rate
        first, until = generator.next_range(pending, done, due)
        numbers = job.spark.range(first, until, 1, parameters.tasks(until - first)).toDF("row")
        placed = numbers.select(
            "row",
            F.lit(parameters.source_id).alias("source_id"),
            (F.col("row") % partition_count).cast("int").alias("target_partition"),
            F.expr(f"row div {partition_count}").alias("sequence"),
        )
        yield generate(placed, parameters)
        done += until - first
    log.info(
        "%s: %d rows sent in %.1f s", generator.describe(parameters.values), done, time.monotonic() - began
    )
