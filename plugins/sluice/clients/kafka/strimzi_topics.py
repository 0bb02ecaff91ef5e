"""Topics of a Kafka that Strimzi manages: applied as KafkaTopic resources, which its operator reconciles.

The operator would undo changes that are made to the broker directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.clients.kafka import strimzi
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.broker_topics import TopicDiff, check_not_shrinking, config_diff
from sluice.clients.kafka.strimzi import TopicState, TopicStatus
from sluice.clients.kubernetes.api import REQUEST_SECONDS, KubernetesApi
from sluice.clients.polling import wait_for
from sluice.config.platform_sections.kubernetes import Strimzi
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Refused, Unreachable

if TYPE_CHECKING:
    from sluice.config.sections.topic import Topic

# The operator reconciles a change at once, and all topics every two minutes.
READY_SECONDS = 150.0
POLL_SECONDS = 1.0
_NOT_READY = ErrorCode.TOPIC_NOT_READY
# Wrong login, missing right, missing kind or namespace, field of another manager, invalid value.
_FIXES = {
    401: "correct the kubeconfig's login",
    403: "apply k8s/base/role-kafka-topics.yaml, and bind it to this login",
    404: "install Strimzi's custom resource definitions, and correct the namespace in [strimzi]",
    409: "remove that field from the other manager's manifest, or declare its value in stream.toml",
    400: "correct stream.toml",
    422: "correct stream.toml",
}


class KafkaTopics:
    """Provisions as BrokerTopics does. ``kafka``: reads from the broker what became of a resource.

    Raises Unreachable if the API server does not answer or the operator does not finish in
    ``ready_seconds``, Refused for what a retry does not change, ConfigError for an unreadable kubeconfig.
    """

    def __init__(self, config: Strimzi, kafka: KafkaAdmin, ready_seconds: float = READY_SECONDS) -> None:
        self._config = config
        self._kafka = kafka
        self._ready_seconds = ready_seconds
        from kubernetes.client import CustomObjectsApi

        self._kubernetes = KubernetesApi(config.kubeconfig, "strimzi", _FIXES)
        self._api = CustomObjectsApi(self._kubernetes.client)

    def provision(self, topic: Topic) -> TopicDiff:
        """Apply the topic's resource, wait until it is ready, compare the broker with it. Idempotent.

        Changes nothing if partitions would have to be removed or replicas moved.
        """
        before = self._kafka.find(topic.name)
        if before is not None:
            check_not_shrinking(topic, before)
        had = self._kafka.config(topic.name) if before else {}
        self._check_resource(topic)
        self._await_ready(topic, self._apply(topic))
        # Metadata of new partitions reaches all brokers a moment after the resource is ready.
        after = self._kafka.wait_for_partitions(topic.name, topic.partitions)
        check_not_shrinking(topic, after)
        drift = config_diff(topic.config, self._kafka.config(topic.name))
        if drift:
            found = ", ".join(f"{name} is {has}, not {wants}" for name, (has, wants) in sorted(drift.items()))
            raise Refused(
                f"topic {topic.name!r}: {self._where(topic)} is Ready and the broker differs: {found}. Fix: "
                "see the topic operator's log; a config may be overridden there",
                ErrorCode.TOPIC_MISMATCH,
            )
        grown = before is not None and before.partitions < topic.partitions
        return TopicDiff(
            topic=topic.name,
            created=before is None,
            partitions=(before.partitions, topic.partitions) if before and grown else None,
            config=config_diff(topic.config, had) if before else {},
        )

    def _check_resource(self, topic: Topic) -> None:
        """Raise Refused if the resource has more partitions, or is that of another topic or cluster."""
        found = self._find(topic)
        if found is None:
            return
        spec, labels = found.get("spec") or {}, found["metadata"].get("labels") or {}
        has = (spec.get("topicName") or found["metadata"]["name"], labels.get(strimzi.CLUSTER_LABEL))
        wants = (topic.name, self._config.cluster)
        if has != wants:
            raise Refused(
                f"{self._where(topic)} is topic {has[0]!r} of cluster {has[1]!r}; the stream wants "
                f"{wants[0]!r} of {wants[1]!r}. Fix: correct [strimzi] in the platform file, or "
                "remove that resource",
                ErrorCode.TOPIC_MISMATCH,
            )
        if int(spec.get("partitions") or 0) > topic.partitions:
            raise Refused(
                f"{self._where(topic)} has {spec['partitions']} partitions and the stream wants "
                f"{topic.partitions}; Kafka cannot remove partitions. Fix: set partitions = "
                f"{spec['partitions']} in stream.toml, or name another topic",
                ErrorCode.TOPIC_MISMATCH,
            )

    def _find(self, topic: Topic) -> dict[str, Any] | None:
        arguments = (strimzi.GROUP, strimzi.VERSION, self._config.namespace, strimzi.PLURAL)

        def listed() -> Any:
            # Not by `get`: that does not tell a missing resource from a missing kind.
            selected = f"metadata.name={strimzi.resource_name(topic.name)}"
            return self._api.list_namespaced_custom_object(
                *arguments, field_selector=selected, _request_timeout=REQUEST_SECONDS
            )["items"]

        found = self._kubernetes.ask(self._where(topic), listed)
        return found[0] if found else None

    def _apply(self, topic: Topic) -> dict[str, Any]:
        body = strimzi.kafka_topic(topic, self._config.namespace, self._config.cluster)
        applied = self._kubernetes.apply(
            self._where(topic),
            self._api.patch_namespaced_custom_object,
            group=strimzi.GROUP,
            version=strimzi.VERSION,
            namespace=self._config.namespace,
            plural=strimzi.PLURAL,
            name=body["metadata"]["name"],
            body=body,
        ) or self._find(topic)
        if applied is None:
            raise Refused(f"{self._where(topic)} was deleted meanwhile. Fix: clear this task", _NOT_READY)
        return dict(applied)

    def _await_ready(self, topic: Topic, applied: dict[str, Any]) -> None:
        generation = int(applied["metadata"]["generation"])
        last = TopicStatus(TopicState.WAITING)

        def look() -> TopicStatus:
            nonlocal last
            try:
                found = self._find(topic)
            except ClientError as error:
                # The API server may restart meanwhile, and knows no rights in its first moment.
                last = TopicStatus(TopicState.WAITING, str(error))
                return last
            if found is None or int(found["metadata"]["generation"]) < generation:
                last = TopicStatus(TopicState.FAILED, "it was deleted meanwhile. Fix: clear this task")
            else:
                last = strimzi.topic_status(found)
            return last

        wait_for(look, self._ready_seconds, POLL_SECONDS, lambda status: status.state != TopicState.WAITING)
        if last.state is TopicState.FAILED:
            raise Refused(f"{self._where(topic)}: {last.reason}", _NOT_READY)
        if last.state is TopicState.WAITING:
            raise Unreachable(
                f"{self._where(topic)} is not Ready after {self._ready_seconds:g} s: {last.reason}. Fix: "
                "see the topic operator's log",
                _NOT_READY,
            )

    def _where(self, topic: Topic) -> str:
        return f"{strimzi.KIND} {self._config.namespace}/{strimzi.resource_name(topic.name)}"
