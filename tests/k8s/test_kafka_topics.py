"""Topics are provisioned as KafkaTopics: against a real API server and a real broker, with the rights of
k8s/base and a stand-in for the operator."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from local.services import kafka as brokers
from sluice.clients.kafka import strimzi
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.strimzi_topics import KafkaTopics
from sluice.clients.kubernetes.api import FIELD_MANAGER
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.platform_sections.kubernetes import Strimzi
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.topic import Topic
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from tests.k8s.control_plane import ControlPlane
from tests.k8s.topic_operator import TopicOperator, not_ready
from tests.k8s.world import NAMESPACE
from tests.support.raising import raising
from tests.support.services import Services

ACCOUNT = "sluice-task"
CLUSTER = "kafka"
WHERE = (strimzi.GROUP, strimzi.VERSION, NAMESPACE, strimzi.PLURAL)


class World:
    """The client as the service account of k8s/base, the operator, and an administrator who looks."""

    def __init__(self, plane: ControlPlane, services: Services, folder: Path) -> None:
        self.plane = plane
        self.admin = client.CustomObjectsApi(plane.api())
        root = services.kafka
        airflow = services.stack.platform("airflow").kafka
        superuser = replace(airflow, username=root["sasl.username"], password=root["sasl.password"])
        self.kafka = KafkaAdmin(superuser)
        self.operator = TopicOperator(plane.api(), NAMESPACE, superuser)
        self._services, self._airflow, self._folder = services, airflow, folder

    def topics(
        self, seconds: float = 30.0, account: str = ACCOUNT, namespace: str = NAMESPACE
    ) -> KafkaTopics:
        config = Strimzi(namespace, CLUSTER, self.plane.login(account, NAMESPACE, self._folder))
        return KafkaTopics(config, KafkaAdmin(self._airflow), ready_seconds=seconds)

    def topic(self, name: str, partitions: int = 2, **config: str) -> Topic:
        """With the rights of the roles on it."""
        brokers.provision(self._services.stack.context, [name])
        return Topic(name, partitions, 1, {key.replace("_", "."): value for key, value in config.items()})

    def resource(self, topic: str) -> dict[str, Any]:
        return dict(self.admin.get_namespaced_custom_object(*WHERE, strimzi.resource_name(topic)))

    def change(self, topic: str, body: dict[str, Any]) -> None:
        name = strimzi.resource_name(topic)
        self.admin.patch_namespaced_custom_object(*WHERE, name, body, field_manager="a-person")


@pytest.fixture
def world(control_plane: ControlPlane, services: Services, tmp_path: Path) -> Iterator[World]:
    world = World(control_plane, services, tmp_path)
    with world.operator:
        yield world
    for resource in world.admin.list_namespaced_custom_object(*WHERE)["items"]:
        world.admin.delete_namespaced_custom_object(*WHERE, resource["metadata"]["name"])


def test_a_topic_is_created_stays_grows_and_gets_another_config(world: World) -> None:
    topic, topics = world.topic("created_Topic", retention_ms="86400000"), world.topics()
    assert topics.provision(topic).created
    assert world.kafka.describe(topic.name).partitions == 2
    before = world.resource(topic.name)
    assert before["spec"] == {
        "topicName": topic.name,
        "partitions": 2,
        "replicas": 1,
        "config": {"retention.ms": "86400000"},
    }
    assert before["metadata"]["labels"] == {strimzi.CLUSTER_LABEL: CLUSTER}
    assert {one["manager"] for one in before["metadata"]["managedFields"] if "subresource" not in one} == {
        FIELD_MANAGER
    }
    assert topics.provision(topic).is_empty
    assert world.resource(topic.name)["metadata"]["generation"] == before["metadata"]["generation"]
    more = replace(topic, partitions=3, config={"retention.ms": "86400001"})
    diff = topics.provision(more)
    assert (diff.partitions, diff.config) == ((2, 3), {"retention.ms": ("86400000", "86400001")})
    assert world.kafka.describe(topic.name).partitions == 3


def test_a_topic_does_not_shrink_neither_in_kafka_nor_as_a_resource(world: World) -> None:
    topic, topics = world.topic("shrinking", 4), world.topics()
    topics.provision(topic)
    fewer = replace(topic, partitions=3)
    with raising(Refused, "4 partitions", "wants 3"):
        topics.provision(fewer)
    # The operator has not made it yet.
    waiting = world.topic("not-there-yet", 4)
    world.operator.decide = lambda resource: not_ready("KafkaError", "no controller")
    with raising(Unreachable, "not-there-yet"):
        world.topics(seconds=1).provision(waiting)
    with raising(Refused, "KafkaTopic sluice/not-there-yet", "4 partitions", "partitions = 4"):
        topics.provision(replace(waiting, partitions=3))
    assert world.resource(waiting.name)["spec"]["partitions"] == 4


def test_what_the_operator_says_is_said_at_once_if_it_is_final(world: World) -> None:
    message = "Managed by Topic{name='other'}"
    world.operator.decide = lambda resource: not_ready("ResourceConflict", message)
    began = time.monotonic()
    with raising(Refused, "KafkaTopic sluice/conflicting", "ResourceConflict", message) as caught:
        world.topics(seconds=60).provision(world.topic("conflicting"))
    assert caught.value.code is ErrorCode.TOPIC_NOT_READY
    assert time.monotonic() - began < 30


def test_what_may_pass_is_waited_for(world: World) -> None:
    failures = iter([not_ready("KafkaError", "Timed out")] * 10)
    world.operator.decide = lambda resource: next(failures, None)
    assert world.topics().provision(world.topic("slow")).created


def test_what_does_not_pass_is_said_after_the_wait(world: World) -> None:
    world.operator.decide = lambda resource: not_ready("KafkaError", "Timed out waiting for a node")
    with raising(
        Unreachable, "sluice/never", "not Ready after 2 s", "Timed out waiting for a node"
    ) as caught:
        world.topics(seconds=2).provision(world.topic("never"))
    assert caught.value.code is ErrorCode.TOPIC_NOT_READY


def test_an_old_status_is_not_taken_for_that_of_the_new_generation(world: World) -> None:
    topic = world.topic("older")
    world.topics().provision(topic)
    original, world.operator._reconcile = world.operator._reconcile, lambda resource: None  # type: ignore[method-assign]
    with raising(Unreachable, "sluice/older", "has seen only 1 of 2 generations"):
        world.topics(seconds=2).provision(replace(topic, partitions=3))
    world.operator._reconcile = original  # type: ignore[method-assign]


@pytest.mark.parametrize(("annotation", "value"), [(strimzi.PAUSED, "true"), (strimzi.MANAGED, "false")])
def test_a_topic_that_the_operator_leaves_alone_is_named(world: World, annotation: str, value: str) -> None:
    topic = world.topic("left-alone")
    world.topics().provision(topic)
    world.change(topic.name, {"metadata": {"annotations": {annotation: value}}})
    with raising(Refused, "sluice/left-alone", annotation):
        world.topics().provision(topic)


def test_a_broker_that_differs_from_the_resource_is_a_finding(world: World) -> None:
    world.operator.config = {"retention.ms": "1000000"}
    with raising(Refused, "'drifting'", "retention.ms is 1000000, not 86400000") as caught:
        world.topics().provision(world.topic("drifting", retention_ms="86400000"))
    assert caught.value.code is ErrorCode.TOPIC_MISMATCH


def test_a_field_of_another_manager_is_not_taken(world: World) -> None:
    topic = world.topic("owned", 2)
    world.topics().provision(topic)
    world.change(topic.name, {"spec": {"partitions": 3}})
    with raising(Refused, "409", "a-person", "spec.partitions"):
        world.topics().provision(replace(topic, partitions=5))
    assert world.resource(topic.name)["spec"]["partitions"] == 3
    # With the same value both own it.
    world.topics().provision(replace(topic, partitions=3))


def test_a_resource_of_another_cluster_is_not_changed(world: World) -> None:
    topic = world.topic("of-another")
    body = strimzi.kafka_topic(topic, NAMESPACE, "another")
    world.admin.create_namespaced_custom_object(*WHERE, body)
    with raising(Refused, "cluster 'another'", f"'{CLUSTER}'"):
        world.topics().provision(topic)
    assert world.resource(topic.name)["metadata"]["labels"] == {strimzi.CLUSTER_LABEL: "another"}


def test_a_topic_that_is_deleted_meanwhile_is_said(world: World) -> None:
    topic = world.topic("deleted")
    world.topics().provision(topic)
    world.admin.patch_namespaced_custom_object(
        *WHERE, topic.name, {"metadata": {"finalizers": ["strimzi.io/topic-operator"]}}
    )
    world.admin.delete_namespaced_custom_object(*WHERE, topic.name)
    try:
        with raising(Refused, "sluice/deleted", "is being deleted"):
            world.topics().provision(topic)
    finally:
        world.admin.patch_namespaced_custom_object(*WHERE, topic.name, {"metadata": {"finalizers": None}})


def test_without_the_rights_of_the_base_nothing_is_done(world: World) -> None:
    core = client.CoreV1Api(world.plane.api())
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "without"}})
    with raising(Refused, "403", "kafkatopics", "role-kafka-topics.yaml") as caught:
        world.topics(account="without").provision(world.topic("denied"))
    assert caught.value.code is ErrorCode.KUBERNETES_REFUSED
    with raising(Refused, "403"):
        world.topics(namespace="default").provision(world.topic("elsewhere"))


def test_a_name_that_the_resource_definition_refuses(world: World) -> None:
    with raising(Refused, "422", "spec.partitions"):
        world.topics().provision(world.topic("none", partitions=0))


def test_an_api_server_that_restarts_while_it_is_waited_for(world: World) -> None:
    topics, topic = world.topics(seconds=90), world.topic("restarted")
    seen = threading.Event()

    def wait(resource: dict[str, Any]) -> dict[str, str] | None:
        seen.set()
        return None if done.is_set() else not_ready("KafkaError", "not yet")

    done = threading.Event()
    world.operator.decide = wait

    # Not the restart in a thread: the kernel ends a process with the thread that has started it.
    with ThreadPoolExecutor(1) as pool:
        provisioned = pool.submit(topics.provision, topic)
        assert seen.wait(30)
        world.plane.crash_api_server()
        time.sleep(2)
        world.plane.up_api_server()
        done.set()
        assert provisioned.result(90).created


def test_an_api_server_that_is_away_is_said_within_seconds(world: World) -> None:
    topics, topic = world.topics(), world.topic("away")
    world.plane.crash_api_server()
    began = time.monotonic()
    try:
        with raising(Unreachable, "does not answer", "127.0.0.1") as caught:
            topics.provision(topic)
        assert caught.value.code is ErrorCode.KUBERNETES_UNREACHABLE
        assert time.monotonic() - began < 30
    finally:
        world.plane.up_api_server()


@pytest.mark.parametrize("text", [None, "not: a kubeconfig"])
def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with raising(ConfigError, "[strimzi]", str(path)):
        KafkaTopics(Strimzi(NAMESPACE, CLUSTER, str(path)), KafkaAdmin(Kafka("127.0.0.1:9")))


def test_outside_a_pod_a_kubeconfig_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with raising(ConfigError, "[strimzi]", "service account of this pod", "set kubeconfig"):
        KafkaTopics(Strimzi(NAMESPACE, CLUSTER), KafkaAdmin(Kafka("127.0.0.1:9")))
