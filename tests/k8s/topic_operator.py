"""A stand-in for Strimzi's topic operator, which cannot be had here: what it does to Kafka and says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubernetes import client
from urllib3.exceptions import HTTPError

from sluice.clients.kafka import strimzi
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.broker_topics import BrokerTopics
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.reading.limits import BROKER_DEFAULT
from sluice.config.sections.topic import Topic
from tests.k8s.background import Background

READY = {"type": "Ready", "status": "True"}


def not_ready(reason: str, message: str) -> dict[str, str]:
    return {"type": "Ready", "status": "False", "reason": reason, "message": message}


class TopicOperator(Background):
    """Reconciles the topics of a namespace while the `with` block runs, through its own client.

    ``decide``: gives a condition to report instead of reconciling, or None.
    """

    def __init__(self, api: Any, namespace: str, kafka: Kafka) -> None:
        super().__init__()
        self.decide: Callable[[dict[str, Any]], dict[str, str] | None] = lambda resource: None
        self.config: dict[str, str] = {}
        self._custom = client.CustomObjectsApi(api)
        self._where = (strimzi.GROUP, strimzi.VERSION, namespace, strimzi.PLURAL)
        self._admin = KafkaAdmin(kafka)

    def act(self) -> None:
        try:
            found = self._custom.list_namespaced_custom_object(*self._where, _request_timeout=5)
        except (HTTPError, client.ApiException):
            return  # the API server restarts
        for resource in found["items"]:
            self._reconcile(resource)

    def _reconcile(self, resource: dict[str, Any]) -> None:
        metadata, spec = resource["metadata"], resource["spec"]
        condition = self.decide(resource)
        status = resource.get("status") or {}
        ready = status.get("observedGeneration") == metadata["generation"] and READY in status["conditions"]
        if ready and condition is None:
            return
        if condition is None:
            replicas = spec.get("replicas", BROKER_DEFAULT)
            config = spec.get("config", {}) | self.config
            BrokerTopics(self._admin).provision(
                Topic(spec["topicName"], spec["partitions"], replicas, config)
            )
            condition = READY
        status = {"observedGeneration": metadata["generation"], "conditions": [condition]}
        body = {"status": status}
        try:
            self._custom.patch_namespaced_custom_object_status(*self._where, metadata["name"], body)
        except HTTPError:
            pass  # the API server restarts; the next round reports it
        except client.ApiException as error:
            if error.status != 404:  # a test has deleted it meanwhile
                raise
