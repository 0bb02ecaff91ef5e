"""KafkaTopic: names that Kubernetes allows, the fields that Sluice owns, and what a status means."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.clients.kafka.strimzi import MANAGED, PAUSED, TopicState, kafka_topic, resource_name, topic_status
from sluice.config import streams
from sluice.config.sections.topic import Topic
from sluice.loads.sending.topic import with_timestamp_bounds

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=249)


@given(TOPICS)
@example(".")
@example("_")
@example("a" * 249)
def test_a_resource_has_a_name_that_kubernetes_allows(topic: str) -> None:
    name = resource_name(topic)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
    assert len(name) <= 63


@given(st.lists(TOPICS, unique=True, min_size=2, max_size=2))
@example(["a_b", "a.b"])
@example(["A-b", "a-b"])
@example(["a" * 100, "a" * 101])
def test_no_two_topics_share_a_resource(topics: list[str]) -> None:
    assert resource_name(topics[0]) != resource_name(topics[1])


def test_a_name_that_is_allowed_is_kept() -> None:
    assert resource_name("nyc-taxi") == "nyc-taxi"
    assert resource_name("sluice_Progress").startswith("sluice-progress-")


def test_only_what_is_declared_is_owned() -> None:
    assert kafka_topic(Topic("t", 3), "sluice", "kafka") == {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaTopic",
        "metadata": {"name": "t", "namespace": "sluice", "labels": {"strimzi.io/cluster": "kafka"}},
        "spec": {"topicName": "t", "partitions": 3},
    }
    spec = kafka_topic(Topic("t", 3, 2, {"retention.ms": "1"}), "sluice", "kafka")["spec"]
    assert (spec["replicas"], spec["config"]) == (2, {"retention.ms": "1"})


def resource(generation: int = 2, observed: int | None = 2, ready: Any = None, **metadata: Any) -> Any:
    conditions = [{"type": "Other", "status": "True"}, *([ready] if ready else [])]
    status = {"conditions": conditions} | ({"observedGeneration": observed} if observed else {})
    return {"metadata": {"generation": generation, **metadata}, "status": status}


TRUE = {"type": "Ready", "status": "True"}


def false(reason: str) -> dict[str, str]:
    return {"type": "Ready", "status": "False", "reason": reason, "message": "why"}


@pytest.mark.parametrize(
    ("found", "state", "says"),
    [
        (resource(ready=TRUE), TopicState.READY, ""),
        (resource(ready=TRUE, observed=1), TopicState.WAITING, "only 1 of 2"),
        (resource(ready=TRUE, observed=None), TopicState.WAITING, "none yet of 2"),
        ({"metadata": {"generation": 1}}, TopicState.WAITING, "none yet of 1"),
        (resource(), TopicState.WAITING, "nothing of its readiness"),
        (resource(ready=false("KafkaError")), TopicState.WAITING, "KafkaError: why"),
        (resource(ready=false("InternalError")), TopicState.WAITING, "InternalError: why"),
        (resource(ready=false("NotSupported")), TopicState.FAILED, "NotSupported: why"),
        (resource(ready=false("ResourceConflict")), TopicState.FAILED, "ResourceConflict: why"),
        (resource(ready=TRUE, annotations={PAUSED: "true"}), TopicState.FAILED, PAUSED),
        (resource(ready=TRUE, annotations={MANAGED: "false"}), TopicState.FAILED, MANAGED),
        (resource(ready=TRUE, annotations={PAUSED: "false"}), TopicState.READY, ""),
        (resource(ready=TRUE, deletionTimestamp="now"), TopicState.FAILED, "being deleted"),
    ],
)
def test_what_a_status_means(found: Any, state: TopicState, says: str) -> None:
    status = topic_status(found)
    assert status.state is state
    assert says in status.reason
    assert bool(status.reason) == (state is not TopicState.READY)


def test_the_example_of_the_docs_is_what_is_applied() -> None:
    text = (Path(__file__).resolve().parents[4] / "docs" / "kubernetes.md").read_text()
    examples = re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)
    (example,) = [one for one in examples if "kind: KafkaTopic" in one]
    declared = streams.load("nyc_taxi").topic
    topic = replace(declared, replication_factor=3, config=declared.config | {"min.insync.replicas": "2"})
    assert declared.partitions == 10
    assert yaml.safe_load(example) == kafka_topic(with_timestamp_bounds(topic), "sluice", "kafka")
