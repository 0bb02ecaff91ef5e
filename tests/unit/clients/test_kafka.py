"""What provisioning compares, and what it refuses."""

from __future__ import annotations

import pytest

from sluice.clients.errors import Refused
from sluice.clients.kafka import TopicDiff, TopicShape, config_diff, refuse_shrinking
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
