"""A topic's id while connections end: asked for again within its time, and no longer."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from sluice.config.platform_sections.kafka import Kafka
from spark_jobs.common.kafka import offsets
from spark_jobs.common.kafka.offsets import Topic
from tests.support.raising import raising


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    now = [0.0]
    monkeypatch.setattr(offsets, "monotonic", lambda: now[0])
    monkeypatch.setattr(offsets, "sleep", lambda seconds: now.__setitem__(0, now[0] + 10))
    return Topic(Kafka("127.0.0.1:1"), "trips")


def fail(monkeypatch: pytest.MonkeyPatch, code: int, times: int) -> list[float]:
    asked = list[float]()

    def ask(self: Topic, seconds: float) -> str:
        asked.append(seconds)
        if len(asked) <= times:
            raise KafkaException(KafkaError(code))
        return "id"

    monkeypatch.setattr(Topic, "_asked_id", ask)
    return asked


def test_a_connection_that_ended_is_asked_again(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fail(monkeypatch, KafkaError._TRANSPORT, 2)
    assert topic.id() == "id"
    assert asked == [30, 20, 10]


def test_it_is_given_up_at_the_end_of_its_time(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fail(monkeypatch, KafkaError._TRANSPORT, 99)
    with raising(TimeoutError, "no broker returned its id in 30 s", "Fix: "):
        topic.id()
    assert len(asked) == 4


def test_a_refusal_is_said_at_once(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fail(monkeypatch, KafkaError.TOPIC_AUTHORIZATION_FAILED, 1)
    with raising(KafkaException):
        topic.id()
    assert len(asked) == 1
