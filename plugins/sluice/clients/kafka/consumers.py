"""librdkafka's consumers, which join no group."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from sluice.clients.kafka.login.noted import Watched
from sluice.clients.kafka.login.properties import librdkafka
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.error_codes import ErrorCode, coded

TIMEOUT_SECONDS = 15.0
# For a consumer of :func:`read_range`. What retention deletes meanwhile is skipped.
RANGE_SETTINGS: Mapping[str, Any] = {"enable.partition.eof": True, "auto.offset.reset": "earliest"}
_BATCH = 1_000
# Waited for a whole _BATCH, also if less is left.
_POLL_SECONDS = 0.1
# A new partition, or one whose leader changes, has no leader for a moment; a group has no coordinator, as
# while the first group of a cluster makes the topic of offsets.
_MOVING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        # Client and broker know of different elections, as just after a broker's restart.
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)


def consumer(kafka: Kafka, group: str, settings: Mapping[str, Any] | None = None) -> Watched:
    """``group``: its offsets are read or set; librdkafka requires a name. Its requests, and
    :func:`read_range`, raise LoginRefused soon after the login is."""
    own = {"group.id": group, "enable.auto.commit": False}
    return Watched(kafka, {**librdkafka(kafka), **own, **(settings or {})})


def begin_and_end_offsets(
    asked: Consumer, topic: str, seconds: float = TIMEOUT_SECONDS
) -> dict[int, tuple[int, int]]:
    """Partition -> (first offset kept, next offset to be written). Raises LookupError for an unknown topic,
    KafkaException if no broker answers in time."""
    found = asked.list_topics(topic, timeout=seconds).topics[topic]
    if found.error is not None or not found.partitions:
        raise coded(
            ErrorCode.TOPIC_NOT_FOUND,
            LookupError(
                f"topic {topic!r}: {found.error}. Fix: run the load's provision_topic step first; of a topic "
                "of others correct its name"
            ),
        )
    retrying = while_moving(seconds)
    return {
        partition: retrying(asked.get_watermark_offsets, TopicPartition(topic, partition), timeout=seconds)
        for partition in sorted(found.partitions)
    }


def while_moving(seconds: float) -> Retrying:
    """Repeats a request to a partition's leader, or a group's coordinator, while that moves; its last error
    after ``seconds``."""
    return Retrying(
        retry=retry_if_exception(_is_moving),
        stop=stop_after_delay(seconds),
        wait=wait_fixed(0.2),
        reraise=True,
    )


def _is_moving(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in _MOVING


def topic_offsets(kafka: Kafka, topic: str) -> dict[int, tuple[int, int]]:
    """As :func:`begin_and_end_offsets`, over a connection of its own."""
    with closing(consumer(kafka, f"sluice-{topic}-watermarks")) as asked:
        return begin_and_end_offsets(asked, topic)


def written_offsets(kafka: Kafka, topic: str) -> dict[int, tuple[int, int]]:
    """As :func:`topic_offsets`, with ends behind open transactions, too: without them a client that reads
    committed records is told the first one's begin."""
    settings = {"isolation.level": "read_uncommitted"}
    with closing(consumer(kafka, f"sluice-{topic}-watermarks", settings)) as asked:
        return begin_and_end_offsets(asked, topic)


def offsets_at(kafka: Kafka, topic: str, at_ms: int) -> dict[int, int]:
    """Partition -> the first offset whose record has this time (ms since 1970) or a later one, else its end.

    Raises as :func:`begin_and_end_offsets`.
    """
    with closing(consumer(kafka, f"sluice-{topic}-times")) as asked:
        ends = {p: end for p, (_, end) in begin_and_end_offsets(asked, topic).items()}
        # A moment before 1970 would be the protocol's constant: -1 latest, -2 earliest.
        wanted = [TopicPartition(topic, partition, max(at_ms, 0)) for partition in ends]
        found = while_moving(TIMEOUT_SECONDS)(asked.offsets_for_times, wanted, timeout=TIMEOUT_SECONDS)
    return {place.partition: ends[place.partition] if place.offset < 0 else place.offset for place in found}


def group_offsets(kafka: Kafka, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Partition -> the offset that a group has committed; without partitions that have none.

    Asked for only: the group is not joined, and nothing of it is set. Raises KafkaException.
    """
    wanted = [TopicPartition(topic, partition) for partition in partitions]
    with closing(consumer(kafka, group)) as asked:
        found = while_moving(TIMEOUT_SECONDS)(committed, asked, wanted, TIMEOUT_SECONDS)
    return {place.partition: place.offset for place in found if place.offset >= 0}


def read_range(
    reader: Consumer, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], seconds: float
) -> Iterator[Message]:
    """Yield the records of each partition from its offset in ``starts`` to before that in ``ends``.

    ``reader`` has RANGE_SETTINGS and is assigned nothing afterwards. Waits for a transaction that is open
    before the end. Raises KafkaException, or TimeoutError if not everything was read within ``seconds``.
    """
    positions = {partition: start for partition, start in starts.items() if start < ends[partition]}
    if not positions:
        return
    deadline = time.monotonic() + seconds
    reader.assign([TopicPartition(topic, *position) for position in positions.items()])
    try:
        while positions:
            if time.monotonic() > deadline:
                partition, offset = next(iter(positions.items()))
                raise TimeoutError(
                    f"topic {topic!r}: partition {partition} was read to offset {offset} of "
                    f"{ends[partition]} in {seconds:g} s"
                )
            found = reader.consume(_BATCH, _POLL_SECONDS)
            if not found and isinstance(reader, Watched):
                reader.check_login(f"topic {topic!r}")
            for message in found:
                error, partition = message.error(), cast("int", message.partition())
                if error is not None and isinstance(reader, Watched) and reader.is_of_group(error):
                    # The group is a name here.
                    continue
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                offset, end = cast("int", message.offset()), ends[partition]
                if error is None:
                    if offset < end:
                        yield message
                    offset += 1
                if offset < end:
                    positions[partition] = offset
                else:
                    positions.pop(partition, None)
    finally:
        reader.unassign()


def committed(asked: Consumer, wanted: list[TopicPartition], seconds: float) -> list[TopicPartition]:
    """The offsets of the consumer's group, with their metadata. Raises KafkaException.

    Not by AdminClient: its request crashes the process (SIGSEGV in librdkafka's rd_kafka_cgrp_op) while the
    group's coordinator moves, as on a new broker.
    """
    found: list[TopicPartition] = asked.committed(wanted, timeout=seconds)
    refused = next((place.error for place in found if place.error), None)
    if refused is not None:
        raise KafkaException(refused)
    return found
