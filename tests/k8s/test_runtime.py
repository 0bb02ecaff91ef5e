"""Components as Jobs: against a real API server with Kubernetes' Job controller and garbage collector, with
the rights of k8s/base and a stand-in for the kubelet."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from local.stack.stack import wait_until
from sluice.clients.errors import Missing, Refused, Unreachable
from sluice.model.error_codes import ErrorCode
from sluice.model.health.sample import Problem, ProcessState
from sluice.model.kubernetes.jobs import component_job
from sluice.model.kubernetes.pods import STREAM_LABEL
from sluice.model.spec import stream as streams
from sluice.model.spec.platform import Kubernetes
from sluice.runtime import kubernetes as runtimes
from sluice.runtime.kubernetes import KubernetesRuntime
from tests.k8s.conftest import NAMESPACE
from tests.k8s.control_plane import ControlPlane
from tests.k8s.kubelet import NODE, Kubelet, LogServer
from tests.support.raising import raising

ACCOUNT = "sluice-airflow"
PROGRAM, JOB = "stream-nyc_taxi", "nyc-taxi-consumer"
IMAGE = "registry.test/sluice/jobs:1"
CONTROLLERS = ("job-controller", "garbage-collector-controller", "resourcequota-controller")


class World:
    """The runtime as the service account of k8s/base, and an administrator who looks."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane, self._folder = plane, folder
        self.api = plane.api()
        self.batch, self.core = client.BatchV1Api(self.api), client.CoreV1Api(self.api)
        self.kubelet = Kubelet(plane.api(), NAMESPACE)

    def config(self, account: str = ACCOUNT, namespace: str = NAMESPACE) -> Kubernetes:
        request = {"spec": {"audiences": [], "expirationSeconds": 3600}}
        created = self.core.create_namespaced_service_account_token(account, NAMESPACE, request)
        path = self._folder / f"{account}.yaml"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(self.plane.kubeconfig_of({"token": created.status.token})))
        return Kubernetes(namespace, IMAGE, kubeconfig=str(path))

    def runtime(self, timeout: float = 10.0) -> KubernetesRuntime:
        return KubernetesRuntime(self.config(), timeout)

    def running(self, program: str = PROGRAM) -> KubernetesRuntime:
        """A runtime that has started it."""
        runtime = self.runtime()
        assert runtime.start(program)
        self.wait_for(runtime, ProcessState.RUNNING, program)
        return runtime

    def wait_for(
        self, runtime: KubernetesRuntime, state: ProcessState, program: str = PROGRAM, seconds: float = 20
    ) -> None:
        wait_until(f"{program} {state}", lambda: runtime.status(program).state is state, seconds, 0.1)

    def pod(self, job: str = JOB) -> dict[str, Any]:
        (pod,) = [one for one in self.kubelet.pods() if one["metadata"]["labels"]["job-name"] == job]
        return pod

    def job(self, name: str = JOB) -> dict[str, Any]:
        found = self.batch.read_namespaced_job(name, NAMESPACE)
        return dict(self.api.sanitize_for_serialization(found))


@pytest.fixture(scope="module")
def controllers(control_plane: ControlPlane) -> Iterator[None]:
    control_plane.up_controllers(*CONTROLLERS)
    yield
    control_plane.down_controllers()


@pytest.fixture
def world(control_plane: ControlPlane, controllers: None, tmp_path: Path) -> Iterator[World]:
    world = World(control_plane, tmp_path)
    with world.kubelet:
        yield world
        world.kubelet.starts, world.kubelet.answers, world.kubelet.obeys = False, True, True
        world.batch.delete_collection_namespaced_job(NAMESPACE, propagation_policy="Background")
        for pod in world.kubelet.pods():
            options = {"gracePeriodSeconds": 0}
            _ignoring_404(world.core.delete_namespaced_pod, pod["metadata"]["name"], NAMESPACE, body=options)
        wait_until("no pods", lambda: not world.kubelet.pods(), 20, 0.1)


@pytest.fixture
def node(world: World) -> Iterator[LogServer]:
    server = LogServer(world.plane.folder)
    with server:
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": server.port}},
        }
        world.core.create_node({"metadata": {"name": NODE}})
        world.core.patch_node_status(NODE, {"status": status})
        yield server
        _ignoring_404(world.core.delete_node, NODE)


