"""What a Job, its pods and events say of a component's process."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from sluice.clients.kubernetes.jobs import LONG_DELAY, MAX_DELAY, Observed, process_status
from sluice.clients.kubernetes.observed_pod import LOST_SECONDS
from sluice.core.processes.status import Problem, ProcessExit, ProcessStatus
from sluice.core.processes.status import ProcessState as S

NOW = 1_000_000.0
QUOTA = 'Error creating: pods "a-b" is forbidden: exceeded quota: small, requested: limits.memory=2Gi'
RUNNING = {"running": {"startedAt": ""}}


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).isoformat()


def job(suspend: bool = False, deleted: bool = False, **status: Any) -> dict[str, Any]:
    metadata = {"name": "a", "creationTimestamp": at(-1000)}
    if deleted:
        metadata["deletionTimestamp"] = at(-1)
    return {"metadata": metadata, "spec": {"suspend": suspend}, "status": status}


def failed(message: str = "") -> dict[str, Any]:
    return {"conditions": [{"type": "Failed", "status": "True", "message": message}]}


def pod(
    state: dict[str, Any] | None,
    phase: str = "Running",
    made: float = -100,
    deleted: float | None = None,
    conditions: dict[str, dict[str, Any]] | None = None,
    name: str = "a-1",
) -> dict[str, Any]:
    """``made``, ``deleted``: seconds from now; ``deleted``: when its grace ends."""
    metadata: dict[str, Any] = {"name": name, "creationTimestamp": at(made)}
    if deleted is not None:
        metadata["deletionTimestamp"] = at(deleted)
    container = {"name": "job", "image": "r/jobs:1", "resources": {"limits": {"memory": "1920Mi"}}}
    status: dict[str, Any] = {
        "phase": phase,
        "conditions": [{"type": kind, **values} for kind, values in (conditions or {}).items()],
    }
    if state is not None:
        # A sidecar that a cluster injects is not ours.
        status["containerStatuses"] = [{"name": "proxy", "state": RUNNING}, {"name": "job", "state": state}]
    return {
        "metadata": metadata,
        "spec": {"nodeName": "node-1", "containers": [container]},
        "status": status,
    }


def running(made: float = -100, **more: Any) -> dict[str, Any]:
    return pod({"running": {"startedAt": at(made + 5)}}, made=made, **more)


def ended(code: int, made: float = -100, end: float = -10, **more: Any) -> dict[str, Any]:
    told = {key: more.pop(key) for key in ("reason", "message") if key in more}
    moments = {"startedAt": at(made + 5), "finishedAt": at(end)}
    return pod({"terminated": {"exitCode": code, **moments, **told}}, "Failed", made, **more)


def status(
    job: dict[str, Any] | None, *pods: dict[str, Any], events: list[tuple[str, str]] | None = None
) -> ProcessStatus:
    return process_status("stream-a", Observed(job, pods, events or [], NOW))


def test_no_job_is_stopped() -> None:
    found = status(None)
    assert (found.program, found.state, found.since, found.problem) == ("stream-a", S.STOPPED, None, None)


@pytest.mark.parametrize("gone", [None, job(deleted=True)], ids=["no Job", "a Job that is being deleted"])
def test_a_pod_without_a_job_that_replaces_it_is_stopping_until_it_has_ended(
    gone: dict[str, Any] | None,
) -> None:
    assert status(gone, running()).state is S.STOPPING
    assert status(gone, running(deleted=20)).state is S.STOPPING
    assert status(gone, ended(143)).state is S.STOPPED
    lost = status(gone, running(deleted=-LOST_SECONDS - 1))
    assert (lost.state, lost.problem) == (S.STOPPING, Problem.NODE_LOST)


def test_a_new_job_is_starting_until_its_container_runs() -> None:
    assert status(job()).state is S.STARTING
    found = status(job(active=1), pod({"waiting": {"reason": "ContainerCreating"}}, "Pending"))
    assert (found.state, found.since, found.problem) == (S.STARTING, None, None)
    assert "ContainerCreating" in found.description
    assert status(job(active=1), pod(None, "Pending")).state is S.STARTING


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
def test_a_missing_image_is_named(reason: str) -> None:
    waiting = {"waiting": {"reason": reason, "message": "not found"}}
    found = status(job(active=1), pod(waiting, "Pending"))
    assert (found.state, found.problem) == (S.STARTING, Problem.IMAGE_MISSING)
    assert "r/jobs:1" in found.description
    assert "not found" in found.description


def test_a_pod_without_room_on_any_node() -> None:
    said = {"status": "False", "reason": "Unschedulable", "message": "0/3 nodes: Insufficient memory"}
    found = status(job(active=1), pod(None, "Pending", conditions={"PodScheduled": said}))
    assert (found.state, found.problem) == (S.STARTING, Problem.UNSCHEDULABLE)
    assert "Insufficient memory" in found.description


def test_a_quota_without_room() -> None:
    found = status(job(), events=[("FailedCreate", QUOTA)])
    assert (found.state, found.problem, found.description) == (S.BACKOFF, Problem.QUOTA_EXCEEDED, QUOTA)
    other = status(job(), events=[("FailedCreate", QUOTA), ("FailedCreate", "violates PodSecurity")])
    assert (other.state, other.problem, other.description) == (
        *(S.BACKOFF, Problem.NOT_STARTED, "violates PodSecurity"),
    )
    assert status(job(), events=[("SuccessfulCreate", "Created pod: a-1")]).state is S.STARTING


def test_a_running_pod() -> None:
    found = status(job(active=1), running())
    assert (found.state, found.since, found.restarts) == (S.RUNNING, NOW - 95, ())
    assert (found.last_exit, found.exit_status, found.problem) == (None, None, None)
    assert "a-1" in found.description


def test_a_preempted_executor_is_a_remark_of_a_running_driver() -> None:
    found = status(job(active=1), running(), events=[("Preempted", "Preempted by pod x on node y")])
    assert (found.state, found.problem) == (S.RUNNING, Problem.EXECUTOR_PREEMPTED)
    assert "Preempted by pod x" in found.description


def test_a_lost_node_is_seen_by_the_control_plane_or_by_an_overdue_end() -> None:
    not_ready = {"Ready": {"status": "False"}, "ContainersReady": {"status": "True"}}
    found = status(job(active=1), running(conditions=not_ready))
    assert (found.state, found.problem) == (S.RUNNING, Problem.NODE_LOST)
    assert "node-1" in found.description
    found = status(job(terminating=1), running(conditions=not_ready, deleted=25))
    assert (found.state, found.problem) == (S.STOPPING, Problem.NODE_LOST)
    assert status(job(), running(deleted=-LOST_SECONDS - 1)).problem is Problem.NODE_LOST
    just = status(job(), running(deleted=-LOST_SECONDS + 1))
    assert (just.state, just.problem) == (S.STOPPING, None)
    # Its container is not ready either: the kubelet has said it.
    own = {"Ready": {"status": "False"}, "ContainersReady": {"status": "False"}}
    assert status(job(active=1), running(conditions=own)).problem is None
    # It has ended, and waits for its removal.
    assert status(job(), ended(143, deleted=-LOST_SECONDS - 1)).problem is None


def test_a_suspended_job_is_stopping_and_then_stopped() -> None:
    assert status(job(suspend=True), running()).state is S.STOPPING
    assert status(job(), running(deleted=20)).state is S.STOPPING
    found = status(job(suspend=True), ended(143))
    assert (found.state, found.exit_status, found.since) == (S.STOPPED, 143, NOW - 95)
    assert found.restart_at is None
    assert status(job(suspend=True)).state is S.STOPPED


@pytest.mark.parametrize("code", [76, 78])
@pytest.mark.parametrize("said", [failed("by policy"), {}], ids=["failed", "a moment before"])
def test_a_final_exit_says_the_reason_of_its_log(code: int, said: dict[str, Any]) -> None:
    message = "INFO begin\nTraceback\nsluice.x.ConfigError: SLU-101 a.toml: no topic\nINFO end\n"
    found = status(job(**said), ended(code, message=message))
    assert (found.state, found.exit_status, found.description) == (
        S.EXITED,
        code,
        "SLU-101 a.toml: no topic",
    )
    assert found.is_misconfigured is (code == 78)
    assert status(job(**said), ended(code)).description == "pod a-1"


def test_a_job_that_failed_without_an_exit_is_fatal() -> None:
    found = status(job(**failed("Job was active longer than specified deadline")))
    assert (found.state, found.description.endswith("specified deadline")) == (S.FATAL, True)
    complete: dict[str, Any] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert status(job(**complete), pod(None, "Succeeded")).state is S.FATAL
    of_now: dict[str, Any] = {"conditions": [{"type": "Failed", "status": "False"}]}
    assert status(job(**of_now), running()).state is S.RUNNING


def test_a_restart_comes_after_ten_seconds_then_twenty() -> None:
    found = status(job(failed=1), ended(1, end=-2))
    assert (found.state, found.exit_status, found.restart_at) == (S.BACKOFF, 1, NOW - 2 + 10)
    assert found.last_exit == ProcessExit(NOW - 2, 1, 93)
    # Not counted yet.
    assert status(job(active=1), ended(1, end=-2)).restart_at == NOW - 2 + 10
    assert status(job(failed=3), ended(1, end=-2)).restart_at == NOW - 2 + 40


def test_a_login_that_is_refused_waits_for_kubernetes_however_long() -> None:
    said = "INFO begin\nsluice.x.LoginRefused: SLU-210 Kafka at k:1 refuses the login\n"
    found = status(job(failed=7), ended(77, end=-2, message=said))
    assert (found.state, found.exit_status) == (S.BACKOFF, 77)
    assert found.description == "SLU-210 Kafka at k:1 refuses the login"
    assert found.last_exit == ProcessExit(NOW - 2, 77, 93)


def test_a_pod_after_a_refused_login_is_an_attempt() -> None:
    pods = ended(1, made=-300, name="a-1"), ended(77, made=-200, name="a-2"), running(made=-100, name="a-3")
    found = status(job(failed=2, active=1), *pods)
    assert (found.restarts, found.refused) == ((NOW - 195, NOW - 95), (NOW - 95,))


def test_a_long_delay_is_left_to_supervision() -> None:
    found = status(job(failed=4), ended(1, end=-2))
    assert (found.state, found.restart_at) == (S.EXITED, None)
    assert status(job(failed=4), ended(1, end=-80 + LONG_DELAY - 1)).state is S.BACKOFF
    soon = status(job(failed=40), ended(1, end=-MAX_DELAY + 10))
    assert (soon.state, soon.restart_at) == (S.BACKOFF, NOW + 10)


def test_out_of_memory_names_the_limit() -> None:
    found = status(job(failed=1), ended(137, reason="OOMKilled"))
    assert (found.state, found.problem, found.exit_status) == (S.BACKOFF, Problem.OUT_OF_MEMORY, 137)
    assert "1920Mi" in found.description
    again = status(job(failed=1, active=1), ended(137, reason="OOMKilled"), running(made=-1, name="a-2"))
    assert (again.state, again.problem) == (S.RUNNING, None)


def test_an_evicted_pod_says_by_whom() -> None:
    said = {"status": "True", "reason": "TerminationByKubelet", "message": "low on ephemeral-storage"}
    evicted = pod(None, "Failed", conditions={"DisruptionTarget": said})
    found = status(job(), evicted)
    assert (found.state, found.problem, found.last_exit, found.restart_at) == (S.BACKOFF, None, None, None)
    assert "low on ephemeral-storage" in found.description
    by_node = {"status": "True", "reason": "DeletionByTaintManager"}
    text = status(job(), ended(143, conditions={"DisruptionTarget": by_node})).description
    assert "DeletionByTaintManager" in text


def test_a_container_that_its_kubelet_has_forgotten_ended_when_its_pod_changed() -> None:
    forgotten = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    changed = {"Ready": {"status": "False", "lastTransitionTime": at(-3)}}
    found = status(job(failed=1), pod(forgotten, "Failed", conditions=changed))
    assert found.last_exit == ProcessExit(NOW - 3, 137, 0)
    assert (found.state, found.restart_at) == (S.BACKOFF, NOW - 3 + 10)
    bare = status(job(failed=1), pod(forgotten, "Failed"))
    assert bare.last_exit == ProcessExit(NOW - 100, 137, 0)


def test_restarts_are_the_starts_after_the_first() -> None:
    pods = [
        running(made=-10, name="a-3"),
        ended(1, made=-60, end=-20, name="a-2"),
        ended(2, made=-100, end=-70, name="a-1"),
    ]
    found = status(job(failed=2, active=1), *pods)
    assert found.restarts == (NOW - 55, NOW - 5)
    assert (found.since, found.last_exit) == (NOW - 5, ProcessExit(NOW - 20, 1, 35))
    assert (found.state, found.exit_status) == (S.RUNNING, 1)


def test_a_first_pod_that_was_deleted_by_hand_counts() -> None:
    found = status(job(failed=1, active=1), running(made=-10))
    assert (found.restarts, found.last_exit) == ((NOW - 5,), None)
    # While it ends it is not counted.
    assert status(job(terminating=1), running(deleted=20)).restarts == ()


def test_at_most_twenty_restarts_are_kept() -> None:
    pods = [ended(1, made=-1000 + 10 * n, end=-995 + 10 * n, name=f"a-{n:02}") for n in range(30)]
    found = status(job(failed=30), *pods)
    assert len(found.restarts) == 20
    assert found.restarts[-1] == found.since
