"""What users apply: overlays as kustomize makes them, rendered resources, values of Helm charts."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from local.base import REPO
from sluice.model import strimzi
from tests.k8s.control_plane import ControlPlane

K8S = REPO / "k8s"
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir())
COMPONENT = "app.kubernetes.io/component"
# Pods that are rendered by code, or by Airflow's executor from its template.
RENDERED = ("stream", "spark-job", "spark-executor", "airflow-task")
# The overlay whose Airflow is Helm's.
WITH_HELM = "prod"
Resource = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    """``where``: for messages."""

    where: str
    labels: Mapping[str, str]
    spec: Resource

    @property
    def containers(self) -> list[Resource]:
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]


@functools.cache
def overlay(plane: ControlPlane, name: str) -> list[Resource]:
    done = plane.kubectl("kustomize", str(K8S / "overlays" / name))
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def helm_values(name: str) -> Resource:
    return dict(yaml.safe_load((K8S / "helm" / f"{name}-values.yaml").read_text()))


def pods(resources: list[Resource]) -> Iterator[Pod]:
    """Of the workloads, and those that Strimzi makes, as far as its resources say."""
    for resource in resources:
        spec, where = resource.get("spec", {}), f"{resource['kind']} {resource['metadata']['name']}"
        if resource["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if resource["kind"] == "Kafka":
            yield from strimzi_pods(where, resource, resources)
        elif "containers" in spec.get("template", {}).get("spec", {}):
            yield Pod(where, spec["template"]["metadata"]["labels"], spec["template"]["spec"])


def strimzi_pods(where: str, kafka: Resource, resources: list[Resource]) -> Iterator[Pod]:
    """A pool's template replaces that of the Kafka resource, key by key."""
    cluster = {strimzi.CLUSTER_LABEL: kafka["metadata"]["name"]}
    for pool in resources:
        if pool["kind"] == "KafkaNodePool" and pool["metadata"]["labels"] == cluster:
            name = f"KafkaNodePool {pool['metadata']['name']}"
            template = kafka["spec"]["kafka"]["template"] | pool["spec"].get("template", {})
            yield strimzi_pod(name, template, ("kafka", "init"), {"kafka": pool["spec"]["resources"]})
    operator = kafka["spec"]["entityOperator"]
    names = ("topicOperator", "userOperator")
    sizes = {name: operator[name]["resources"] for name in names}
    yield strimzi_pod(where, operator["template"], names, sizes)


def strimzi_pod(
    where: str, template: Resource, containers: tuple[str, ...], resources: Mapping[str, Resource]
) -> Pod:
    """``init`` has no resources of its own: Strimzi gives it those of the node."""
    pod = template["pod"]
    made = [
        {
            "name": name.lower(),
            # Strimzi's own, of the version of its operator.
            "image": "strimzi@sha256:" + "0" * 64,
            "securityContext": template[f"{name}Container"]["securityContext"],
            "resources": resources.get(name, next(iter(resources.values()))),
        }
        for name in containers
    ]
    spec = {"securityContext": pod["securityContext"], "containers": made}
    return Pod(where, pod["metadata"]["labels"], spec)


def labels(resources: list[Resource], name: str) -> list[Mapping[str, str]]:
    """Of all pods that an installation of the overlay has."""
    found = [pod.labels for pod in pods(resources)]
    found += [{COMPONENT: component} for component in RENDERED]
    if name == WITH_HELM:
        values = helm_values("airflow")
        found += [part["labels"] for part in values.values() if isinstance(part, dict) and "labels" in part]
    return found


def matches(selector: Resource, found: Mapping[str, str]) -> bool:
    """A label selector of Kubernetes with matchLabels, and with matchExpressions of operator In."""
    expressions = selector.get("matchExpressions", ())
    assert all(one["operator"] == "In" for one in expressions)
    return all(found.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        found.get(one["key"]) in one["values"] for one in expressions
    )


def selected(selector: Resource) -> set[str]:
    """The components that it names."""
    named = {value for key, value in selector.get("matchLabels", {}).items() if key == COMPONENT}
    for one in selector.get("matchExpressions", ()):
        named |= set(one["values"])
    return named