def test_a_job_of_each_declared_component_is_accepted_and_its_pod_satisfies_the_namespace(
    world: World,
) -> None:
    for spec in streams.load_all():
        for component in spec.components.values():
            body = component_job(spec, component, Kubernetes(NAMESPACE, IMAGE, overrides="overrides"))
            options: dict[str, Any] = {"dry_run": "All", "field_validation": "Strict"}
            world.batch.create_namespaced_job(NAMESPACE, body, **options)
            # Admission refuses pods, and only warns about templates.
            pod = body["spec"]["template"]
            named = {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {"name": "pod"} | pod["metadata"]}
            world.core.create_namespaced_pod(NAMESPACE, named, **options)
            (container,) = named["spec"]["containers"]
            del container["securityContext"]["capabilities"]
            with pytest.raises(client.ApiException, match="violates PodSecurity"):
                world.core.create_namespaced_pod(NAMESPACE, named, **options)


def test_a_component_starts_once_and_stops_gracefully(world: World) -> None:
    runtime = world.runtime()
    assert runtime.status(PROGRAM).state is ProcessState.STOPPED
    assert runtime.start(PROGRAM)
    assert not runtime.start(PROGRAM)
    world.wait_for(runtime, ProcessState.RUNNING)
    first = runtime.status(PROGRAM)
    assert (first.restarts, first.last_exit, first.problem) == ((), None, None)
    assert first.identity != "0"
    assert not runtime.start(PROGRAM)
    world.kubelet.answers = False
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(runtime.stop, PROGRAM, 7.0)
        wait_until("the deletion", lambda: "deletionTimestamp" in world.pod()["metadata"], 10, 0.1)
        assert world.pod()["metadata"]["deletionGracePeriodSeconds"] == 7
        assert runtime.status(PROGRAM).state is ProcessState.STOPPING
        with raising(Unreachable, PROGRAM, "STOPPING"):
            runtime.start(PROGRAM)
        assert not stopped.done()
        world.kubelet.answers = True
        assert stopped.result(20).state is ProcessState.STOPPED
    assert world.job()["spec"]["suspend"] is True
    assert runtime.stop(PROGRAM, 1).state is ProcessState.STOPPED


def test_a_start_after_a_stop_makes_a_new_job_from_the_declaration(world: World) -> None:
    runtime = world.running()
    runtime.stop(PROGRAM, 5)
    before = world.job()
    assert runtime.start(PROGRAM)
    after = world.job()
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert not after["spec"]["suspend"]
    world.wait_for(runtime, ProcessState.RUNNING)


@pytest.mark.parametrize("times", range(3))
def test_of_starts_at_the_same_time_one_is_the_first(world: World, times: int) -> None:
    world.running().stop(PROGRAM, 5)
    runtimes = [world.runtime() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(lambda runtime: runtime.start(PROGRAM), runtimes))
    assert started.count(True) == 1, started
    world.wait_for(runtimes[0], ProcessState.RUNNING)
    assert world.pod()["metadata"]["ownerReferences"][0]["uid"] == world.job()["metadata"]["uid"]


@pytest.mark.parametrize("code", [76, 78])
def test_a_final_exit_is_not_restarted_and_says_why(world: World, code: int) -> None:
    runtime = world.running()
    world.kubelet.end(world.pod(), code, "INFO begin\nValueError: SLU-101 bad.toml: no key\n")
    world.wait_for(runtime, ProcessState.EXITED)
    wait_until("the Job's end", lambda: "conditions" in world.job()["status"], 10, 0.1)
    status = runtime.status(PROGRAM)
    assert (status.state, status.exit_status, status.description) == (
        ProcessState.EXITED,
        code,
        "SLU-101 bad.toml: no key",
    )
    assert runtime.stop(PROGRAM, 1).state is ProcessState.EXITED
    assert runtime.start(PROGRAM)
    world.wait_for(runtime, ProcessState.RUNNING)
    assert runtime.status(PROGRAM).last_exit is None


