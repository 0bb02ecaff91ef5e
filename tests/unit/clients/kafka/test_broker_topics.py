"""What provisioning refuses and compares."""

from __future__ import annotations

import pytest

from sluice.clients.kafka.admin import TopicDescription
from sluice.clients.kafka.broker_topics import TopicDiff, check_not_shrinking, config_diff
from sluice.config.reading.limits import BROKER_DEFAULT
from sluice.config.sections.topic import Topic
from sluice.core.errors import Refused
from tests.support.raising import raising

TOPIC = Topic("t", partitions=10, replication_factor=1)


@pytest.mark.parametrize("partitions", [1, 10])
def test_growing_and_staying_are_allowed(partitions: int) -> None:
    check_not_shrinking(TOPIC, TopicDescription("id", partitions, 1))


def test_shrinking_is_refused_with_topic_has_wants_and_fix() -> None:
    with raising(Refused, "'t'", "12 partitions", "wants 10", "partitions = 12"):
        check_not_shrinking(TOPIC, TopicDescription("id", 12, 1))


def test_other_copies_are_refused() -> None:
    with raising(Refused, "'t'", "factor 3", "wants 1"):
        check_not_shrinking(TOPIC, TopicDescription("id", 10, 3))


def test_copies_that_are_left_to_the_broker_are_not_compared() -> None:
    check_not_shrinking(Topic("t", 10, BROKER_DEFAULT), TopicDescription("id", 10, 3))


def test_only_declared_configs_are_compared() -> None:
    present = {"retention.ms": "1", "cleanup.policy": "delete", "max.message.bytes": "9"}
    declared = {"retention.ms": "2", "cleanup.policy": "delete", "new": "x"}
    assert config_diff(declared, present) == {"retention.ms": ("1", "2"), "new": (None, "x")}


def test_a_diff_says_what_changed() -> None:
    assert TopicDiff("t").is_empty
    assert TopicDiff("t").message() == "topic 't' is as declared"
    diff = TopicDiff("t", partitions=(3, 10), config={"a": (None, "1")})
    assert diff.message() == "topic 't': partitions 3 -> 10, a None -> 1"
    assert diff.to_json() == {
        "topic": "t",
        "created": False,
        "partitions": [3, 10],
        "config": {"a": [None, "1"]},
    }
