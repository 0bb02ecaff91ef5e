"""The consumer group that shows the stream to lag tools, with a broker that is scripted or not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sluice.config.platform_sections.kafka import Kafka
from spark_jobs.common.kafka import offsets
from spark_jobs.common.kafka.offsets import RENEW_SECONDS, RETRY_SECONDS, Group, GroupOffsets


class Scripted(Group):
    """Is answered as it is told, and keeps what it asked; the last answer is repeated."""

    def __init__(self, *answers: int | None) -> None:
        super().__init__(Kafka("127.0.0.1:1"), "taxi", "trips")
        self.answers = list(answers)
        self.asked: list[dict[int, int]] = []

    def set(self, offsets: list[TopicPartition], seconds: float) -> KafkaError | None:
        self.asked.append({place.partition: place.offset for place in offsets})
        code = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return KafkaError(code) if code else None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(offsets, "monotonic", lambda: now[0])
    return now


def test_the_ends_are_committed_to_the_streams_group(clock: list[float]) -> None:
    group = Scripted(None)
    assert group.commit({0: 5, 1: 7})
    assert group.asked == [{0: 5, 1: 7}]


def test_it_is_due_again_after_an_hour_and_a_minute_after_a_failure(clock: list[float]) -> None:
    group = Scripted(None, KafkaError.GROUP_AUTHORIZATION_FAILED, None)
    assert not group.is_due, "there is nothing to renew yet"
    group.commit({0: 5})
    clock[0] += RENEW_SECONDS - 1
    assert not group.is_due
    clock[0] += 1
    assert group.is_due
    assert not group.commit({0: 5})
    assert not group.is_due
    clock[0] += RETRY_SECONDS
    assert group.is_due
    assert group.commit({0: 5})


def test_a_streak_of_failures_is_one_warning(clock: list[float], levels: Callable[..., list[str]]) -> None:
    bad = KafkaError.UNKNOWN_TOPIC_OR_PART
    group = Scripted(bad, KafkaError._TIMED_OUT, bad, None, None, bad)
    assert [group.commit({0: n}) for n in range(6)] == [False, False, False, True, True, False]
    group.postpone("the table could not be looked at")
    assert levels("sluice-taxi") == ["WARNING", "INFO", "WARNING"]


@pytest.fixture(scope="module")
def mock() -> Iterator[str]:
    """The address of librdkafka's own broker for tests, with a topic ``trips``."""
    holder = AdminClient({"test.mock.num.brokers": 1, "bootstrap.servers": "none"})
    (broker,) = holder.list_topics(timeout=5).brokers.values()
    servers = f"{broker.host}:{broker.port}"
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("trips", b"")
    assert producer.flush(5) == 0
    yield servers
    assert holder is not None, "the broker lives as long as its client"


def test_the_group_is_the_streams(mock: str) -> None:
    assert Group(Kafka(mock), "taxi", "trips").commit({0: 5, 1: 7})
    reader = Consumer({"bootstrap.servers": mock, "group.id": "sluice-taxi"})
    found = reader.committed([TopicPartition("trips", partition) for partition in (0, 1)], timeout=5)
    assert {place.partition: place.offset for place in found} == {0: 5, 1: 7}
    reader.close()


def test_a_missing_answer_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "GIVE_UP_MS", 100)
    group = GroupOffsets(Kafka("127.0.0.1:1"), "g")
    places = [TopicPartition("trips", 0, 1)]
    refused = [group.set(places, seconds) for seconds in (0.05, 0.05, 60)]
    assert [error.code() for error in refused if error] == [
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
    ]
