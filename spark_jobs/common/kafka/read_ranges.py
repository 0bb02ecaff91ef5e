"""Any offset ranges of any topics, as one batch: each record in them once, and no other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.clients.kafka.consumers import topic_offsets
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.error_codes import ErrorCode, coded
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from sluice.core.offsets.topic_ranges import TopicRanges
from spark_jobs.common.spark import session
from spark_jobs.common.spark.columns import in_ranges, is_at, offset_masks

# A partition with more is several tasks, so a skewed one is not the last to end.
RECORDS_PER_TASK = 500_000
# Ranges of a partition that are fetched on their own. If there are more, those nearest to each other are
# fetched with the records between them: each is a scan of its own in Spark's plan, with a Kafka consumer of
# its own per partition, whose buffers are kept for minutes.
MAX_SCANS = 8
# So of many ranges only those are fetched on their own that have more records than this before them.
SKIPPED_RECORDS = 100_000
# Ranges in one expression.
MAX_EXPRESSED = 200


def read_ranges(
    spark: SparkSession, kafka: Kafka, ranges: TopicRanges, records_per_task: int = RECORDS_PER_TASK
) -> DataFrame:
    """The records of ``ranges``, with the columns of Spark's Kafka source and ``headers``.

    Checked before anything is read: raises LookupError for a topic or partition that does not exist, for an
    end beyond the topic's, and for offsets that retention has deleted. What it deletes later fails the query.
    """
    kept, deleted = split_deleted(kafka, ranges)
    if deleted:
        raise _not_there(
            f"retention has deleted {deleted}", "read the rest, or raise the topic's retention.ms"
        )
    options = session.kafka_source_options(kafka) | {"maxRecordsPerPartition": str(records_per_task)}
    frames = [
        spark.read.format("kafka").options(**options | _bounds(scan)).load() for scan in _scans(kept)
    ] or [spark.createDataFrame([], session.KAFKA_RECORD)]
    records = reduce(DataFrame.unionAll, frames)
    if sum(len(offsets.pairs()) for t in kept for offsets in kept[t].partitions.values()) <= MAX_EXPRESSED:
        return records.where(_is_wanted(kept))
    # As one expression they would be more than Spark's analyzer and Java's compiler take.
    masks = (offset_masks(spark, kept[topic]).withColumn("at_topic", F.lit(topic)) for topic in kept)
    wanted = F.broadcast(reduce(DataFrame.unionAll, masks))
    is_wanted = is_at("partition", "offset") & (F.col("at_topic") == F.col("topic"))
    return records.join(wanted, is_wanted, "left_semi")


def split_deleted(kafka: Kafka, ranges: TopicRanges) -> tuple[TopicRanges, TopicRanges]:
    """``ranges`` as those that the topics keep and those that retention has deleted.

    Raises LookupError for a topic or partition that does not exist, and for an end beyond the topic's.
    """
    kept: dict[str, OffsetRanges] = {}
    for topic in ranges:
        bounds = topic_offsets(kafka, topic)
        if unknown := sorted(set(ranges[topic].partitions) - set(bounds)):
            raise _not_there(
                f"topic {topic!r} has no partition {unknown[0]}, its partitions are 0 to {max(bounds)}",
                "name others",
            )
        after = {partition: end for partition, (_, end) in bounds.items()}
        beyond = ranges[topic].minus(OffsetRanges.from_ends({}, after))
        if beyond:
            ends = ", ".join(f"partition {p} ends at {after[p]}" for p in beyond.partitions)
            raise _not_there(
                f"{TopicRanges.of({topic: beyond})} is not written yet: {ends}", "choose an end up to that"
            )
        first = {partition: begin for partition, (begin, _) in bounds.items()}
        kept[topic] = ranges[topic].intersect(OffsetRanges.from_ends(first, after))
    found = TopicRanges.of(kept)
    return found, ranges.minus(found)


def _not_there(message: str, fix: str) -> LookupError:
    return coded(ErrorCode.OFFSETS_NOT_THERE, LookupError(f"offset ranges: {message}. Fix: {fix}"))


def _scans(ranges: TopicRanges) -> Iterator[dict[str, dict[int, tuple[int, int]]]]:
    """Topic -> partition -> one range, so often that every range is in one of them."""
    fetched = {
        (topic, partition): _nearest_joined(offsets).pairs()
        for topic in ranges
        for partition, offsets in ranges[topic].partitions.items()
    }
    for number in range(max(map(len, fetched.values()), default=0)):
        scan: dict[str, dict[int, tuple[int, int]]] = {}
        for (topic, partition), pairs in fetched.items():
            if number < len(pairs):
                scan.setdefault(topic, {})[partition] = pairs[number]
        yield scan


def _nearest_joined(offsets: IntervalSet) -> IntervalSet:
    """At most MAX_SCANS ranges with all of these; of more, with what is between those near to each other."""
    narrowest = sorted(offsets.gaps(), key=lambda gap: gap[1] - gap[0])
    if len(narrowest) < MAX_SCANS:
        return offsets
    joined = narrowest[: len(narrowest) + 1 - MAX_SCANS]
    joined += [gap for gap in narrowest[len(joined) :] if gap[1] - gap[0] <= SKIPPED_RECORDS]
    return offsets.union(IntervalSet.of(joined))


def _bounds(scan: dict[str, dict[int, tuple[int, int]]]) -> dict[str, str]:
    starts, ends = (
        {topic: {partition: pair[side] for partition, pair in found.items()} for topic, found in scan.items()}
        for side in (0, 1)
    )
    return {
        "assign": json.dumps({topic: list(found) for topic, found in scan.items()}),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }


def _is_wanted(ranges: TopicRanges) -> Column:
    """Whether a record of a partition with more than MAX_SCANS ranges is in one of them."""
    unwanted = (
        (F.col("topic") == topic) & (F.col("partition") == partition) & ~in_ranges(F.col("offset"), offsets)
        for topic in ranges
        for partition, offsets in ranges[topic].partitions.items()
        if len(offsets.pairs()) > MAX_SCANS
    )
    return reduce(lambda wanted, other: wanted & ~other, unwanted, F.lit(True))
