"""What provisioning compares and refuses, and what a topic is asked."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from sluice.clients.errors import Missing, Refused, Unreachable
from sluice.clients.kafka import (
    KafkaAdmin,
    TopicDiff,
    TopicIdentity,
    TopicShape,
    config_diff,
    refuse_shrinking,
)
from sluice.model.stream import Topic

TOPIC = Topic("t", partitions=10, replication_factor=1)


@pytest.mark.parametrize("partitions", [1, 10])
def test_growing_and_staying_are_allowed(partitions: int) -> None:
    refuse_shrinking(TOPIC, TopicShape(partitions, 1))


def test_shrinking_is_refused_with_topic_has_wants_and_mend() -> None:
    with pytest.raises(Refused, match=r"'t' has 12 partitions .* wants 10: .* set partitions = 12"):
        refuse_shrinking(TOPIC, TopicShape(12, 1))


def test_other_copies_are_refused() -> None:
    with pytest.raises(Refused, match=r"'t' has replication factor 3 .* wants 1"):
        refuse_shrinking(TOPIC, TopicShape(10, 3))


def test_only_declared_configs_are_compared() -> None:
    present = {"retention.ms": "1", "cleanup.policy": "delete", "max.message.bytes": "9"}
    declared = {"retention.ms": "2", "cleanup.policy": "delete", "new": "x"}
    assert config_diff(declared, present) == {"retention.ms": ("1", "2"), "new": (None, "x")}


def test_a_diff_says_what_changed() -> None:
    assert TopicDiff("t").is_empty
    assert TopicDiff("t").sentence() == "topic 't' is as declared"
    diff = TopicDiff("t", partitions=(3, 10), config={"a": (None, "1")})
    assert diff.sentence() == "topic 't': partitions 3 -> 10, a None -> 1"
    assert diff.as_dict() == {
        "topic": "t",
        "created": False,
        "partitions": [3, 10],
        "config": {"a": [None, "1"]},
    }


class Broker:
    """confluent-kafka's AdminClient over one topic ``t``: partition -> timestamps of its records."""

    def __init__(self, records: dict[int, list[int]], config: dict[str, str] | None = None) -> None:
        self.records = records
        self.config = config or {}
        self.asked: list[str] = []
        self.error: int | None = None

    def poll(self, _: float) -> None:
        pass

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        self.asked.append("describe_topics")
        (name,) = topics.topic_names
        return {name: self._answer(SimpleNamespace(topic_id="abc+/", partitions=[None] * len(self.records)))}

    def list_topics(self, timeout: float) -> Any:
        self.asked.append("list_topics")
        partitions = {p: SimpleNamespace(replicas=[1]) for p in self.records}
        return SimpleNamespace(topics={"t": SimpleNamespace(error=None, partitions=partitions)})

    def list_offsets(self, request: dict[Any, Any], request_timeout: float) -> dict[Any, Future[Any]]:
        self.asked.append("list_offsets")
        return {
            place: self._answer(SimpleNamespace(offset=self._offset(place.partition, spec._value)))
            for place, spec in request.items()
        }

    def _offset(self, partition: int, moment: int) -> int:
        times = self.records[partition]
        if moment < 0:
            return {-1: len(times), -2: 0}[moment]
        return next((offset for offset, at in enumerate(times) if at >= moment), -1)

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


def admin(broker: Broker) -> KafkaAdmin:
    made = KafkaAdmin.__new__(KafkaAdmin)
    made.servers, made.timeout, made._login_error = "k:9092", 5.0, None
    made.admin = broker  # type: ignore[assignment]
    return made


def test_a_topic_is_identified_in_one_request() -> None:
    broker = Broker({0: [], 1: []})
    assert admin(broker).identify("t") == TopicIdentity("abc+/", 2)
    assert admin(broker).identify("t").topic_id == "abc+/"
    assert broker.asked == ["describe_topics"] * 2


def test_a_topic_that_is_not_there_is_missing_and_another_error_is_not() -> None:
    broker = Broker({})
    broker.error = KafkaError.UNKNOWN_TOPIC_OR_PART
    with pytest.raises(Missing, match="topic 't' does not exist on k:9092; run the load's provision_topic"):
        admin(broker).identify("t")
    broker.error = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(Refused, match=r"topic 't': .*check \[kafka\]"):
        admin(broker).identify("t")
    broker.error = KafkaError._TRANSPORT
    with pytest.raises(Unreachable, match="topic 't'"):
        admin(broker).identify("t")


def test_begins_and_ends_ask_for_the_partitions_unless_they_are_given() -> None:
    broker = Broker({0: [1, 2], 1: []})
    assert admin(broker).ends("t") == {0: 2, 1: 0}
    assert admin(broker).begins("t") == {0: 0, 1: 0}
    assert broker.asked == ["list_topics", "list_offsets"] * 2
    broker.asked.clear()
    assert admin(broker).ends("t", 1) == {0: 2}
    assert admin(broker).begins("t", 2) == {0: 0, 1: 0}
    assert broker.asked == ["list_offsets"] * 2


def test_the_first_record_from_a_moment_on_or_the_end() -> None:
    broker = Broker({0: [10, 20, 30], 1: [10], 2: []})
    ends = {0: 3, 1: 1, 2: 0}
    assert admin(broker).first_after("t", 20, ends) == {0: 1, 1: 1, 2: 0}
    assert admin(broker).first_after("t", 31, ends) == {0: 3, 1: 1, 2: 0}
    # A retention longer than the time since 1970: not the protocol's -1 and -2.
    assert admin(broker).first_after("t", -1, ends) == {0: 0, 1: 0, 2: 0}
    assert broker.asked == ["list_offsets"] * 3


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
