"""What users apply: overlays as kustomize makes them, rendered resources, values of Helm charts."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from local.base import REPO
from sluice.clients.kafka import strimzi
from sluice.clients.kubernetes import pods as pods_model
from sluice.clients.kubernetes.jobs import component_job
from sluice.clients.kubernetes.pods import SPARK_JOB, PodJob, executor_template, pod_spec
from sluice.config import streams
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.config.sections.cluster import Cluster
from tests.k8s.control_plane import ControlPlane

K8S = REPO / "k8s"
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir())
COMPONENT = "app.kubernetes.io/component"
# The overlay whose Airflow is Helm's.
WITH_HELM = "prod"
# Key of a ConfigMap: the pod of Airflow's tasks.
POD_TEMPLATE = "pod-template.yaml"
NAMESPACE, IMAGE = "sluice", "sluice/jobs:0.1.0"
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

    @property
    def ports(self) -> set[int]:
        return {port["containerPort"] for one in self.spec["containers"] for port in one.get("ports", ())}


@functools.cache
def overlay(plane: ControlPlane, name: str) -> list[Resource]:
    done = plane.kubectl("kustomize", str(K8S / "overlays" / name))
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def helm_values(name: str) -> Resource:
    return dict(yaml.safe_load((K8S / "helm" / f"{name}-values.yaml").read_text()))


def pods(resources: list[Resource]) -> Iterator[Pod]:
    """Yield the pods of the workloads, and those that Strimzi makes, as far as its resources say."""
    for resource in resources:
        spec, where = resource.get("spec", {}), f"{resource['kind']} {resource['metadata']['name']}"
        if resource["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if POD_TEMPLATE in resource.get("data", {}):
            yield task_pod(resource["data"][POD_TEMPLATE])
        elif resource["kind"] == "Kafka":
            yield from strimzi_pods(where, resource, resources)
        elif "containers" in spec.get("template", {}).get("spec", {}):
            template, claims = spec["template"], spec.get("volumeClaimTemplates", ())
            volumes = [{"name": one["metadata"]["name"], "emptyDir": {}} for one in claims]
            claimed = {"volumes": [*template["spec"].get("volumes", ()), *volumes]}
            yield Pod(where, template["metadata"]["labels"], template["spec"] | claimed)


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


def task_pod(template: str) -> Pod:
    """As Airflow's executor makes it of its template."""
    pod = yaml.safe_load(template)
    return Pod("a task", pod["metadata"]["labels"], pod["spec"])


def helm_pods() -> Iterator[Pod]:
    """Yield the pods of Airflow's chart, as far as its values say."""
    values = helm_values("airflow")
    contexts, image = values["securityContexts"], values["images"]["airflow"]
    for name in ("apiServer", "scheduler", "dagProcessor", "triggerer"):
        part = values[name]
        container = {
            "name": name.lower(),
            "image": f"{image['repository']}:{image['tag']}",
            "resources": part["resources"],
            "securityContext": contexts["containers"],
            "volumeMounts": [*values["volumeMounts"], *part.get("extraVolumeMounts", ())],
        }
        if name in values["ports"]:
            container["ports"] = [{"containerPort": values["ports"][name]}]
        spec = {
            "securityContext": contexts["pod"],
            "volumes": [*values["volumes"], *part.get("extraVolumes", ())],
            "containers": [container],
            "initContainers": part.get("extraInitContainers", []),
        }
        yield Pod(f"chart {name}", values["labels"] | part["labels"], spec)
    yield task_pod(values["podTemplate"])


def rendered_pods() -> Iterator[Pod]:
    """Yield the pods of the streams' jobs, with executors, and those of the executors."""
    config = Kubernetes(NAMESPACE, IMAGE, overrides="sluice-overrides")
    for declared in streams.load_all():
        spec = replace(declared, cluster=Cluster(executors=2))
        for component in spec.components.values():
            template = component_job(spec, component, config)["spec"]["template"]
            where = f"{spec.name} {component.name}"
            yield Pod(where, template["metadata"]["labels"], template["spec"])
        job = PodJob(spec, "compact", label=SPARK_JOB)
        yield Pod(f"{spec.name} {job.job}", job.labels, pod_spec(job, config))
        settings = pods_model.settings(job, config)
        yield Pod(f"{spec.name} executor", executor_labels(settings), executor_spec(job.role))


def executor_labels(settings: Mapping[str, str]) -> dict[str, str]:
    prefix = "spark.kubernetes.executor.label."
    return {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}


def executor_spec(role: str) -> Resource:
    """With what Spark adds: its image, and requests and limits of its settings."""
    spec = executor_template(role)["spec"]
    sizes = {"cpu": "1", "memory": "1Gi"}
    spec["containers"][0] |= {"image": IMAGE, "resources": {"requests": sizes, "limits": sizes}}
    return dict(spec)


def installed_pods(plane: ControlPlane, name: str) -> list[Pod]:
    """All that an installation of the overlay has."""
    found = [*pods(overlay(plane, name)), *rendered_pods()]
    return [*found, *helm_pods()] if name == WITH_HELM else found


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


def selectors(policy: Resource) -> Iterator[Resource]:
    """Yield a policy's selectors of its own pods, and of their peers."""
    yield policy["spec"]["podSelector"]
    rules = [*policy["spec"].get("ingress", ()), *policy["spec"].get("egress", ())]
    for rule in rules:
        for peer in (*rule.get("from", ()), *rule.get("to", ())):
            yield peer.get("podSelector", {})


def secret_names(found: Any) -> Iterator[str]:
    """The Secrets that resources, pods or a chart's values refer to, at any depth."""
    if isinstance(found, list):
        for one in found:
            yield from secret_names(one)
    elif isinstance(found, dict):
        for key, value in found.items():
            if key.lower().endswith("secretname"):
                yield value
            elif key in ("secret", "secretKeyRef") and "name" in value:
                yield value["name"]
            else:
                yield from secret_names(value)
