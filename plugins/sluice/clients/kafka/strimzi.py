"""Strimzi's KafkaTopic: the resource of a topic, and what its status says.

API ``kafka.strimzi.io/v1`` of Strimzi 1.2; reasons: ``TopicOperatorException`` of its topic operator.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sluice.config.reading.limits import BROKER_DEFAULT
from sluice.config.sections.topic import Topic

GROUP, VERSION, PLURAL, KIND = "kafka.strimzi.io", "v1", "kafkatopics", "KafkaTopic"
CLUSTER_LABEL = "strimzi.io/cluster"
MANAGED = "strimzi.io/managed"
PAUSED = "strimzi.io/pause-reconciliation"
# A further reconciliation ends the same. The others, KafkaError and InternalError, may be gone in the next.
FINAL_REASONS = frozenset({"ResourceConflict", "NotSupported"})
# A label's value and a DNS label have at most 63 characters; resources are often used as both.
MAX_NAME = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def resource_name(topic: str) -> str:
    """The topic's own name if Kubernetes allows it, else one with a hash: no two topics share a resource."""
    if _NAME.fullmatch(topic) and len(topic) <= MAX_NAME:
        return topic
    digest = hashlib.sha256(topic.encode()).hexdigest()[:8]
    readable = re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-")[: MAX_NAME - len(digest) - 1].strip("-")
    return f"{readable}-{digest}" if readable else f"topic-{digest}"


def kafka_topic(topic: Topic, namespace: str, cluster: str) -> dict[str, Any]:
    """The resource as it is applied: the fields that Sluice owns, and no other.

    ``cluster``: name of the Kafka resource. Without ``replicas`` the broker's default counts.
    """
    spec: dict[str, Any] = {"topicName": topic.name, "partitions": topic.partitions}
    if topic.replication_factor != BROKER_DEFAULT:
        spec["replicas"] = topic.replication_factor
    if topic.config:
        spec["config"] = dict(topic.config)
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {
            "name": resource_name(topic.name),
            "namespace": namespace,
            "labels": {CLUSTER_LABEL: cluster},
        },
        "spec": spec,
    }


class TopicState(StrEnum):
    READY = "ready"
    # The operator has not seen this generation, or failed and tries again.
    WAITING = "waiting"
    # Waiting does not help.
    FAILED = "failed"


@dataclass(frozen=True)
class TopicStatus:
    """``reason``: one line, for a person; empty when ready."""

    state: TopicState
    reason: str = ""


def topic_status(resource: Mapping[str, Any]) -> TopicStatus:
    """What the operator says of the resource's newest generation."""
    metadata, status = resource["metadata"], resource.get("status") or {}
    annotations = metadata.get("annotations") or {}
    if metadata.get("deletionTimestamp"):
        return TopicStatus(TopicState.FAILED, "it is being deleted. Fix: clear this task when it is gone")
    if annotations.get(MANAGED) == "false":
        fix = f"remove the annotation {MANAGED}"
        return TopicStatus(TopicState.FAILED, f"the operator does not manage it. Fix: {fix}")
    if annotations.get(PAUSED) == "true":
        fix = f"remove the annotation {PAUSED}"
        return TopicStatus(TopicState.FAILED, f"its reconciliation is paused. Fix: {fix}")
    generation, observed = int(metadata.get("generation", 0)), int(status.get("observedGeneration") or 0)
    if observed < generation:
        seen = f"only {observed}" if observed else "none yet"
        return TopicStatus(TopicState.WAITING, f"the operator has seen {seen} of {generation} generations")
    ready = next((one for one in status.get("conditions") or () if one.get("type") == "Ready"), None)
    if ready is None:
        return TopicStatus(TopicState.WAITING, "the operator says nothing of its readiness")
    if ready.get("status") == "True":
        return TopicStatus(TopicState.READY)
    reason, message = ready.get("reason") or "no reason", ready.get("message") or "no message"
    state = TopicState.FAILED if reason in FINAL_REASONS else TopicState.WAITING
    return TopicStatus(state, f"the operator says {reason}: {message}")
