"""SparkApplications: what the Spark operator gets, and that it is what a Job gets in mode native."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Any

import pytest
import yaml

from local.base import REPO
from sluice.clients.kubernetes.jobs import component_job
from sluice.clients.kubernetes.pods import (
    EXECUTOR,
    ROLE_LABEL,
    SPARK_JOB,
    PodJob,
    executor_template,
    settings,
)
from sluice.clients.kubernetes.spark_application import (
    DRIVER_CONTAINER,
    EXECUTOR_CONTAINER,
    MAIN_FILE,
    SPARK_VERSION,
    component_application,
    job_application,
)
from sluice.config import overrides, streams
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.config.sections.cluster import Cluster, container_mb, memory_mb
from sluice.config.stream import ENTRY_POINT, Component, StreamSpec
from sluice.core.processes import exits

CONFIG = Kubernetes("sluice", "registry.test/jobs:1", "operator", overrides="mine")
TAXI = streams.load("nyc_taxi")
TEN = replace(TAXI, cluster=Cluster(executors=10, executor_cores=2, executor_memory="2g"))
DECLARED = [
    (spec, component)
    for spec in streams.load_all()
    for component in spec.components.values()
    if PodJob(spec, component.name).has_jvm
]
each_component = pytest.mark.parametrize(
    ("spec", "component"), DECLARED, ids=[component.program for _, component in DECLARED]
)


def _driver(application: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The specification of its pod, and its one container."""
    spec = application["spec"]["driver"]["template"]["spec"]
    (container,) = spec["containers"]
    return spec, container


