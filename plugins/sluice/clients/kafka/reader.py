"""Read a topic without a consumer group: records between offsets, the newest results, the last batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import KafkaException, Message

from sluice.clients.kafka import consumers as kafka_io
from sluice.clients.kafka.admin import TIMEOUT_SECONDS, KafkaAdmin
from sluice.clients.kafka.consumers import consumer
from sluice.clients.kafka.errors import translated
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from sluice.core.queries import committed_batch
from sluice.core.queries.committed_batch import NO_BATCH
from sluice.core.queries.result import VERSION, key_text, tombstone_version

# librdkafka requires a group and looks for its coordinator; no request here needs a right to it.
_GROUP = "sluice-reader"
_SETTINGS: Mapping[str, Any] = {
    **kafka_io.RANGE_SETTINGS,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 10,
    # Errors are raised.
    "log_level": 2,
}


def read_range(
    kafka: Kafka, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], seconds: float
) -> Iterator[Message]:
    """As :func:`sluice.clients.kafka.consumers.read_range`. Raises Refused if the role may not read, else
    Unreachable."""
    if not any(start < ends[partition] for partition, start in starts.items()):
        return
    errors: list[str] = []
    settings = {**_SETTINGS, "error_cb": lambda error: errors.append(error.str())}
    with closing(consumer(kafka, _GROUP, settings)) as reader:
        try:
            yield from kafka_io.read_range(reader, topic, starts, ends, seconds)
        except KafkaException as error:
            raise translated(f"topic {topic!r}", error) from error
        except TimeoutError as error:
            reason = f"; Kafka: {errors[-1]}" if errors else ""
            raise Unreachable(
                f"{error}{reason}. Kafka is slow or unavailable, or the writer of an open transaction hangs. "
                "Fix: check that the query runs",
                ErrorCode.KAFKA_UNREACHABLE,
            ) from error


# For a whole topic.
READ_SECONDS = 120.0
# Records between two offsets that are read, so that the broker is asked once for both.
_NEAR = 50_000
_LEAST_PER_SECOND = 10_000


def delivered_among(
    kafka: Kafka, topic: str, offsets: OffsetRanges, tombstones: OffsetRanges | None = None
) -> OffsetRanges:
    """Those of ``offsets``, which the topic has, at which it delivers a committed record to librdkafka; at
    ``tombstones``, one that has a value.

    A second opinion about offsets without a record: what consumes streams reads by another client. Reads
    between two offsets that are near. Raises as :func:`read_range`.
    """
    empty = tombstones or OffsetRanges()
    spans = {partition: _spans(ranges) for partition, ranges in offsets.partitions.items()}
    found: dict[int, list[int]] = {}
    for number in range(max(map(len, spans.values()), default=0)):
        those = {partition: pairs[number] for partition, pairs in spans.items() if number < len(pairs)}
        starts = {partition: start for partition, (start, _) in those.items()}
        ends = {partition: until for partition, (_, until) in those.items()}
        seconds = READ_SECONDS + sum(until - start for start, until in those.values()) / _LEAST_PER_SECOND
        for message in read_range(kafka, topic, starts, ends, seconds):
            partition, offset = cast("int", message.partition()), cast("int", message.offset())
            is_expected = message.value() is None and offset in empty[partition]
            if offset in offsets[partition] and not is_expected:
                found.setdefault(partition, []).append(offset)
    return OffsetRanges.of_values(found)


def _spans(ranges: IntervalSet) -> list[tuple[int, int]]:
    """The ranges, those that are near joined with what is between them."""
    joined: list[tuple[int, int]] = []
    for start, until in ranges:
        if joined and start - joined[-1][1] <= _NEAR:
            joined[-1] = (joined[-1][0], until)
        else:
            joined.append((start, until))
    return joined


@dataclass(frozen=True)
class Result:
    """The newest result of a key. ``version``: number of its batch. Without ``aggregates``: a rebuild removed
    the key."""

    aggregates: dict[str, int]
    version: int


def read(
    kafka: Kafka, topic: str, keys: Sequence[str], seconds: float = READ_SECONDS, since: float | None = None
) -> dict[str, Result]:
    """Key text (``result.key_text``) -> the committed result with the highest version.

    ``keys``: the columns of ``Query.keys``; other fields of a record, except its version, are aggregates.
    ``since``: only records behind the first of this time or later (seconds since 1970); all by default.
    Waits for a transaction that is open at the call: it may be committed, and not visible yet.

    Raises Missing without the topic, Refused for a record that is no result or if the role may not read, and
    Unreachable if not everything was read within ``seconds``.
    """
    admin = KafkaAdmin(kafka, min(seconds, TIMEOUT_SECONDS))
    try:
        # After all records, committed or not.
        ends = admin.ends(topic)
    except Missing as error:
        raise Missing(
            f"topic {topic!r} does not exist on {kafka.bootstrap_servers}. Fix: run the load's "
            "provision_sinks step",
            ErrorCode.TOPIC_NOT_FOUND,
        ) from error
    starts = dict.fromkeys(ends, 0) if since is None else admin.first_after(topic, int(since * 1000), ends)
    return newest(topic, keys, read_range(kafka, topic, starts, ends, seconds))


def last_batch(kafka: Kafka, stream: str, query: str, topic: str) -> int | None:
    """The last committed batch of the topic; None before the first.

    Waits for an open commit. Raises Refused if the role may not read the group or its offset has invalid
    metadata, Unreachable if Kafka does not answer.
    """
    group = committed_batch.group(stream, query)
    found = KafkaAdmin(kafka).committed(group, topic, committed_batch.PARTITION)
    if found is None:
        return None
    try:
        batch = committed_batch.parse(*found).batch
    except ValueError as error:
        raise Refused(
            f"group {group!r}, topic {topic!r}: {error}. Fix: delete the group's offsets and restart the "
            "query",
            ErrorCode.SINKS_DIFFER,
        ) from error
    return None if batch == NO_BATCH else batch


def newest(topic: str, keys: Sequence[str], messages: Iterable[Message]) -> dict[str, Result]:
    """Key text -> the result with the highest version, the later of equal ones; without those that a rebuild
    removed. Raises Refused for a record that is no result."""
    results: dict[str, Result] = {}
    own = {*keys, VERSION}
    for message in messages:
        try:
            key = (message.key() or b"").decode()
            value = message.value()
            if value is None:
                result = Result({}, tombstone_version(message.headers()))
            else:
                result = _result(key, json.loads(value), keys, own)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(
                f"topic {topic!r}, partition {message.partition()}, offset {message.offset()}: no "
                f"result of the query ({type(error).__name__}: {error}). Fix: let only the query write it, "
                "delete the topic, run the load's provision_sinks step, and rebuild the query",
                ErrorCode.SINKS_DIFFER,
            ) from error
        if key not in results or result.version >= results[key].version:
            results[key] = result
    return {key: result for key, result in results.items() if result.aggregates}


def _result(key: str, value: dict[str, Any], keys: Sequence[str], own: set[str]) -> Result:
    version = value[VERSION]
    expected = key_text([value[column] for column in keys])
    if key != expected:
        raise ValueError(f"its key is {key!r}, and its value has {expected!r}")
    aggregates = {name: count for name, count in value.items() if name not in own}
    if not aggregates or not all(type(number) is int for number in (version, *aggregates.values())):
        raise ValueError(f"aggregates and version must be whole numbers: {value!r}")
    return Result(aggregates, version)
