"""Any offset ranges of any topics as one frame: each record in them once, and no other. The Direct API.

Each task reads its ranges itself, as record batches (``sluice.clients.kafka.log``), and accounts for every
offset: Spark's own source reads record by record, and says of none why it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from sluice.clients.kafka.consumers import offsets_at, topic_offsets
from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.fetching import PATIENCE_SECONDS, patiently
from sluice.clients.kafka.log.range_reader import Epochs, RangeReader
from sluice.clients.kafka.log.responses import Moving, TopicLeaders
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.error_codes import ErrorCode, coded
from sluice.core.errors import Refused
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges, Pair
from sluice.core.offsets.topic_ranges import TopicRanges
from sluice.core.record_batches.records import MAX_HEADERS
from spark_jobs.common.spark import session

# A partition with more is several tasks, so a skewed one is not the last to end.
RECORDS_PER_TASK = 500_000
# Ranges that are nearer to each other are read with what lies between them: a request each costs more.
JOINED_OFFSETS = 5_000
# As Spark's Kafka source has them.
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True)
class Times:
    """A part of a topic by its records' times, ``[begin, end)``; both with a time zone.

    In each partition from the first record with ``begin`` or a later time to before the first one with
    ``end`` or a later one, as Kafka's own tools count: where producers set the times, some between may be
    earlier or later.
    """

    topic: str
    begin: datetime
    end: datetime


@dataclass(frozen=True)
class _Task:
    """What one task reads: ``offsets`` of a partition of the topic with this id. ``epoch``: its leader's
    when the ranges were planned."""

    topic: str
    topic_id: str
    partition: int
    offsets: IntervalSet
    epoch: int


def ranges_of(kafka: Kafka, times: Times) -> TopicRanges:
    """The offsets of ``times`` now: the same frame may be read from them again, whatever comes later.

    Raises ValueError for a time without a zone or an end before its begin, LookupError for an unknown topic.
    """
    if times.begin.tzinfo is None or times.end.tzinfo is None or times.end < times.begin:
        raise ValueError(f"{times}: give a begin and a later end, both with a time zone")
    begins, ends = (
        offsets_at(kafka, times.topic, int(at.timestamp() * 1000)) for at in (times.begin, times.end)
    )
    rising = {partition: max(end, begins.get(partition, 0)) for partition, end in ends.items()}
    return TopicRanges.of({times.topic: OffsetRanges.from_ends(begins, rising)})


def read_ranges(
    spark: SparkSession, kafka: Kafka, ranges: TopicRanges | Times, records_per_task: int = RECORDS_PER_TASK
) -> DataFrame:
    """The committed records of ``ranges``, with the columns of Spark's Kafka source and ``headers``.

    A partition with more than ``records_per_task`` offsets is read by several tasks. Checked before anything
    is read: raises LookupError for a topic or partition that does not exist, for an end beyond the topic's,
    and for offsets that retention has deleted. What it deletes later fails the query, as offsets do that are
    missing without a reason, and a topic that is created again.
    """
    if isinstance(ranges, Times):
        ranges = ranges_of(kafka, ranges)
    kept, deleted = split_deleted(kafka, ranges)
    if deleted:
        raise _not_there(
            f"retention has deleted {deleted}", "read the rest, or raise the topic's retention.ms"
        )
    if not kept:
        return spark.createDataFrame([], session.KAFKA_RECORD)
    if records_per_task < 1:
        raise ValueError(f"records_per_task is {records_per_task}: give 1 or more")
    with Brokers(kafka, PATIENCE_SECONDS) as brokers:
        # Behind the look at the topics' ends: what is before them has no higher epoch.
        found = {topic: described(brokers, topic, kept[topic]) for topic in kept}
    tasks = [
        _Task(topic, found[topic].id, partition, part, found[topic].leaders[partition][1])
        for topic in kept
        for partition, offsets in kept[topic].partitions.items()
        for part in _parts(offsets, records_per_task)
    ]
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    return numbers.mapInArrow(_reading(kafka, tasks), session.KAFKA_RECORD)


def described(brokers: Brokers, topic: str, offsets: OffsetRanges) -> TopicLeaders:
    """The topic's id, and the leaders of the partitions of ``offsets``, once each has one, as these leaders
    themselves say: another broker may not know of an election yet, and records of a later epoch would look
    like a log that was truncated. Raises Missing, Refused or Unreachable."""

    def ask() -> TopicLeaders:
        leaders: dict[int, tuple[int, int]] = {}
        found = brokers.describe(topic)
        for node in {found.leaders[number][0] for number in offsets.partitions if number in found.leaders}:
            said = brokers.describe(topic, node)
            leaders |= {number: one for number, one in said.leaders.items() if one[0] == node}
        found = TopicLeaders(found.id, leaders)
        if without := sorted(set(offsets.partitions) - set(found.leaders)):
            raise Moving(f"topic {topic!r}: partition {without[0]} has no leader")
        return found

    return patiently(brokers, PATIENCE_SECONDS, ask)


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


def _parts(offsets: IntervalSet, size: int) -> Iterator[IntervalSet]:
    """``offsets`` in parts, of which each reads about ``size`` offsets: those between near ones count."""
    part: list[Pair] = []
    first = 0
    for start, until in offsets:
        if part and start - part[-1][1] > JOINED_OFFSETS:
            # What lies between is not read.
            first += start - part[-1][1]
        while start < until:
            if not part:
                first = start
            end = min(until, max(first + size, start + 1))
            part.append((start, end))
            start = end
            if end - first >= size:
                yield IntervalSet.of(part)
                part = []
    if part:
        yield IntervalSet.of(part)


def _reading(
    kafka: Kafka, tasks: list[_Task]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For ``mapInArrow`` over the tasks' numbers."""

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from _records(_connected(kafka), tasks[number])

    return read


