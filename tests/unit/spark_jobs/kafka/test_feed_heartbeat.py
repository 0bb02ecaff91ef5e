"""Signs of life in a consumer group, with a broker that is scripted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from sluice.config.platform_sections.kafka import Kafka
from sluice.core.processes.heartbeat import MAX_DETAIL
from spark_jobs.common.kafka import heartbeat
from spark_jobs.common.kafka.heartbeat import HeartbeatSender
from tests.support.raising import raising


class Scripted(HeartbeatSender):
    """Is answered as it is told; the last answer is repeated."""

    def __init__(self, *answers: int | None) -> None:
        super().__init__(Kafka("127.0.0.1:1"), "wiki", "producer", "t")
        self.answers = list(answers)
        self.offsets: dict[int, int] = {}
        self.texts: dict[int, str] = {}

    def set(self, offsets: list[TopicPartition], seconds: float) -> KafkaError | None:
        self.offsets = {place.partition: place.offset for place in offsets}
        self.texts = {place.partition: place.metadata or "" for place in offsets}
        assert {place.topic for place in offsets} == {"t"}
        code = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return KafkaError(code) if code else None

    @property
    def told(self) -> dict[str, Any]:
        return dict(json.loads(self.texts[min(self.texts)]))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [1000.5]
    monkeypatch.setattr(heartbeat, "time", lambda: clock[0])
    return clock


def test_the_lowest_partition_carries_the_heartbeat(now: list[float]) -> None:
    heart = Scripted(None)
    assert heart.send({2: 7, 1: 5}, "streaming", "7 sent")
    assert heart.group == "sluice-wiki-producer"
    assert heart.offsets == {1: 5, 2: 7}
    assert heart.texts[2] == ""
    assert heart.told == {
        "at": 1_000_500,
        "pid": os.getpid(),
        "state": "streaming",
        "since": 1_000_500,
        "detail": "7 sent",
    }


def test_a_state_has_begun_with_the_first_heartbeat_that_told_it(now: list[float]) -> None:
    sender = Scripted(None)
    since = []
    for state in ("idle", "idle", "working", "idle"):
        sender.send({0: 1}, state)
        since.append(sender.told["since"] // 1000)
        now[0] += 5
    assert since == [1000, 1000, 1010, 1015]
    sender.send({0: 1}, "idle", since=900)
    assert sender.told["since"] == 900_000


def test_the_worst_detail_fits_into_what_a_broker_takes(now: list[float]) -> None:
    now[0] = 1e10
    sender = Scripted(None)
    sender.send({0: 2**62}, "connecting", "\U0001f600" * 10_000)
    assert len(sender.told["detail"]) == MAX_DETAIL
    assert len(sender.texts[0].encode()) < 4096


def test_a_state_that_is_none_is_refused() -> None:
    with raising(ValueError, "sleeping"):
        Scripted(None).send({0: 1}, "sleeping")


def test_a_streak_of_failures_is_one_warning(levels: Callable[..., list[str]]) -> None:
    bad = KafkaError.GROUP_AUTHORIZATION_FAILED
    sender = Scripted(bad, bad, None, None, bad)
    assert [sender.send({0: 1}, "idle") for _ in range(5)] == [False, False, True, True, False]
    assert levels("sluice-wiki-producer") == ["WARNING", "INFO", "WARNING"]
