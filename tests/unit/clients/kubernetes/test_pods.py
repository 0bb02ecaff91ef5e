"""The Job of each component of each declared stream, and the settings of its executors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.clients.kubernetes.jobs import component_job
from sluice.clients.kubernetes.pods import (
    CONNECTIONS_SECRET,
    SPARK_JOB,
    PodJob,
    executor_template,
    pod_spec,
    settings,
)
from sluice.config import streams
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.config.sections.cluster import Cluster, container_mb
from sluice.config.stream import SourceType, StreamSpec
from sluice.core.processes import exits

CONFIG = Kubernetes("sluice", "registry.test/jobs:1")
COMPONENTS = [
    pytest.param(spec, component, id=component.program)
    for spec in streams.load_all()
    for component in spec.components.values()
]
each_component = pytest.mark.parametrize(("spec", "component"), COMPONENTS)
TAXI = streams.load("nyc_taxi")
TEN = replace(TAXI, cluster=Cluster(executors=10, executor_cores=4, executor_memory="4g"))
FEED = next(spec for spec in streams.load_all() if spec.source is SourceType.FEED)


def _environment(pod: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in pod["containers"][0]["env"]}


def _volumes(pod: dict[str, Any]) -> dict[str, Any]:
    return {volume.pop("name"): volume for volume in map(dict, pod["volumes"])}


@each_component
def test_kubernetes_replaces_what_ends_but_not_what_a_restart_does_not_help(
    spec: StreamSpec, component: Any
) -> None:
    job = component_job(spec, component, CONFIG)["spec"]
    assert job["podReplacementPolicy"] == "Failed"
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    failing, ignoring = job["podFailurePolicy"]["rules"]
    assert (failing["action"], failing["onExitCodes"]["values"]) == ("FailJob", sorted(exits.FINAL))
    assert failing["onExitCodes"]["containerName"] == job["template"]["spec"]["containers"][0]["name"]
    assert (ignoring["action"], ignoring["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")


@each_component
def test_a_pod_is_restricted(spec: StreamSpec, component: Any) -> None:
    job = component_job(spec, component, CONFIG)
    pod = job["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["args"] == ["python", "-m", "spark_jobs", component.name, spec.name]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert pod["terminationGracePeriodSeconds"] == spec.supervision.shutdown_grace_seconds
    assert {one["tolerationSeconds"] for one in pod["tolerations"]} == {30}
    # No executors: no token.
    assert pod["automountServiceAccountToken"] is False
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"]


@each_component
def test_memory_is_limited_and_a_process_without_a_jvm_has_no_settings_of_one(
    spec: StreamSpec, component: Any
) -> None:
    pod = component_job(spec, component, CONFIG)["spec"]["template"]["spec"]
    resources = pod["containers"][0]["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    has_jvm = component.name != "producer"
    expected = f"{container_mb(spec.cluster.driver_memory)}Mi" if has_jvm else "256Mi"
    assert resources["limits"]["memory"] == expected
    arguments = _environment(pod).get("PYSPARK_SUBMIT_ARGS", "")
    if has_jvm:
        assert f"spark.driver.memory={spec.cluster.driver_memory}" in arguments
        assert "spark.master=local[2]" in arguments
        assert arguments.endswith(" pyspark-shell")
    else:
        assert not arguments


def test_only_a_driver_with_executors_has_a_token() -> None:
    assert pod_spec(PodJob(TEN, "consumer"), CONFIG)["automountServiceAccountToken"]
    feed = replace(FEED, cluster=Cluster(executors=2))
    assert not pod_spec(PodJob(feed, "producer"), CONFIG)["automountServiceAccountToken"]
    assert pod_spec(PodJob(feed, "consumer"), CONFIG)["automountServiceAccountToken"]


def test_a_producer_of_a_feed_reads_its_own_roles_secret() -> None:
    of_producer = _volumes(pod_spec(PodJob(FEED, "producer"), CONFIG))
    assert of_producer["platform"]["secret"] == {
        "secretName": "sluice-platform-producer",
        "defaultMode": 0o440,
    }
    of_queries = _volumes(pod_spec(PodJob(FEED, "queries"), CONFIG))
    assert of_queries["platform"]["secret"]["secretName"] == "sluice-platform-consumer"
    assert of_queries["connections"]["secret"]["secretName"] == CONNECTIONS_SECRET
    mounts = pod_spec(PodJob(FEED, "queries"), CONFIG)["containers"][0]["volumeMounts"]
    # With a subPath a pod would never see a change of it.
    assert not any("subPath" in mount for mount in mounts)


def test_overrides_of_the_streams_are_mounted() -> None:
    pod = pod_spec(PodJob(TAXI, "consumer"), replace(CONFIG, overrides="mine"))
    assert _volumes(pod)["overrides"]["configMap"] == {"name": "mine"}
    (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "overrides"]
    assert _environment(pod)["SLUICE_STREAM_OVERRIDES"] == f"{mount['mountPath']}/overrides.toml"
    assert "SLUICE_STREAM_OVERRIDES" not in _environment(pod_spec(PodJob(TAXI, "consumer"), CONFIG))


def test_executors_get_what_the_stream_declares() -> None:
    job = PodJob(TEN, "producer", label=SPARK_JOB, conf={"spark.a": "b", "spark.driver.memory": "9g"})
    found = settings(job, CONFIG)
    assert found["spark.a"] == "b"
    assert found["spark.driver.memory"] == "1g"
    assert found["spark.executor.instances"] == "10"
    assert found["spark.executor.cores"] == "4"
    assert found["spark.executor.memory"] == "4g"
    overhead = int(found["spark.executor.memoryOverhead"].removesuffix("m"))
    assert 4096 + overhead == container_mb("4g")
    assert found["spark.kubernetes.namespace"] == "sluice"
    assert found["spark.kubernetes.container.image"] == CONFIG.image
    assert found["spark.authenticate"] == found["spark.network.crypto.enabled"] == "true"
    prefix = "spark.kubernetes.executor"
    assert found[f"{prefix}.podTemplateFile"].endswith("/executor-producer.yaml")
    assert found[f"{prefix}.label.app.kubernetes.io/component"] == "spark-executor"
    assert found[f"{prefix}.label.sluice.io/stream"] == "nyc_taxi"
    assert not [value for value in found.values() if " " in value]


def test_a_driver_is_known_to_its_executors_by_what_kubernetes_fills_in() -> None:
    pod = pod_spec(PodJob(TEN, "consumer"), CONFIG)
    names = [one["name"] for one in pod["containers"][0]["env"]]
    # A variable is replaced in those after it.
    assert names.index("POD_NAME") < names.index("PYSPARK_SUBMIT_ARGS")
    assert names.index("POD_IP") < names.index("PYSPARK_SUBMIT_ARGS")
    arguments = _environment(pod)["PYSPARK_SUBMIT_ARGS"]
    assert "--conf spark.kubernetes.driver.pod.name=$(POD_NAME)" in arguments
    assert "--conf spark.driver.host=$(POD_IP)" in arguments


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_an_executor_is_restricted_too_and_has_no_token(role: str) -> None:
    spec = executor_template(role)["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert _volumes(spec)["platform"]["secret"]["secretName"] == f"sluice-platform-{role}"
    assert "connections" not in _volumes(spec)