def test_what_ends_is_restarted_by_kubernetes_after_its_delay(world: World) -> None:
    runtime = world.running()
    first = world.pod()
    world.kubelet.end(first, 137, reason="OOMKilled")
    world.wait_for(runtime, ProcessState.BACKOFF)
    status = runtime.status(PROGRAM)
    assert (status.problem, status.exit_status) == (Problem.OUT_OF_MEMORY, 137)
    assert status.last_exit is not None
    assert status.restart_at is not None
    assert not runtime.start(PROGRAM)
    world.wait_for(runtime, ProcessState.RUNNING)
    after = runtime.status(PROGRAM)
    assert after.since is not None
    assert abs(after.since - status.restart_at) < 5
    assert (after.restarts, after.last_exit, after.problem) == ((after.since,), status.last_exit, None)


def test_what_waits_long_for_its_restart_is_stopped_for_good(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.model.kubernetes.jobs.LONG_DELAY", 1.0)
    runtime = world.running()
    world.kubelet.end(world.pod(), 1)
    world.wait_for(runtime, ProcessState.EXITED)
    assert runtime.stop(PROGRAM, 1).state is ProcessState.STOPPED
    assert world.job()["spec"]["suspend"] is True


def test_a_pod_that_a_person_deletes_is_replaced(world: World) -> None:
    runtime = world.running()
    name = world.pod()["metadata"]["name"]
    world.core.delete_namespaced_pod(name, NAMESPACE)
    wait_until("another pod", lambda: _names(world) - {name} != set(), 30, 0.1)
    world.wait_for(runtime, ProcessState.RUNNING)
    status = runtime.status(PROGRAM)
    assert status.restarts == (status.since,)


def test_a_pod_whose_job_a_person_deletes_ends_before_another_is_started(world: World) -> None:
    runtime = world.running()
    world.kubelet.answers = False
    world.batch.delete_namespaced_job(JOB, NAMESPACE, propagation_policy="Background")
    world.wait_for(runtime, ProcessState.STOPPING)
    with raising(Unreachable, PROGRAM, "STOPPING"):
        runtime.start(PROGRAM)
    world.kubelet.answers = True
    world.wait_for(runtime, ProcessState.STOPPED)
    assert runtime.start(PROGRAM)
    world.wait_for(runtime, ProcessState.RUNNING)
    # One whose pods are left to themselves.
    world.batch.delete_namespaced_job(JOB, NAMESPACE, propagation_policy="Orphan")
    world.wait_for(runtime, ProcessState.STOPPING)
    assert runtime.stop(PROGRAM, 5).state is ProcessState.STOPPED
    assert not world.kubelet.pods()


def test_another_instance_is_not_stopped(world: World) -> None:
    runtime = world.running()
    status = runtime.status(PROGRAM)
    assert runtime.stop(PROGRAM, 5, instance="1") == status
    assert not world.job()["spec"].get("suspend")
    assert runtime.stop(PROGRAM, 5, instance=status.identity).state is ProcessState.STOPPED


def test_a_process_that_does_not_obey_is_killed_after_the_grace(world: World) -> None:
    world.kubelet.obeys = False
    runtime = world.running()
    began = time.monotonic()
    assert runtime.stop(PROGRAM, 3).state is ProcessState.STOPPED
    assert 2 < time.monotonic() - began < 10
    runtime.start(PROGRAM)
    world.wait_for(runtime, ProcessState.RUNNING)
    began = time.monotonic()
    assert runtime.stop(PROGRAM, 0).state is ProcessState.STOPPED
    assert time.monotonic() - began < 5


def test_a_pod_that_never_ends_is_said_with_its_fix(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "HARD_SECONDS", 1.0)
    runtime = world.running()
    world.kubelet.answers = False
    with raising(Unreachable, PROGRAM, "STOPPING", world.pod()["metadata"]["name"], "its node"):
        runtime.stop(PROGRAM, 1)


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "overdue"])
def test_the_pod_of_a_lost_node_is_removed_by_force(
    world: World, is_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtimes, "HARD_SECONDS", 8.0)
    monkeypatch.setattr("sluice.model.kubernetes.jobs.LOST_SECONDS", 2.0)
    runtime = world.running()
    world.kubelet.answers = False
    if is_seen:
        world.kubelet.lose(world.pod())
        status = runtime.status(PROGRAM)
        assert (status.state, status.problem) == (ProcessState.RUNNING, Problem.NODE_LOST)
        assert "node-1" in status.description
    grace, began = (60.0 if is_seen else 2.0), time.monotonic()
    assert runtime.stop(PROGRAM, grace).state is ProcessState.STOPPED
    assert time.monotonic() - began < 20
    assert not world.kubelet.pods()
    world.kubelet.answers = True
    assert runtime.start(PROGRAM)
    world.wait_for(runtime, ProcessState.RUNNING)