@cache
def _connected(kafka: Kafka) -> Brokers:
    """One set of connections in each of Spark's Python processes, which run one task after the other."""
    return Brokers(kafka, PATIENCE_SECONDS)


def _records(brokers: Brokers, task: _Task) -> Iterator[pa.RecordBatch]:
    reader = RangeReader(brokers, task.topic, task.topic_id)
    for wanted in _near(task.offsets):
        for piece in reader.read(task.partition, wanted, Epochs(highest=task.epoch)):
            yield as_spark_does(piece, task.topic, task.partition, _in_microseconds(piece, task))


def _near(offsets: IntervalSet) -> Iterator[IntervalSet]:
    """Parts of ``offsets`` without a wide gap."""
    part: list[Pair] = []
    for start, until in offsets:
        if part and start - part[-1][1] > JOINED_OFFSETS:
            yield IntervalSet.of(part)
            part = []
        part.append((start, until))
    yield IntervalSet.of(part)


def as_spark_does(piece: pa.RecordBatch, topic: str, partition: int, times: pa.Array) -> pa.RecordBatch:
    """``piece`` (``record_batches.records.SCHEMA``) with the columns of Spark's Kafka source, where a record
    without headers has null in their place. ``times``: its timestamps in microseconds. Raises Refused for a
    record with more than MAX_HEADERS headers."""
    rows, headers = len(piece), piece.column("headers")
    if headers.null_count:
        place = headers.is_null().index(True).as_py()
        raise Refused(
            f"topic {topic!r}, partition {partition}: the record at offset {piece.column('offset')[place]} "
            f"has more than {MAX_HEADERS:,} headers. Fix: read the ranges around it, and find its producer"
        )
    columns = {
        "key": piece.column("key"),
        "value": piece.column("value"),
        "topic": pa.array([topic] * rows, pa.string()),
        "partition": pa.array(np.full(rows, partition, np.int32)),
        "offset": piece.column("offset"),
        "timestamp": times,
        "timestampType": piece.column("timestamp_type"),
        "headers": headers_as_text(headers),
    }
    return pa.RecordBatch.from_pydict(columns)


def headers_as_text(headers: pa.ListArray) -> pa.ListArray:
    """Headers of ``record_batches.records.SCHEMA`` as Spark's Kafka source gives them: null where a record
    has none, or too many, and keys as texts."""
    lengths = pc.list_value_length(headers).fill_null(0)
    fields = headers.flatten()
    items = pa.StructArray.from_arrays(
        [_text(fields.field("key")), fields.field("value")], fields=list(HEADERS.value_type)
    )
    starts = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(starts), items, type=HEADERS, mask=pc.equal(lengths, 0))


def _in_microseconds(piece: pa.RecordBatch, task: _Task) -> pa.TimestampArray:
    times = piece.column("timestamp")
    try:
        return times.cast(pa.timestamp("us", tz="UTC"))
    except pa.ArrowInvalid as error:
        ms = times.cast(pa.int64()).to_numpy()
        place = int(np.flatnonzero(np.abs(ms) > (1 << 63) // 1000)[0])
        raise Refused(
            f"topic {task.topic!r}, partition {task.partition}: the record at offset "
            f"{piece.column('offset')[place]} has the time {ms[place]} ms, which Spark cannot hold. Fix: "
            "read the ranges around it; its producer gives another unit"
        ) from error


def _text(keys: pa.BinaryArray) -> pa.StringArray:
    """Header keys as Java reads them: what is no UTF-8 becomes U+FFFD."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
