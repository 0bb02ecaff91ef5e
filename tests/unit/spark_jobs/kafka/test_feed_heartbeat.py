"""Signs of life in a consumer group, with a broker that is scripted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from sluice.model.health.heartbeat import MAX_DETAIL
from sluice.model.spec.platform import Kafka
from spark_jobs.common.kafka import heartbeat
from spark_jobs.common.kafka.heartbeat import HeartbeatSender
from spark_jobs.common.kafka.offsets import GroupOffsets
from tests.support.raising import raising


class Broker(GroupOffsets):
    """Answers as it is told; the last answer is repeated."""

    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)
        self.offsets: dict[int, int] = {}
        self.texts: dict[int, str] = {}

    def set(self, offsets: list[TopicPartition], seconds: float) -> KafkaError | None:
        places = offsets
        self.offsets = {place.partition: place.offset for place in places}
        self.texts = {place.partition: place.metadata or "" for place in places}
        assert {place.topic for place in places} == {"t"}
        code = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return KafkaError(code) if code else None

    @property
    def told(self) -> dict[str, Any]:
        return dict(json.loads(self.texts[min(self.texts)]))


Made = Callable[[Broker, list[float]], HeartbeatSender]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    def sender(broker: Broker, now: list[float]) -> HeartbeatSender:
        monkeypatch.setattr(heartbeat, "time", lambda: now[0])
        monkeypatch.setattr(heartbeat, "GroupOffsets", lambda kafka, group: broker)
        return HeartbeatSender(Kafka("127.0.0.1:1"), "wiki", "producer", "t")

    return sender


def test_the_lowest_partition_carries_the_heartbeat(made: Made) -> None:
    broker = Broker(None)
    heart = made(broker, [1000.5])
    assert heart.send({2: 7, 1: 5}, "streaming", "7 sent")
    assert heart.group == "sluice-wiki-producer"
    assert broker.offsets == {1: 5, 2: 7}
    assert broker.texts[2] == ""
    assert broker.told == {
        "at": 1_000_500,
        "pid": os.getpid(),
        "state": "streaming",
        "since": 1_000_500,
        "detail": "7 sent",
    }


def test_a_state_has_begun_with_the_first_beat_that_told_it(made: Made) -> None:
    now = [1000.0]
    broker = Broker(None)
    sender = made(broker, now)
    since = []
    for state in ("idle", "idle", "working", "idle"):
        sender.send({0: 1}, state)
        since.append(broker.told["since"] // 1000)
        now[0] += 5
    assert since == [1000, 1000, 1010, 1015]
    sender.send({0: 1}, "idle", since=900)
    assert broker.told["since"] == 900_000


def test_the_worst_detail_fits_into_what_a_broker_takes(made: Made) -> None:
    broker = Broker(None)
    made(broker, [1e10]).send({0: 2**62}, "connecting", "\U0001f600" * 10_000)
    assert len(broker.told["detail"]) == MAX_DETAIL
    assert len(broker.texts[0].encode()) < 4096


def test_a_state_that_is_none_is_refused(made: Made) -> None:
    with raising(ValueError, "sleeping"):
        made(Broker(None), [0]).send({0: 1}, "sleeping")


def test_a_streak_of_failures_is_one_warning(levels: Callable[..., list[str]], made: Made) -> None:
    bad = KafkaError.GROUP_AUTHORIZATION_FAILED
    sender = made(Broker(bad, bad, None, None, bad), [0])
    assert [sender.send({0: 1}, "idle") for _ in range(5)] == [False, False, True, True, False]
    assert levels("sluice-wiki-producer") == ["WARNING", "INFO", "WARNING"]