def test_a_quota_without_room_is_a_problem_until_it_has(world: World) -> None:
    hard = {"limits.memory": "1Mi"}
    quota = {"metadata": {"name": "small"}, "spec": {"hard": hard}}
    world.core.create_namespaced_resource_quota(NAMESPACE, quota)
    try:
        wait_until("the quota", lambda: _is_enforced(world), 20, 0.2)
        runtime = world.runtime()
        assert runtime.start(PROGRAM)
        world.wait_for(runtime, ProcessState.BACKOFF)
        status = runtime.status(PROGRAM)
        assert status.problem is Problem.QUOTA_EXCEEDED
        assert "exceeded quota: small" in status.description
    finally:
        world.core.delete_namespaced_resource_quota("small", NAMESPACE)
    world.wait_for(runtime, ProcessState.RUNNING, seconds=60)
    # The event is still there.
    world.kubelet.end(world.pod(), 1)
    world.wait_for(runtime, ProcessState.BACKOFF)
    assert runtime.status(PROGRAM).problem is None
    runtime.stop(PROGRAM, 1)
    world.kubelet.starts = False
    assert runtime.start(PROGRAM)
    assert runtime.status(PROGRAM).problem is None


def test_the_end_of_the_log_of_the_newest_pod(world: World, node: LogServer) -> None:
    assert world.runtime().tail(PROGRAM) == []
    runtime = world.running()
    node.text = "first\n\n" + "x" * 300 + "\nlast \xe4\n"
    assert runtime.tail(PROGRAM) == ["first", "x" * 300, "last \xe4"]
    assert runtime.tail(PROGRAM, 20) == ["x" * 12, "last \xe4"]
    assert node.asked[-1].endswith("/job?tailLines=1")
    # A document for the client.
    node.text = '{"a": true}\n'
    assert runtime.tail(PROGRAM) == ['{"a": true}']
    node.text = ""
    assert runtime.tail(PROGRAM) == []


def test_a_node_that_does_not_answer_for_a_log_is_said_within_the_deadline(
    world: World, node: LogServer
) -> None:
    world.running()
    node.waits = 30.0
    began = time.monotonic()
    with raising(Unreachable, NAMESPACE, world.pod()["metadata"]["name"]):
        world.runtime(timeout=2.0).tail(PROGRAM)
    assert time.monotonic() - began < 4
    # The API server knows of no such node.
    world.core.delete_node(NODE)
    assert world.runtime().tail(PROGRAM) == []


def test_runtimes_that_are_opened_again_leave_no_threads_or_sockets(world: World) -> None:
    config = world.config()

    def count() -> tuple[int, int]:
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    KubernetesRuntime(config).tail(PROGRAM)
    threads, files = count()
    for _ in range(30):
        KubernetesRuntime(config).tail(PROGRAM)
    after = count()
    assert after[0] <= threads
    # The stand-in's client opens one now and then.
    assert after[1] <= files + 3


def test_without_the_rights_of_the_base_nothing_is_done(world: World) -> None:
    world.core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "no-rights"}})
    runtime = KubernetesRuntime(world.config("no-rights"))
    asked: list[Callable[[], object]] = [
        lambda: runtime.status(PROGRAM),
        lambda: runtime.start(PROGRAM),
        lambda: runtime.stop(PROGRAM, 1),
        lambda: runtime.tail(PROGRAM),
    ]
    for request in asked:
        with raising(Refused, "403", "k8s/base", "no-rights") as caught:
            request()
        assert caught.value.code is ErrorCode.KUBERNETES_REFUSED
    with raising(Refused, "403"):
        KubernetesRuntime(world.config(namespace="default")).status(PROGRAM)
    world.core.delete_namespaced_service_account("no-rights", NAMESPACE)


