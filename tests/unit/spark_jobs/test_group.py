"""The consumer group that shows the stream to lag tools, with a broker that is scripted or not there."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from spark_jobs.common import group as module
from spark_jobs.common.group import RENEW_SECONDS, RETRY_SECONDS, Group


class Broker:
    """Answers as it is told, and keeps what it was asked; the last answer is repeated."""

    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[int, int]]] = []

    def alter_consumer_group_offsets(self, request: list[Any], request_timeout: float) -> dict[str, Any]:
        (wanted,) = request
        self.asked.append((wanted.group_id, {p.partition: p.offset for p in wanted.topic_partitions}))
        code = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        future: Future[Any] = Future()
        if code == KafkaError._TIMED_OUT:
            future.set_exception(KafkaException(KafkaError(code)))
        else:
            done = [Answered(p, code) for p in wanted.topic_partitions]
            future.set_result(Answer(done))
        return {wanted.group_id: future}


class Answer:
    def __init__(self, topic_partitions: list[Any]) -> None:
        self.topic_partitions = topic_partitions


class Answered:
    def __init__(self, asked: TopicPartition, code: int | None) -> None:
        self.partition, self.error = asked.partition, KafkaError(code) if code else None


@pytest.fixture
def clock() -> list[float]:
    return [1000.0]


def made(broker: Any, clock: list[float]) -> Group:
    return Group(broker, "taxi", "trips", lambda: clock[0])


def test_the_ends_are_committed_to_the_streams_group(clock: list[float]) -> None:
    broker = Broker(None)
    assert made(broker, clock).commit({0: 5, 1: 7})
    assert broker.asked == [("sluice-taxi", {0: 5, 1: 7})]


def test_it_is_due_again_after_an_hour_and_a_minute_after_a_failure(clock: list[float]) -> None:
    group = made(Broker(None, KafkaError.GROUP_AUTHORIZATION_FAILED, None), clock)
    assert not group.is_due, "there is nothing to renew yet"
    group.commit({0: 5})
    clock[0] += RENEW_SECONDS - 1
    assert not group.is_due
    clock[0] += 1
    assert group.is_due
    assert not group.renew()
    assert not group.is_due
    clock[0] += RETRY_SECONDS
    assert group.is_due
    assert group.renew()


def test_a_streak_of_failures_is_one_warning(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bad = KafkaError.UNKNOWN_TOPIC_OR_PART
    group = made(Broker(bad, KafkaError._TIMED_OUT, bad, None, None, bad), clock)
    assert [group.commit({0: n}) for n in range(6)] == [False, False, False, True, True, False]
    group.postpone("the table could not be looked at")
    levels = [(record.levelname, "takes the offsets again" in record.message) for record in caplog.records]
    assert levels == [("WARNING", False), ("INFO", True), ("WARNING", False)]
    assert "group sluice-taxi: Kafka did not take the offsets: " in caplog.records[0].message


def test_a_coordinator_on_its_way_is_waited_for(clock: list[float]) -> None:
    broker = Broker(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, None)
    assert made(broker, clock).commit({0: 5})
    assert len(broker.asked) == 3


def test_it_is_not_waited_for_without_end(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMIT_SECONDS", 0.5)
    began = time.monotonic()
    assert not made(Broker(KafkaError.NOT_COORDINATOR), clock).commit({0: 5})
    assert not made(AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}), clock).commit({0: 5})
    assert time.monotonic() - began < 4
    assert ConsumerGroupTopicPartitions("x").group_id == "x"
