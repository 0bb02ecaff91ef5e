"""What provisioning compares and refuses, and what a topic is asked."""

from __future__ import annotations

import json
import os
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from sluice.clients.kafka import admin as kafka_admin
from sluice.clients.kafka.admin import KafkaAdmin, TopicDescription
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.errors import ClientError, Missing, Refused, Unreachable
from sluice.core.processes.heartbeat import Heartbeat, HeartbeatState
from spark_jobs.common.kafka.heartbeat import HeartbeatSender
from spark_jobs.common.kafka.offsets import GroupOffsets
from tests.support.raising import raising


class Broker:
    """confluent-kafka's AdminClient over one topic ``t``: partition -> timestamps of its records."""

    def __init__(self, records: dict[int, list[int]], config: dict[str, str] | None = None) -> None:
        self.records = records
        self.config = config or {}
        self.requested: list[str] = []
        self.error: int | None = None
        # Requests for offsets during which the partitions have no leader.
        self.leaderless = 0
        # Partition -> the first offset of an open transaction.
        self.transactions: dict[int, int] = {}

    def poll(self, _: float) -> None:
        pass

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        self.requested.append("describe_topics")
        (name,) = topics.topic_names
        partitions = [SimpleNamespace(replicas=[1])] * len(self.records)
        return {name: self._answer(SimpleNamespace(topic_id="abc+/", partitions=partitions))}

    def list_offsets(
        self, request: dict[Any, Any], isolation_level: IsolationLevel, request_timeout: float
    ) -> dict[Any, Future[Any]]:
        self.requested.append("list_offsets")
        is_committed = isolation_level is IsolationLevel.READ_COMMITTED
        held = self.transactions if is_committed else {}
        error, self.error = self.error, KafkaError.NOT_LEADER_FOR_PARTITION if self.leaderless else self.error
        offsets = {
            place: held.get(place.partition, self._offset(place.partition, spec._value))
            for place, spec in request.items()
        }
        answers = {
            place: self._answer(SimpleNamespace(offset=offset, timestamp=self._time(place.partition, offset)))
            for place, offset in offsets.items()
        }
        self.error, self.leaderless = error, max(self.leaderless - 1, 0)
        return answers

    def _offset(self, partition: int, moment: int) -> int:
        times = self.records[partition]
        if moment < 0:
            return {-1: len(times), -2: 0}[moment]
        return next((offset for offset, at in enumerate(times) if at >= moment), -1)

    def _time(self, partition: int, offset: int) -> int:
        times = self.records[partition]
        return times[offset] if 0 <= offset < len(times) else -1

    def describe_configs(self, resources: list[Any], request_timeout: float) -> dict[Any, Future[Any]]:
        entries = {name: SimpleNamespace(value=value) for name, value in self.config.items()}
        return {resources[0]: self._answer(entries)}

    def _answer(self, value: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.error is None:
            future.set_result(value)
        else:
            future.set_exception(KafkaException(KafkaError(self.error)))
        return future


def admin(broker: Broker, timeout: float = 5.0) -> KafkaAdmin:
    with patch.object(kafka_admin, "AdminClient", lambda _: broker):
        made = KafkaAdmin(Kafka("k:9092"), timeout)
        # The client is made when it is first asked.
        assert made.admin is broker
        return made


def test_a_topic_is_identified_in_one_request() -> None:
    broker = Broker({0: [], 1: []})
    assert admin(broker).describe("t") == TopicDescription("abc+/", 2, 1)
    assert admin(broker).describe("t").id == "abc+/"
    assert broker.requested == ["describe_topics"] * 2


def test_a_topic_that_is_not_there_is_missing_and_another_error_is_not() -> None:
    broker = Broker({})
    broker.error = KafkaError.UNKNOWN_TOPIC_OR_PART
    with raising(Missing, "topic 't'", "k:9092", "provision_topic"):
        admin(broker).describe("t")
    broker.error = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with raising(Refused, "topic 't'", "[kafka]"):
        admin(broker).describe("t")
    broker.error = KafkaError._TRANSPORT
    with raising(Unreachable, "topic 't'"):
        admin(broker).describe("t")


def test_begins_and_ends_ask_for_the_partitions_unless_they_are_given() -> None:
    broker = Broker({0: [1, 2], 1: []})
    assert admin(broker).ends("t") == {0: 2, 1: 0}
    assert admin(broker).begins("t") == {0: 0, 1: 0}
    assert broker.requested == ["describe_topics", "list_offsets"] * 2
    broker.requested.clear()
    assert admin(broker).ends("t", 1) == {0: 2}
    assert admin(broker).begins("t", 2) == {0: 0, 1: 0}
    assert broker.requested == ["list_offsets"] * 2


def test_the_end_of_what_may_be_read_is_before_an_open_transaction() -> None:
    broker = Broker({0: [1, 2], 1: [1]})
    broker.transactions = {0: 1}
    assert admin(broker).last_stable("t") == {0: 1, 1: 1}
    assert admin(broker).ends("t") == {0: 2, 1: 1}


def test_offsets_of_a_topic_that_was_created_just_now_wait_for_its_leaders() -> None:
    broker = Broker({0: [1, 2]})
    broker.leaderless = 2
    assert admin(broker).ends("t", 1) == {0: 2}
    assert broker.requested == ["list_offsets"] * 3
    broker.leaderless = 100
    with raising(Unreachable, "offsets of topic 't'", "Not leader"):
        admin(broker, timeout=0.5).ends("t", 1)


def test_an_offset_that_is_none_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a broker that was killed leaves it: without an error."""
    broker = Broker({0: [1, 2]})
    offsets = iter([OFFSET_INVALID, OFFSET_INVALID])
    usual = broker._offset
    monkeypatch.setattr(broker, "_offset", lambda *asked: next(offsets, None) or usual(*asked))
    assert admin(broker).ends("t", 1) == {0: 2}
    assert broker.requested == ["list_offsets"] * 3
    monkeypatch.setattr(broker, "_offset", lambda *_: OFFSET_INVALID)
    for ask in (
        lambda: admin(broker, timeout=0.5).begins("t", 1),
        lambda: admin(broker, timeout=0.5).first_records("t", 1, [0]),
    ):
        with raising(Unreachable, "offsets of topic 't'"):
            ask()


def test_the_first_record_from_a_moment_on_or_the_end() -> None:
    broker = Broker({0: [10, 20, 30], 1: [10], 2: []})
    ends = {0: 3, 1: 1, 2: 0}
    assert admin(broker).first_after("t", 20, ends) == {0: 1, 1: 1, 2: 0}
    assert admin(broker).first_after("t", 31, ends) == {0: 3, 1: 1, 2: 0}
    # A retention longer than the time since 1970: not the protocol's -1 and -2.
    assert admin(broker).first_after("t", -1, ends) == {0: 0, 1: 0, 2: 0}
    assert broker.requested == ["list_offsets"] * 3
    assert admin(broker).first_records("t", 15, [0, 1]) == {0: (1, 20)}


@pytest.mark.parametrize(
    ("config", "milliseconds"),
    [
        ({"retention.ms": "604800000", "cleanup.policy": "delete"}, 604_800_000),
        ({"retention.ms": "60000", "cleanup.policy": "compact,delete"}, 60_000),
        ({"retention.ms": "60000", "cleanup.policy": "compact"}, None),
        ({"retention.ms": "-1", "cleanup.policy": "delete"}, None),
        ({"retention.ms": "0"}, 0),
        ({}, None),
    ],
)
def test_retention(config: dict[str, str], milliseconds: int | None) -> None:
    assert admin(Broker({0: []}, config)).retention_ms("t") == milliseconds


# Heartbeats, over librdkafka's own broker in this process: what a part tells is what supervision reads.


class Told:
    """A broker with topic ``t`` of some partitions, what tells it, and who reads it."""

    def __init__(self) -> None:
        # Kept: the broker lives in it.
        self.mock = AdminClient({"test.mock.num.brokers": 1, "bootstrap.servers": "none"})
        (broker,) = self.mock.list_topics(timeout=5).brokers.values()
        self.servers = servers = f"{broker.host}:{broker.port}"
        # The first record makes the topic.
        producer = Producer({"bootstrap.servers": servers})
        producer.produce("t", b"")
        assert producer.flush(5) == 0
        self.reader = KafkaAdmin(Kafka(servers), timeout=5)
        # librdkafka's own broker does not describe topics.
        self.reader.__dict__["find"] = {"t": TopicDescription("id", 4)}.get

    def metadata(self, text: str, partition: int = 0) -> None:
        places = [TopicPartition("t", partition, 3, metadata=text)]
        assert GroupOffsets(Kafka(self.servers), "sluice-s-producer").set(places, 5) is None


@pytest.fixture(scope="module")
def told() -> Told:
    return Told()


def test_a_heartbeat_is_read_as_it_was_given(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.common.kafka.heartbeat.time", lambda: 1_700_000_000.25)
    assert told.reader.heartbeat("s", "producer", "t") is None
    heart = HeartbeatSender(Kafka(told.servers), "s", "producer", "t")
    assert heart.send({0: 5, 2: 7}, "streaming", "zażółć \n gęślą", since=1_699_999_999.0)
    found = told.reader.heartbeat("s", "producer", "t")
    expected = Heartbeat(
        1_700_000_000.25,
        os.getpid(),
        HeartbeatState.STREAMING,
        1_699_999_999.0,
        "zażółć   gęślą",
        {0: 5, 2: 7},
    )
    assert found == expected
    assert heart.send({0: 6, 2: 7}, "waiting")
    later = told.reader.heartbeat("s", "producer", "t")
    assert later is not None
    assert (later.state, later.ends) == (HeartbeatState.WAITING, {0: 6, 2: 7})
    assert told.reader.heartbeat("s", "queries", "t") is None, "another part's group"


@pytest.mark.parametrize("text", ["", "moved by hand", json.dumps({"at": 1})])
def test_offsets_that_a_person_set_are_no_heartbeat(told: Told, text: str) -> None:
    told.metadata(text)
    with raising(Unreachable, "heartbeat", "'sluice-s-producer'"):
        told.reader.heartbeat("s", "producer", "t")


def test_a_topic_that_is_not_there_has_no_heartbeat(told: Told) -> None:
    with raising(Missing, "topic 'u'"):
        told.reader.heartbeat("s", "producer", "u")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, Refused),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Refused),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, Unreachable),
    ],
)
@pytest.mark.parametrize("of", ["the group", "a partition"])
def test_what_the_broker_will_not_show_is_no_missing_heartbeat(
    code: int, kind: type[ClientError], of: str
) -> None:
    class Refusing:
        closed = False

        def committed(self, wanted: list[TopicPartition], timeout: float) -> list[Any]:
            if of == "the group":
                raise KafkaException(KafkaError(code))
            return [
                SimpleNamespace(partition=0, offset=5, metadata="{}", error=None),
                SimpleNamespace(partition=1, offset=-1001, metadata=None, error=KafkaError(code)),
            ]

        def close(self) -> None:
            self.closed = True

    consumer = Refusing()
    with (
        patch.object(kafka_admin, "consumer", lambda *_: consumer),
        raising(kind, "heartbeat", "'sluice-s-producer'"),
    ):
        admin(Broker({0: [], 1: []})).heartbeat("s", "producer", "t")
    assert consumer.closed