def test_a_namespace_that_is_missing_is_said(world: World) -> None:
    config = Kubernetes("missing", IMAGE, kubeconfig=str(world.plane.kubeconfig))
    with raising(Refused, "404", "missing", "[kubernetes]"):
        KubernetesRuntime(config).start(PROGRAM)


def test_a_program_of_no_stream_is_missing(world: World) -> None:
    for program in ("stream-unknown", "stream-nyc_taxi-producer", "airflow"):
        with raising(Missing, program):
            world.runtime().status(program)


def test_what_the_api_server_refuses_is_said_with_its_field(world: World) -> None:
    config = world.config()
    runtime = KubernetesRuntime(Kubernetes(NAMESPACE, "", kubeconfig=config.kubeconfig))
    with raising(Refused, "422", "image", "[kubernetes]"):
        runtime.start(PROGRAM)


def test_a_stop_survives_a_restart_of_the_api_server(world: World) -> None:
    runtime = world.running()
    world.kubelet.answers = False
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(runtime.stop, PROGRAM, 60.0)
        wait_until("the deletion", lambda: "deletionTimestamp" in world.pod()["metadata"], 10, 0.1)
        world.plane.crash_api_server()
        time.sleep(1)
        assert not stopped.done()
        world.plane.up_api_server()
        world.kubelet.answers = True
        assert stopped.result(60).state is ProcessState.STOPPED
    # A client that has lost its connections.
    assert runtime.start(PROGRAM)
    world.wait_for(runtime, ProcessState.RUNNING)


def test_an_api_server_that_is_away_or_hangs_is_said_within_the_deadline(world: World) -> None:
    runtime = world.runtime(timeout=2.0)
    assert runtime.status(PROGRAM).state is ProcessState.STOPPED
    server = world.plane._processes["kube-apiserver"].pid
    requests: list[Callable[[], object]] = [
        lambda: runtime.status(PROGRAM),
        lambda: runtime.tail(PROGRAM),
        lambda: runtime.start(PROGRAM),
    ]
    os.kill(server, signal.SIGSTOP)
    try:
        for request in requests:
            began = time.monotonic()
            with raising(Unreachable, "does not answer", "127.0.0.1") as caught:
                request()
            assert time.monotonic() - began < 4
            assert caught.value.code is ErrorCode.KUBERNETES_UNREACHABLE
    finally:
        os.kill(server, signal.SIGCONT)
    world.plane.crash_api_server()
    try:
        for request in requests:
            with raising(Unreachable, "does not answer", "127.0.0.1"):
                request()
    finally:
        world.plane.up_api_server()
    assert runtime.start(PROGRAM)


def test_twenty_streams_differ_only_by_their_names(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = streams.load("nyc_taxi").folder
    names = [f"rides_{number}" for number in range(20)]
    for name in names:
        folder = tmp_path / "streams" / name
        folder.mkdir(parents=True)
        for file in source.glob("*.*"):
            text = file.read_text().replace("nyc_taxi", name).replace("nyc-avro", name.replace("_", "-"))
            (folder / file.name).write_text(text)
    monkeypatch.setenv(streams.VARIABLE, str(tmp_path / "streams"))
    runtime = world.runtime()
    with ThreadPoolExecutor(5) as pool:
        assert all(pool.map(runtime.start, [f"stream-{name}" for name in names]))
    for name in names:
        world.wait_for(runtime, ProcessState.RUNNING, f"stream-{name}")
    pods = world.kubelet.pods()
    assert sorted(pod["metadata"]["labels"][STREAM_LABEL] for pod in pods) == sorted(names)
    assert runtime.stop("stream-rides_1", 5).state is ProcessState.STOPPED
    wait_until("one pod less", lambda: len(world.kubelet.pods()) == 19, 10, 0.1)
    assert runtime.status("stream-rides_10").state is ProcessState.RUNNING


def _ignoring_404(request: Callable[..., object], *arguments: Any, **options: Any) -> None:
    try:
        request(*arguments, **options)
    except client.ApiException as error:
        assert error.status == 404  # noqa: PT017 - it has ended by itself


def _names(world: World) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.kubelet.pods()}


def _is_enforced(world: World) -> bool:
    quota = world.core.read_namespaced_resource_quota("small", NAMESPACE)
    return bool(quota.status.hard)
