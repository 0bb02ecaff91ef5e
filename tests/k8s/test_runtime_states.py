"""What becomes of a component's pod, and what the runtime says of it: with Kubernetes' Job controller, and a
stand-in for the kubelet."""

from __future__ import annotations

import time

import pytest

from local.stack.stack import wait_until
from sluice.clients.processes import kubernetes as runtimes
from sluice.core.errors import Unreachable
from sluice.core.processes.status import Problem, ProcessState
from tests.k8s.kubelet import NODE, LogServer
from tests.k8s.world import CONTROLLERS, JOB, NAMESPACE, PROGRAM, World
from tests.support.raising import raising


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


def test_what_ends_or_is_deleted_by_a_person_is_restarted_after_its_delay(world: World) -> None:
    other, other_job = "stream-isp_hits", "isp-hits-consumer"
    runtime = world.running()
    assert runtime.start(other)
    world.wait_for(runtime, ProcessState.RUNNING, other)
    world.kubelet.end(world.pod(), 137, reason="OOMKilled")
    deleted = world.pod(other_job)["metadata"]["name"]
    world.core.delete_namespaced_pod(deleted, NAMESPACE)
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
    wait_until("another pod", lambda: _names(world, other_job) - {deleted} != set(), 30, 0.1)
    world.wait_for(runtime, ProcessState.RUNNING, other)
    replaced = runtime.status(other)
    assert replaced.restarts == (replaced.since,)


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


def test_an_event_of_an_earlier_job_is_none_of_the_new_one(world: World) -> None:
    # Without its controller the new Job has no pod.
    world.plane.down_controllers()
    try:
        runtime = world.runtime()
        assert runtime.start(PROGRAM)
        for uid, problem in (("earlier", None), (world.job()["metadata"]["uid"], Problem.QUOTA_EXCEEDED)):
            of_job = {"kind": "Job", "name": JOB, "namespace": NAMESPACE, "uid": uid}
            event = {
                "metadata": {"generateName": "quota-"},
                "involvedObject": of_job,
                "reason": "FailedCreate",
                "message": "exceeded quota: small",
            }
            world.core.create_namespaced_event(NAMESPACE, event)
            assert runtime.status(PROGRAM).problem is problem
    finally:
        world.plane.up_controllers(*CONTROLLERS)


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


@pytest.mark.parametrize("known", ["as not ready", "as not ready, and deleted", "by an overdue end"])
def test_the_pod_of_a_lost_node_is_removed_by_force(
    world: World, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtimes, "HARD_SECONDS", 8.0)
    monkeypatch.setattr("sluice.clients.kubernetes.observed_pod.LOST_SECONDS", 2.0)
    runtime = world.running()
    world.kubelet.answers = False
    state = ProcessState.STOPPING if "deleted" in known else ProcessState.RUNNING
    if "not ready" in known:
        world.kubelet.lose(world.pod())
        if "deleted" in known:
            # By its toleration's end; the Job's controller waits for a kubelet then.
            world.core.delete_namespaced_pod(world.pod()["metadata"]["name"], NAMESPACE)
            wait_until("its deletion", lambda: "terminating" in world.job()["status"], 10, 0.1)
        status = runtime.status(PROGRAM)
        assert (status.state, status.problem) == (state, Problem.NODE_LOST)
        assert "node-1" in status.description
    grace, began = (60.0 if "not ready" in known else 2.0), time.monotonic()
    assert runtime.stop(PROGRAM, grace).state is ProcessState.STOPPED
    assert time.monotonic() - began < 20
    assert not world.kubelet.pods()
    world.kubelet.answers = True
    assert runtime.start(PROGRAM)
    world.wait_for(runtime, ProcessState.RUNNING)


def _names(world: World, job: str) -> set[str]:
    found = [pod["metadata"] for pod in world.kubelet.pods()]
    return {metadata["name"] for metadata in found if metadata["labels"]["job-name"] == job}


def _is_enforced(world: World) -> bool:
    quota = world.core.read_namespaced_resource_quota("small", NAMESPACE)
    return bool(quota.status.hard)
