"""Components as SparkApplications: against a real API server with the rights of k8s/base. The test writes
what the Spark operator would: driver pods, and the resource's status."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
import pytest
from kubernetes import client

from local.setup.bootstrap import java_home
from local.stack.stack import wait_until
from sluice.clients.kubernetes.api import FIELD_MANAGER
from sluice.clients.kubernetes.pods import SPARK_JOB, PodJob
from sluice.clients.kubernetes.spark_application import (
    DRIVER_CONTAINER,
    PLURAL,
    component_application,
    job_application,
)
from sluice.clients.processes.spark_operator import SparkOperatorRuntime
from sluice.config import streams
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.config.sections.cluster import Cluster, container_mb
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.processes import exits
from sluice.core.processes.status import Problem, ProcessState
from tests.k8s.control_plane import ControlPlane
from tests.k8s.spark_operator import DRIVER, NAME, WHERE, Applications, now, submission
from tests.k8s.world import IMAGE, NAMESPACE
from tests.support.raising import raising

PROGRAM = "stream-nyc_taxi"


@pytest.fixture(scope="module")
def controllers(control_plane: ControlPlane) -> Iterator[None]:
    # A start deletes an ended resource in the foreground.
    control_plane.up_controllers("garbage-collector-controller")
    yield
    control_plane.down_controllers()


@pytest.fixture
def world(control_plane: ControlPlane, controllers: None, tmp_path: Path) -> Iterator[Applications]:
    world = Applications(control_plane, tmp_path)
    yield world
    for found in world.custom.list_namespaced_custom_object(*WHERE)["items"]:
        world.custom.delete_namespaced_custom_object(*WHERE, found["metadata"]["name"])
    world.remove_driver()


def test_the_resource_of_each_declared_stream_is_accepted_and_its_pods_satisfy_the_namespace(
    world: Applications,
) -> None:
    options: dict[str, Any] = {"dry_run": "All", "field_validation": "Strict"}
    config = Kubernetes(NAMESPACE, IMAGE, "operator", overrides="overrides")
    jobs = 0
    for spec in streams.load_all():
        bodies = [
            component_application(spec, component, config)
            for component in spec.components.values()
            if PodJob(spec, component.name).has_jvm
        ]
        bodies.append(job_application(PodJob(spec, "compact", (), SPARK_JOB, {"a": "b"}), config, "job"))
        for body in bodies:
            world.custom.create_namespaced_custom_object(*WHERE, body, **options)
            for role in ("driver", "executor"):
                pod = body["spec"][role]["template"]["spec"]
                pod["containers"][0]["image"] = IMAGE
                named = {"metadata": {"name": "pod"}, "spec": pod}
                world.core.create_namespaced_pod(NAMESPACE, named, **options)
            jobs += 1
    assert jobs >= 6
    bodies[0]["spec"]["driver"]["core"] = 1
    with pytest.raises(client.ApiException, match="unknown field"):
        world.custom.create_namespaced_custom_object(*WHERE, bodies[0], **options)


def test_a_start_is_applied_once(world: Applications) -> None:
    runtime = world.operator_runtime()
    assert runtime.status(PROGRAM).state is ProcessState.STOPPED
    assert runtime.start(PROGRAM)
    first = world.application()
    assert runtime.status(PROGRAM).state is ProcessState.STARTING
    assert not runtime.start(PROGRAM)
    # A concurrent start, which saw none either.
    body = component_application(*_taxi(), Kubernetes(NAMESPACE, IMAGE, "operator"))
    assert not runtime._apply(NAME, body)
    again = world.application()
    assert again["metadata"]["generation"] == first["metadata"]["generation"] == 1
    assert again["metadata"]["uid"] == first["metadata"]["uid"]
    managers = {(one["manager"], one["operation"]) for one in again["metadata"]["managedFields"]}
    assert managers == {(FIELD_MANAGER, "Apply")}


def _taxi() -> tuple[Any, Any]:
    spec = streams.load("nyc_taxi")
    return spec, spec.components["consumer"]


def test_what_the_operator_says_becomes_the_status(world: Applications) -> None:
    runtime = world.operator_runtime()
    assert runtime.start(PROGRAM)
    world.say("SUBMITTED")
    assert runtime.status(PROGRAM).state is ProcessState.STARTING
    world.submit()
    found = runtime.status(PROGRAM)
    assert (found.state, found.restarts, found.problem) == (ProcessState.RUNNING, (), None)
    assert found.identity != "0"
    world.end(1)
    world.say("FAILING", submissionAttempts=1, lastSubmissionAttemptTime=now())
    found = runtime.status(PROGRAM)
    assert (found.state, found.exit_status) == (ProcessState.BACKOFF, 1)
    world.remove_driver()
    error = 'pods "x" is forbidden: exceeded quota: small'
    world.say("SUBMISSION_FAILED", error=error, executionAttempts=1)
    found = runtime.status(PROGRAM)
    assert (found.state, found.problem) == (ProcessState.BACKOFF, Problem.QUOTA_EXCEEDED)


def test_a_preempted_executor_is_read_from_the_events(world: Applications) -> None:
    runtime = world.operator_runtime()
    assert runtime.start(PROGRAM)
    world.submit()
    world.say("RUNNING", executorState={"nyc-taxi-consumer-ab123-exec-1": "FAILED"})
    for name in ("nyc-taxi-consumer-ab123-exec-1", "other-stream-ab123-exec-1"):
        event = {
            "metadata": {"name": name},
            "involvedObject": {"kind": "Pod", "name": name, "namespace": NAMESPACE},
            "reason": "Preempted",
            "message": f"Preempted {name}",
            "lastTimestamp": now(),
        }
        world.core.create_namespaced_event(NAMESPACE, event)
    found = runtime.status(PROGRAM)
    assert found.problem is Problem.EXECUTOR_PREEMPTED
    assert "nyc-taxi-consumer-ab123-exec-1" in found.description


@pytest.mark.parametrize("code", sorted(exits.BY_MESSAGE))
def test_a_final_end_stays_until_it_is_started_again(world: Applications, code: int) -> None:
    runtime = world.operator_runtime()
    assert runtime.start(PROGRAM)
    world.submit()
    world.end(0, exits.termination_message(code, "SLU-501 Fenced: epoch 3 is newer"))
    world.say("COMPLETED")
    found = runtime.status(PROGRAM)
    assert (found.state, found.exit_status) == (ProcessState.EXITED, code)
    assert found.description == "SLU-501 Fenced: epoch 3 is newer"
    first = world.application()["metadata"]["uid"]
    world.remove_driver()
    # The same declaration applied to it would change nothing, and the operator do nothing.
    assert runtime.start(PROGRAM)
    assert world.application()["metadata"]["uid"] != first
    assert runtime.status(PROGRAM).state is ProcessState.STARTING


def test_a_stop_suspends_it_and_waits_for_its_driver_with_the_grace(world: Applications) -> None:
    runtime = world.operator_runtime()
    assert runtime.start(PROGRAM)
    world.submit()
    other = runtime.stop(PROGRAM, 5, instance="1")
    assert other.state is ProcessState.RUNNING
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(runtime.stop, PROGRAM, 7.0)
        wait_until("the suspension", lambda: world.application()["spec"].get("suspend"), 20, 0.1)
        wait_until("the deletion", lambda: _driver(world)["metadata"].get("deletionTimestamp"), 20, 0.1)
        assert _driver(world)["metadata"]["deletionGracePeriodSeconds"] == 7
        world.say("SUSPENDED")
        assert runtime.status(PROGRAM).state is ProcessState.STOPPING
        with raising(Unreachable, PROGRAM, "STOPPING"):
            runtime.start(PROGRAM)
        world.remove_driver()
        assert stopped.result(30).state is ProcessState.STOPPED
    assert runtime.stop(PROGRAM, 1).state is ProcessState.STOPPED
    assert runtime.start(PROGRAM)
    assert not world.application()["spec"].get("suspend")
    assert "status" not in world.application()


def _driver(world: Applications) -> dict[str, Any]:
    found = world.core.api_client.sanitize_for_serialization(
        world.core.read_namespaced_pod(DRIVER, NAMESPACE)
    )
    return dict(found)


def test_a_resource_of_another_manager_is_not_taken(world: Applications) -> None:
    body = component_application(*_taxi(), Kubernetes(NAMESPACE, "other:1", "operator"))
    runtime = world.operator_runtime()

    class Raced(SparkOperatorRuntime):
        def _apply(self, name: str, body_: dict[str, Any]) -> bool:
            world.custom.create_namespaced_custom_object(*WHERE, body, field_manager="gitops")
            return super()._apply(name, body_)

    raced = Raced(runtime._config)
    with raising(Refused, "409", "gitops", "spec.image", "leave the resource to Sluice") as caught:
        raced.start(PROGRAM)
    assert caught.value.code is ErrorCode.KUBERNETES_REFUSED
    assert world.application()["spec"]["image"] == "other:1"


def test_without_the_rights_of_the_base_nothing_is_done(world: Applications) -> None:
    core = client.CoreV1Api(world.plane.api())
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "no-rights"}})
    with raising(Refused, "403", PLURAL, "apply k8s/base") as caught:
        world.operator_runtime(account="no-rights").start(PROGRAM)
    assert caught.value.code is ErrorCode.KUBERNETES_REFUSED


def test_the_rights_are_those_that_the_runtime_and_the_provider_use(world: Applications) -> None:
    """As service account: what is not in the role is refused."""
    account = client.CustomObjectsApi(world.operator_runtime()._api.client)
    body = job_application(
        PodJob(streams.load("nyc_taxi"), "compact"), world.operator_runtime()._config, "a-job"
    )
    account.create_namespaced_custom_object(*WHERE, body)
    account.get_namespaced_custom_object_status(*WHERE, "a-job")
    for refused in (
        lambda: account.list_namespaced_custom_object(*WHERE),
        lambda: account.patch_namespaced_custom_object_status(*WHERE, "a-job", {"status": {}}),
    ):
        with pytest.raises(client.ApiException, match="Forbidden"):
            refused()
    account.delete_namespaced_custom_object(*WHERE, "a-job")


def test_a_component_without_a_jvm_is_a_job_here_too(world: Applications) -> None:
    runtime, program = world.operator_runtime(), "stream-wiki_changes-producer"
    try:
        assert runtime.start(program)
        job = world.batch.read_namespaced_job("wiki-changes-producer", NAMESPACE)
        assert job.spec.template.spec.containers[0].name == "job"
        assert runtime.status(program).state is ProcessState.STARTING
        assert runtime.tail(program) == []
    finally:
        world.batch.delete_namespaced_job("wiki-changes-producer", NAMESPACE)
    assert runtime.tail(PROGRAM) == []


def test_spark_makes_the_driver_pod_of_the_resource(world: Applications, tmp_path: Path) -> None:
    """By spark-submit itself, as the operator runs it: Spark merges templates, arguments and sizes."""
    spec, component = _taxi()
    ten = replace(spec, cluster=Cluster(executors=10, driver_memory="2g"))
    application = component_application(ten, component, Kubernetes(NAMESPACE, IMAGE, "operator"))
    master = world.plane.kubeconfig_of({})["clusters"][0]["cluster"]["server"]
    environment = os.environ | {"KUBECONFIG": str(world.plane.kubeconfig), "JAVA_HOME": str(java_home())}
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [program, *submission(application, master, tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    pod = _driver(world)
    (container,) = pod["spec"]["containers"]
    assert container["name"] == DRIVER_CONTAINER
    assert container["args"][:4:2] == ["driver", "/opt/spark/conf/spark.properties"]
    assert container["args"][3:] == [
        "--class",
        "org.apache.spark.deploy.PythonRunner",
        application["spec"]["mainApplicationFile"],
        *application["spec"]["arguments"],
    ]
    memory = f"{container_mb('2g')}Mi"
    assert container["resources"]["limits"] == {"cpu": "2", "memory": memory}
    assert container["resources"]["requests"]["memory"] == memory
    (expected,) = application["spec"]["driver"]["template"]["spec"]["containers"]
    assert container["securityContext"] == expected["securityContext"]
    assert {one["name"] for one in expected["env"]} < {one["name"] for one in container["env"]}
    # What docker/driver reads, too.
    assert "SPARK_APPLICATION_ID" in {one["name"] for one in container["env"]}
    assert pod["spec"]["serviceAccountName"] == "sluice-spark"
    assert pod["spec"]["terminationGracePeriodSeconds"] == spec.supervision.shutdown_grace_seconds
    assert application["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
    assert pod["metadata"]["labels"]["spark-role"] == "driver"
