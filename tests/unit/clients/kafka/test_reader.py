"""Where reading a topic ends; over a real broker: tests/spark/test_kafka_sink.py, test_progress.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from unittest.mock import patch

from confluent_kafka import Consumer, KafkaError, TopicPartition

from sluice.clients.kafka import reader as kafka_reader
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.errors import Refused, Unreachable
from sluice.core.offsets.ranges import OffsetRanges
from tests.support.kafka_records import Record
from tests.support.raising import raising


class FakeConsumer:
    """Returns one batch of ``answers`` after the other, then none."""

    def __init__(self, *answers: list[Record], error: KafkaError | None = None) -> None:
        self.answers, self.error = list(answers), error
        self.assigned: list[TopicPartition] = []
        self.all_assigned: list[TopicPartition] = []
        self.assigned_at_end: list[TopicPartition] | None = None
        self.is_closed = False

    def make(self, kafka: Kafka, group: str, settings: Mapping[str, Any]) -> Consumer:
        if self.error is not None:
            settings["error_cb"](self.error)
        return cast("Consumer", self)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = partitions
        self.all_assigned += partitions

    def consume(self, count: int, seconds: float) -> list[Record]:
        return self.answers.pop(0) if self.answers else []

    def unassign(self) -> None:
        self.assigned_at_end = []

    def close(self) -> None:
        self.is_closed = True


def record(partition: int, offset: int, value: bytes | None = b"v") -> Record:
    return Record(partition, offset, b"k", value)


def end(partition: int, offset: int) -> Record:
    return Record(partition, offset, None, None, KafkaError._PARTITION_EOF)


def offsets(consumer: FakeConsumer, starts: dict[int, int], ends: dict[int, int]) -> list[tuple[int, int]]:
    with patch.object(kafka_reader, "consumer", consumer.make):
        found = kafka_reader.read_range(Kafka("k:9092"), "t", starts, ends, 0.05)
        return [(cast("int", one.partition()), cast("int", one.offset())) for one in found]


def test_offsets_at_which_a_record_is_delivered() -> None:
    """Those that are near are read at once, and those between are none of them."""
    consumer = FakeConsumer(
        [record(0, 3), record(0, 4), record(1, 8), record(0, 6)],
        [end(0, 10), end(1, 9)],
        [record(0, 90_001), end(0, 90_003)],
    )
    asked = OffsetRanges.of({0: [(3, 4), (6, 7), (9, 10), (90_000, 90_003)], 1: [(7, 9)]})
    with patch.object(kafka_reader, "consumer", consumer.make):
        found = kafka_reader.delivered_among(Kafka("k:9092"), "t", asked)
    assert found == OffsetRanges.of({0: [(3, 4), (6, 7), (90_001, 90_002)], 1: [(8, 9)]})
    assert [(one.partition, one.offset) for one in consumer.all_assigned] == [(0, 3), (1, 7), (0, 90_000)]
    assert not kafka_reader.delivered_among(Kafka("k:9092"), "t", OffsetRanges())


def test_a_tombstone_is_delivered_unless_it_is_expected() -> None:
    asked, expected = OffsetRanges.of({0: [(3, 7)]}), OffsetRanges.of({0: [(3, 5)]})
    found = [record(0, 3, None), record(0, 4), record(0, 5, None), end(0, 7)]
    with patch.object(kafka_reader, "consumer", FakeConsumer(found).make):
        delivered = kafka_reader.delivered_among(Kafka("k:9092"), "t", asked, expected)
    assert delivered == OffsetRanges.of({0: [(4, 6)]})


def test_it_reads_to_the_ends_and_no_further() -> None:
    consumer = FakeConsumer(
        [end(2, 1), record(0, 0), record(0, 2)], [record(0, 3), record(1, 5), record(1, 6)], [record(1, 7)]
    )
    read = offsets(consumer, {0: 0, 1: 5, 2: 0, 3: 4}, {0: 2, 1: 7, 2: 1, 3: 4})
    assert read == [(0, 0), (1, 5), (1, 6)]
    assert len(consumer.answers) == 1
    assert [(one.partition, one.offset) for one in consumer.assigned] == [(0, 0), (1, 5), (2, 0)]
    assert consumer.is_closed
    assert consumer.assigned_at_end == []
    assert offsets(FakeConsumer(), {0: 4}, {0: 4}) == []


def test_an_open_transaction_is_waited_for() -> None:
    open_behind = [record(0, 0), end(0, 1)]
    with raising(Unreachable, "'t'", "partition 0", "offset 1 of 5", "0.05 s", "transaction"):
        offsets(FakeConsumer(open_behind), {0: 0}, {0: 5})
    # Its end is a marker, which is no record.
    assert offsets(FakeConsumer(open_behind, [end(0, 5)]), {0: 0}, {0: 5}) == [(0, 0)]


def test_the_reason_is_named_if_kafka_was_not_read() -> None:
    down = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
    consumer = FakeConsumer(error=down)
    with raising(Unreachable, "1/1 brokers are down"):
        offsets(consumer, {0: 0}, {0: 5})
    assert consumer.is_closed
    with raising(Refused, "topic 't'"):
        denied = Record(0, 0, None, None, KafkaError.TOPIC_AUTHORIZATION_FAILED)
        offsets(FakeConsumer([denied]), {0: 0}, {0: 5})
