"""Rows of data generators, for a bounded producer; malformed rows are sent too."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.config.sections import generator
from sluice.config.sections.generator import Generated
from sluice.config.sending_rules import SendingRules
from spark_jobs.common.lake.source_quarantine import quarantine_rows
from spark_jobs.common.producer.sending import send_frame
from spark_jobs.common.spark.functions import function

if TYPE_CHECKING:
    from spark_jobs.common.producer.run import Job

log = logging.getLogger(__name__)

# Rows (with the column `row`) -> the same with the record's `value`.
Generate = Callable[[DataFrame, Generated], DataFrame]


def send_generated(job: Job) -> None:
    """Send the rows of a plan's generators in turn, without slices that are on the topic; quarantine those
    that it does not take.

    With a rate: a second's rows at their time, or more if the previous send took longer.
    """
    assert job.spec.generator is not None
    generate = function(job.spec, job.spec.generator.rows)
    for document in job.plan.sources:
        parameters = generator.parse(
            job.spec.generator, document["parameters"], f"source {document['source_id']}"
        )
        _slices(job, parameters, document["partition_count"], generate)


def _quarantine(job: Job, parameters: Generated, rows: DataFrame) -> None:
    # A row that is not sent leaves a hole in the sequence numbers, which depend on the row alone.
    bad = rows.select(
        "source_id",
        "row",
        "reason",
        F.col("value").alias("text"),
        F.lit(None).cast("string").alias("object"),
        F.lit(None).cast("bigint").alias("line"),
    )
    quarantine_rows(job.spark, job.platform, job.spec, bad, [parameters.source_id])


def _slices(job: Job, parameters: Generated, partition_count: int, generate: Generate) -> None:
    sent = job.sent[parameters.source_id]
    pending = deque(
        (first, until)
        for first, until in parameters.slices()
        if not sent.covers(generator.sequences(first, until, partition_count))
    )
    rate, sending = parameters["rows_per_second"], job.sending()
    started_at, done = time.monotonic(), 0
    while pending:
        if rate:
            time.sleep(max(0.0, started_at + done / rate - time.monotonic()))
        due = (time.monotonic() - started_at) * rate
        first, until = generator.next_range(pending, done, due)
        numbers = job.spark.range(first, until, 1, parameters.tasks(until - first)).toDF("row")
        rows = numbers.select(
            "row",
            F.lit(parameters.source_id).alias("source_id"),
            (F.col("row") % partition_count).cast("int").alias("target_partition"),
            F.expr(f"row div {partition_count}").alias("sequence"),
        )
        reasoned = generate(rows, parameters).withColumn("reason", oversize(job.plan.rules))
        found = send_frame(sending, _of_good(reasoned))
        if any(counts.rejected for counts in found.values()):
            _quarantine(job, parameters, reasoned.where("reason is not null"))
        done += until - first
    seconds = time.monotonic() - started_at
    log.info(
        "rows sent generator=%r rows=%d seconds=%.1f", generator.describe(parameters.values), done, seconds
    )


def _of_good(reasoned: DataFrame) -> DataFrame:
    """As ``sending.ROWS_SCHEMA``."""
    is_good = F.col("reason").isNull()
    wanted = {name: F.when(is_good, F.col(name)) for name in ("sequence", "value")}
    return reasoned.withColumns(wanted).select("source_id", "row", "target_partition", *wanted)


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
