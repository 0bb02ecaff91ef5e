"""The records that come with a change: from the topic, and those that it has lost from the quarantine.

The topic stays the source of what it still has: its records carry the broker's checksum, and what Sluice
wrote itself is not evidence of what was sent. The quarantine keeps a rejected record whole, so that what
retention or a deletion took from the topic can still be decoded, as if it came from Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.platform_sections.kafka import Kafka
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.stream import StreamSpec
from sluice.core.changes.plan import ChangePlan
from sluice.core.offsets.quarantine import CONSUMER_STAGE
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.topic_ranges import TopicRanges
from sluice.core.tables.records import FROM_KAFKA
from spark_jobs.common.consumer.decoded_rows import is_good, table_rows
from spark_jobs.common.kafka.read_ranges import read_ranges, split_deleted
from spark_jobs.common.lake.written.read_offsets import COLUMNS, OffsetReader
from spark_jobs.common.maintenance.row_diff import RowsDiffer, compare
from spark_jobs.common.maintenance.staged_change import StagedChange, TableFile
from spark_jobs.common.spark.columns import is_at, offset_masks


def records_to_load(
    spark: SparkSession, kafka: Kafka, spec: StreamSpec, plan: ChangePlan, reader: OffsetReader
) -> tuple[DataFrame, OffsetRanges]:
    """The records of the plan that come, with the columns of Spark's Kafka source, and the offsets of those
    that are read from the quarantine.

    Raises LookupError as :func:`read_ranges`, for deleted records that are not in quarantine.
    """
    topic, wanted = plan.topic, plan.rows_in
    _, deleted = split_deleted(kafka, TopicRanges.of({topic: wanted}))
    recovered = OffsetRanges()
    if deleted:
        with StagedChange(spark, spec.quarantine_table, reader) as quarantine:
            recovered = quarantine.touched(deleted[topic]).offsets
    records = read_ranges(spark, kafka, TopicRanges.of({topic: wanted.minus(recovered)}))
    if recovered:
        records = records.unionByName(_quarantined(spark, spec, recovered))
    return records, recovered


def _quarantined(spark: SparkSession, spec: StreamSpec, offsets: OffsetRanges) -> DataFrame:
    rows = spark.table(f"{CATALOG}.{spec.quarantine_table}").where(
        (F.col("stage") == CONSUMER_STAGE) & _within(offsets)
    )
    chosen = rows.join(offset_masks(spark, offsets), is_at(*COLUMNS), "left_semi")
    return chosen.select(
        F.lit(spec.topic.name).alias("topic"),
        *(F.col(name).alias(source) for name, source in FROM_KAFKA.items()),
    )


def _within(offsets: OffsetRanges) -> Column:
    """Whether a row is between the bounds of its partition's: by these, files are skipped."""
    partition, offset = (F.col(name) for name in COLUMNS)
    bounds = ((p, *pairs) for p, (pairs,) in offsets.bounds().partitions.items())
    return reduce(
        Column.__or__,
        ((partition == p) & (offset >= start) & (offset < until) for p, start, until in bounds),
        F.lit(False),
    )


def check_as_quarantined(
    staged: StagedChange, files: Sequence[TableFile], rows: DataFrame, recovered: OffsetRanges
) -> None:
    """Raise RowsDiffer unless the rows of ``files`` at the ``recovered`` offsets are those of ``rows``, which
    are decoded from the quarantine: nothing else has these records any more."""
    if not recovered:
        return
    masks = offset_masks(rows.sparkSession, recovered)
    expected = table_rows(rows.where(is_good()).join(masks, is_at(*COLUMNS), "left_semi"))
    written = staged.rows([one.handle for one in files]).join(masks, is_at(*COLUMNS), "left_semi")
    diff = compare(expected, written.select(*expected.columns))
    if not diff.is_same or diff.rows != recovered.count:
        raise RowsDiffer(
            f"{recovered.count} records were read from the quarantine: {diff.message()}; nothing was "
            "published"
        )
