"""Begin and end offsets of a topic, from a consumer that the test makes up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sluice.clients.kafka.consumers import begin_and_end_offsets

MOVING, DENIED = KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.TOPIC_AUTHORIZATION_FAILED


class Broker:
    """Knows one topic of two partitions; fails as it is told, then answers."""

    def __init__(self, *failures: int, error: str | None = None) -> None:
        self._failures = list(failures)
        self._error = error

    def list_topics(self, topic: str, timeout: float) -> Any:
        partitions = {} if self._error else {1: None, 0: None}
        return SimpleNamespace(topics={topic: SimpleNamespace(error=self._error, partitions=partitions)})

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        if self._failures:
            raise KafkaException(KafkaError(self._failures.pop(0)))
        return place.partition, 10


def offsets(broker: Broker, seconds: float = 15) -> dict[int, tuple[int, int]]:
    return begin_and_end_offsets(cast("Consumer", broker), "hits", seconds)


@pytest.mark.parametrize("moving", [MOVING, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH])
def test_a_partition_whose_leader_changes_is_asked_again(moving: int) -> None:
    assert offsets(Broker(moving, moving)) == {0: (0, 10), 1: (1, 10)}


@pytest.mark.parametrize(("failure", "seconds"), [(DENIED, 15), (MOVING, 0)])
def test_other_errors_and_a_leader_that_does_not_come_are_raised(failure: int, seconds: float) -> None:
    with pytest.raises(KafkaException):
        offsets(Broker(failure), seconds)


def test_a_topic_that_does_not_exist() -> None:
    with pytest.raises(LookupError):
        offsets(Broker(error="unknown topic"))