def _values(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def test_the_version_is_the_installed_sparks() -> None:
    pinned = re.search(r"^pyspark==(\S+)", (REPO / "requirements.txt").read_text(), re.M)
    assert pinned is not None
    assert pinned[1] == SPARK_VERSION


def test_the_main_file_is_where_the_image_has_it() -> None:
    assert (REPO / MAIN_FILE.removeprefix("local:///opt/sluice/app/")).samefile(ENTRY_POINT)
    assert "WORKDIR /opt/sluice/app" in (REPO / "docker" / "Dockerfile").read_text()


@each_component
def test_a_driver_is_the_pod_of_mode_native(spec: StreamSpec, component: Component) -> None:
    native = component_job(spec, component, CONFIG)["spec"]["template"]["spec"]
    application = component_application(spec, component, CONFIG)
    pod, container = _driver(application)
    (expected,) = native["containers"]
    assert pod | {"containers": []} == native | {"containers": []}
    assert container["name"] == DRIVER_CONTAINER
    assert container["securityContext"] == expected["securityContext"]
    assert container["volumeMounts"] == expected["volumeMounts"]
    assert container["terminationMessagePolicy"] == expected["terminationMessagePolicy"]
    # Spark sets these of the resource's fields, and appends the arguments.
    assert not container.keys() & {"image", "resources", "args"}
    assert application["spec"]["image"] == expected["image"]
    assert application["spec"]["arguments"] == expected["args"][3:]
    ours, theirs = _values(container), _values(expected)
    assert {key for key in ours if ours[key] != theirs.get(key)} == {
        "PYSPARK_SUBMIT_ARGS",
        exits.TERMINATION_LOG,
    }
    assert application["metadata"]["name"] == component_job(spec, component, CONFIG)["metadata"]["name"]
    assert application["metadata"]["labels"] == PodJob(spec, component.name).labels


def test_a_component_is_restarted_for_ever_and_a_bounded_job_never() -> None:
    component = component_application(TAXI, TAXI.components["consumer"], CONFIG)
    policy = component["spec"]["restartPolicy"]
    assert policy["type"] == "OnFailure"
    # In 10 s steps that is centuries.
    assert policy["onFailureRetries"] == policy["onSubmissionFailureRetries"] == 2**31 - 1
    assert "timeToLiveSeconds" not in component["spec"]
    job = job_application(PodJob(TAXI, "producer", ("--run", "r"), SPARK_JOB), CONFIG, "a-name")
    assert job["spec"]["restartPolicy"] == {"type": "Never"}
    assert job["spec"]["timeToLiveSeconds"] >= 3600
    assert job["spec"]["arguments"] == ["producer", "nyc_taxi", "--run", "r"]
    assert job["metadata"]["name"] == "a-name"
    assert job["metadata"]["labels"][ROLE_LABEL] == SPARK_JOB
    # It fails with its exit code, and Airflow reads it.
    assert exits.TERMINATION_LOG not in _values(_driver(job)[1])
    assert _driver(job)[0]["volumes"][0]["secret"]["secretName"] == "sluice-platform-producer"


@pytest.mark.parametrize("executors", [0, 1, 10])
def test_pods_get_what_the_stream_declares(executors: int) -> None:
    cluster = Cluster(executors, 3, "2g", "700m", 2, "4g", "1500m")
    spec = replace(TAXI, cluster=cluster)
    found = component_application(spec, TAXI.components["consumer"], CONFIG)["spec"]
    driver, executor = found["driver"], found["executor"]
    assert (driver["cores"], driver["coreRequest"], driver["coreLimit"]) == (3, "700m", "3")
    assert (executor["cores"], executor["coreRequest"], executor["coreLimit"]) == (2, "1500m", "2")
    for pod, heap in ((driver, "2g"), (executor, "4g")):
        # Spark's limit is the sum.
        assert memory_mb(pod["memory"]) + memory_mb(pod["memoryOverhead"]) == container_mb(heap)
    assert executor["instances"] == max(executors, 1)
    assert driver["template"]["spec"]["automountServiceAccountToken"] is (executors > 0)


def test_executors_are_those_of_mode_native() -> None:
    found = component_application(TEN, TAXI.components["consumer"], CONFIG)
    conf, executor = found["spec"]["sparkConf"], found["spec"]["executor"]
    native = settings(PodJob(TEN, "consumer"), CONFIG)
    assert conf.items() <= native.items()
    assert conf["spark.authenticate"] == "true"
    assert conf["spark.authenticate.secret.file"].startswith("/var/lib/sluice/platform/")
    labels = found["metadata"]["labels"] | executor["labels"]
    prefix = "spark.kubernetes.executor.label."
    assert labels == {key.removeprefix(prefix): native[key] for key in native if key.startswith(prefix)}
    assert labels[ROLE_LABEL] == EXECUTOR
    expected = executor_template("consumer", EXECUTOR_CONTAINER)["spec"]
    assert executor["template"]["spec"] == expected
    assert expected["containers"][0]["name"] == "spark-kubernetes-executor"
    assert executor_template("consumer")["spec"]["containers"][0]["name"] == EXECUTOR


def test_without_executors_the_driver_asks_for_none() -> None:
    """The resource cannot say so: it has one instance at least."""
    spec = replace(TAXI, cluster=Cluster(executors=0, driver_cores=3))
    application = component_application(spec, TAXI.components["consumer"], CONFIG)
    arguments = shlex.split(_values(_driver(application)[1])["PYSPARK_SUBMIT_ARGS"])
    assert "spark.master=local[3]" in arguments
    assert not application["spec"]["sparkConf"]
    of_ten = component_application(TEN, TAXI.components["consumer"], CONFIG)
    assert "spark.master" not in _values(_driver(of_ten)[1])["PYSPARK_SUBMIT_ARGS"]


def test_a_driver_is_reached_by_its_address() -> None:
    _, container = _driver(component_application(TEN, TAXI.components["consumer"], CONFIG))
    arguments = shlex.split(_values(container)["PYSPARK_SUBMIT_ARGS"])
    assert {"spark.driver.host=$(POD_IP)", "spark.driver.bindAddress=$(POD_IP)"} <= set(arguments)
    assert arguments[-1] == "pyspark-shell"
    names = [one["name"] for one in container["env"]]
    # Kubernetes replaces what it has read before.
    assert names.index("POD_IP") < names.index("PYSPARK_SUBMIT_ARGS")
    assert "POD_NAME" in names


def test_further_configuration_of_a_job_is_kept() -> None:
    job = PodJob(TEN, "compact", (), SPARK_JOB, {"spark.a": "b"})
    assert job_application(job, CONFIG, "n")["spec"]["sparkConf"]["spark.a"] == "b"


def test_the_example_of_the_docs_is_what_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(overrides.VARIABLE, str(REPO / "k8s" / "overlays" / "prod" / "overrides.toml"))
    text = (REPO / "docs" / "kubernetes.md").read_text()
    examples = re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)
    (example,) = [one for one in examples if "kind: SparkApplication" in one]
    spec, config = streams.load("nyc_taxi"), Kubernetes("sluice", "sluice/jobs:0.1.0", "operator")
    expected = component_application(spec, spec.components["consumer"], config)
    for role in ("driver", "executor"):
        del expected["spec"][role]["template"]
    assert yaml.safe_load(example) == expected
