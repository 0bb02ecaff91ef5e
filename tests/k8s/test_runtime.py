"""Components as Jobs, started and stopped: against a real API server with Kubernetes' Job controller and
garbage collector, with the rights of k8s/base and a stand-in for the kubelet."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from local.stack.stack import wait_until
from sluice.clients.kubernetes.jobs import component_job
from sluice.clients.kubernetes.pods import STREAM_LABEL
from sluice.clients.processes import kubernetes as runtimes
from sluice.config import streams
from sluice.config.folders import VARIABLE
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.core.errors import Refused, Unreachable
from sluice.core.processes.status import ProcessState
from tests.k8s.world import IMAGE, JOB, NAMESPACE, PROGRAM, World
from tests.support.raising import raising


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


def test_what_waits_long_for_its_restart_is_stopped_for_good(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.clients.kubernetes.jobs.LONG_DELAY", 1.0)
    runtime = world.running()
    world.kubelet.end(world.pod(), 1)
    world.wait_for(runtime, ProcessState.EXITED)
    assert runtime.stop(PROGRAM, 1).state is ProcessState.STOPPED
    assert world.job()["spec"]["suspend"] is True


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


def test_a_start_that_has_seen_an_older_job_leaves_the_new_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = world.running(), world.runtime()
    first.stop(PROGRAM, 5)
    older = second._observe(streams.load("nyc_taxi"), JOB)
    assert first.start(PROGRAM)
    before = world.job()["metadata"]["uid"]
    monkeypatch.setattr(second, "_observe", lambda *_: older)
    assert not second.start(PROGRAM)
    assert world.job()["metadata"]["uid"] == before
    assert "deletionTimestamp" not in world.job()["metadata"]


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
    # An invalid one does not affect them.
    (tmp_path / "streams" / "invalid").mkdir()
    (tmp_path / "streams" / "invalid" / "stream.toml").write_text("[")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "streams"))
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


def test_the_account_of_pages_and_triggers_reads_and_changes_nothing(world: World) -> None:
    world.running()
    login = world.config("sluice-airflow")
    reader = runtimes.KubernetesRuntime(login, 10.0)
    assert reader.status(PROGRAM).state is ProcessState.RUNNING
    with raising(Refused, "403"):
        reader.stop(PROGRAM, 1.0)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine"}, "spec": world.pod()["spec"]}
    api = config.new_client_from_config(login.kubeconfig)
    with pytest.raises(client.ApiException, match="Forbidden"):
        client.CoreV1Api(api).create_namespaced_pod(NAMESPACE, pod)
    with pytest.raises(client.ApiException, match="Forbidden"):
        client.CoreV1Api(api).read_namespaced_secret("sluice-connections", NAMESPACE)
