"""What a SparkApplication, its driver pod and events say of a component's process."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.kubernetes.application_status import (
    BEFORE,
    BETWEEN,
    OVER,
    ObservedApplication,
    application_status,
)
from sluice.clients.kubernetes.jobs import RESTARTS_KEPT
from sluice.clients.kubernetes.observed_pod import LOST_SECONDS
from sluice.core.processes import exits
from sluice.core.processes.status import ENDED, Problem, ProcessExit, ProcessStatus
from sluice.core.processes.status import ProcessState as S
from tests.unit.clients.kubernetes import test_status as pods
from tests.unit.clients.kubernetes.test_status import NOW, at

STATES = sorted({*OVER, *BETWEEN, *BEFORE, "UNKNOWN"})
QUOTA = (
    "failed to submit spark application: failed to run spark-submit: WARN x\n"
    'Exception in thread "main" io.fabric8.kubernetes.client.KubernetesClientException: Failure executing\n'
    'Caused by: io.fabric8.KubernetesClientException: pods "a-driver" is forbidden: exceeded quota: small\n'
    "\tat io.fabric8.kubernetes.client.dsl.internal.OperationSupport.handle(OperationSupport.java:640)\n"
)


def app(
    state: str = "", suspend: bool = False, deleted: bool = False, error: str = "", **status: Any
) -> dict[str, Any]:
    metadata = {"name": "a", "creationTimestamp": at(-1000)}
    if deleted:
        metadata["deletionTimestamp"] = at(-1)
    found: dict[str, Any] = {"metadata": metadata, "spec": {"suspend": suspend}}
    if state:
        found["status"] = {"applicationState": {"state": state, "errorMessage": error}, **status}
    return found


def _driver(pod: dict[str, Any]) -> dict[str, Any]:
    """As Spark names it."""
    for status in pod["status"].get("containerStatuses", ()):
        if status["name"] == "job":
            status["name"] = "spark-kubernetes-driver"
    pod["metadata"]["name"] = "a-driver"
    return pod


def running(**given: Any) -> dict[str, Any]:
    return _driver(pods.running(**given))


def ended(code: int, **given: Any) -> dict[str, Any]:
    pod = _driver(pods.ended(code, **given))
    pod["status"]["phase"] = "Failed" if code else "Succeeded"
    return pod


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return _driver(pods.pod({"waiting": {"reason": reason, "message": message}}, "Pending"))


def status(
    application: dict[str, Any] | None,
    driver: dict[str, Any] | None = None,
    events: list[tuple[str, str]] | None = None,
) -> ProcessStatus:
    return application_status("stream-a", ObservedApplication(application, driver, events or [], NOW))


@given(
    st.sampled_from([*STATES, "OF_A_LATER_OPERATOR"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", QUOTA, "driver container failed with ExitCode: 137, Reason: OOMKilled"]),
    st.sampled_from([None, "running", "pending", "0", "1", "76", "lost", "deleted"]),
    st.integers(0, 2**31 - 1),
    st.integers(0, 50),
    st.sampled_from([None, -5.0, -500.0]),
)
def test_each_state_with_each_driver_says_what_it_does(
    state: str,
    suspend: bool,
    deleted: bool,
    error: str,
    driver: str | None,
    attempts: int,
    submissions: int,
    submitted: float | None,
) -> None:
    made = {
        None: None,
        "running": running(),
        "pending": waiting("ContainerCreating"),
        "0": ended(0),
        "1": ended(1),
        "76": ended(0, message=exits.termination_message(76, "SLU-501 Fenced: newer")),
        "lost": running(deleted=-LOST_SECONDS - 1),
        "deleted": running(deleted=5),
    }[driver]
    given = {"executionAttempts": attempts, "submissionAttempts": submissions}
    moments = {"lastSubmissionAttemptTime": None if submitted is None else at(submitted)}
    found = status(app(state, suspend, deleted, error, **given, **moments), made)
    is_alive = driver in ("running", "pending", "lost", "deleted")
    # A driver that may write is never said to have ended, and one that has ended never to run.
    assert not (is_alive and found.state in ENDED)
    assert not (found.state is S.RUNNING and not is_alive)
    assert found.description
    if suspend or deleted:
        assert found.state in {*ENDED, S.STOPPING}
    assert len(found.restarts) == min(max(attempts - 1, 0), RESTARTS_KEPT) or found.restarts == ()
    assert list(found.restarts) == sorted(found.restarts)
    assert (found.restart_at is None) or found.state is S.BACKOFF
    assert ProcessStatus.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("", S.STARTING),
        ("SUBMITTED", S.STARTING),
        ("RUNNING", S.BACKOFF),
        ("FAILING", S.BACKOFF),
        ("PENDING_RERUN", S.BACKOFF),
        ("SUBMISSION_FAILED", S.BACKOFF),
        ("INVALIDATING", S.STARTING),
        ("SUCCEEDING", S.FATAL),
        ("COMPLETED", S.FATAL),
        ("FAILED", S.FATAL),
        ("SUSPENDING", S.STARTING),
        ("SUSPENDED", S.STARTING),
        ("RESUMING", S.STARTING),
        ("UNKNOWN", S.UNKNOWN),
        ("OF_A_LATER_OPERATOR", S.UNKNOWN),
    ],
)
def test_without_a_driver_pod_the_operators_state_says_all(state: str, expected: S) -> None:
    assert status(app(state)).state is expected


def test_no_application_is_stopped_once_its_driver_has_ended() -> None:
    assert status(None).state is S.STOPPED
    assert status(None, running()).state is S.STOPPING
    assert status(app("RUNNING", deleted=True), running()).state is S.STOPPING
    assert status(app("RUNNING", deleted=True), ended(143)).state is S.STOPPED
    lost = status(None, running(deleted=-LOST_SECONDS - 1))
    assert (lost.state, lost.problem) == (S.STOPPING, Problem.NODE_LOST)


def test_a_driver_that_runs() -> None:
    found = status(app("RUNNING", executionAttempts=1), running())
    assert (found.state, found.since, found.restarts, found.last_exit) == (S.RUNNING, NOW - 95, (), None)
    assert found.problem is None
    # The operator lags behind the kubelet.
    assert status(app("SUBMITTED"), running()).state is S.RUNNING


def test_a_hung_driver_is_the_resources_and_the_pods_to_call_running() -> None:
    """That it makes no progress is for supervision to see, by its offsets."""
    assert status(app("RUNNING"), running(made=-86_400)).state is S.RUNNING


def test_a_suspended_one_is_stopped_when_the_operator_and_its_pod_say_so() -> None:
    assert status(app("RUNNING", suspend=True), running()).state is S.STOPPING
    assert status(app("SUSPENDING", suspend=True), running(deleted=20)).state is S.STOPPING
    # The operator says so before the pod has ended.
    assert status(app("SUSPENDED", suspend=True), running(deleted=20)).state is S.STOPPING
    # It may be submitting it at this moment.
    assert status(app("PENDING_RERUN", suspend=True)).state is S.STOPPING
    assert status(app("", suspend=True)).state is S.STOPPING
    assert status(app("SUSPENDED", suspend=True)).state is S.STOPPED


@pytest.mark.parametrize("code", sorted(exits.BY_MESSAGE))
@pytest.mark.parametrize("state", ["RUNNING", "SUCCEEDING", "COMPLETED"])
def test_a_final_end_is_read_from_the_termination_message(code: int, state: str) -> None:
    reason = "SLU-501 Fenced: epoch 3 is newer"
    found = status(app(state), ended(0, message=exits.termination_message(code, reason)))
    assert (found.state, found.exit_status, found.description) == (S.EXITED, code, reason)
    assert found.last_exit == ProcessExit(NOW - 10, code, 85)
    assert found.is_misconfigured is (code == exits.CONFIGURATION)
    assert found.is_login_refused is (code == exits.LOGIN_REFUSED)


def test_one_that_is_over_stays_so_when_it_is_suspended() -> None:
    """The operator suspends only what is not over."""
    for driver in (ended(0, message=exits.termination_message(76, "SLU-501 Fenced")), None):
        found = status(app("COMPLETED", suspend=True), driver)
        assert found.state in ENDED
    assert status(app("FAILED", suspend=True), ended(1)).exit_status == 1


def test_an_end_with_0_is_not_restarted_by_the_operator() -> None:
    found = status(app("COMPLETED"), ended(0))
    assert (found.state, found.exit_status) == (S.EXITED, 0)
    # A log's end that looks like it is none: the message of a failure is the log's.
    assert status(app("COMPLETED"), ended(0, message="75 x")).exit_status == 0


def test_a_driver_that_failed_is_submitted_again() -> None:
    failing = app("FAILING", submissionAttempts=2, lastSubmissionAttemptTime=at(-15), executionAttempts=2)
    found = status(failing, ended(1))
    assert (found.state, found.exit_status, found.restart_at) == (S.BACKOFF, 1, NOW + 5)
    gone = app(
        "PENDING_RERUN",
        error="driver container failed with ExitCode: 1, Reason: Error",
        terminationTime=at(-3),
        lastSubmissionAttemptTime=at(-33),
    )
    found = status(gone)
    assert (found.state, found.last_exit, found.restart_at) == (S.BACKOFF, ProcessExit(NOW - 3, 1, 30), None)


def test_a_long_wait_of_the_operator_is_left_to_supervision() -> None:
    """Its wait grows with each submission, and begins again only with a new resource."""
    slow = app("FAILING", submissionAttempts=20, lastSubmissionAttemptTime=at(-15))
    found = status(slow, ended(1))
    assert (found.state, found.restart_at) == (S.EXITED, None)
    assert "would wait long" in found.description
    soon = app("FAILING", submissionAttempts=20, lastSubmissionAttemptTime=at(-195))
    assert status(soon, ended(1)).state is S.BACKOFF


def test_a_driver_out_of_memory_is_named_with_and_without_its_pod() -> None:
    found = status(app("FAILING"), ended(137, reason="OOMKilled"))
    assert (found.state, found.problem) == (S.BACKOFF, Problem.OUT_OF_MEMORY)
    assert "1920Mi" in found.description
    error = "driver container failed with ExitCode: 137, Reason: OOMKilled"
    found = status(app("PENDING_RERUN", error=error, terminationTime=at(-1)))
    assert (found.problem, found.exit_status) == (Problem.OUT_OF_MEMORY, 137)


def test_a_quota_is_what_the_submission_says() -> None:
    found = status(app("SUBMISSION_FAILED", error=QUOTA))
    assert (found.state, found.problem) == (S.BACKOFF, Problem.QUOTA_EXCEEDED)
    assert 'pods "a-driver" is forbidden: exceeded quota: small' in found.description
    # One that is up again is not kept back.
    assert status(app("RUNNING"), running()).problem is None


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_a_missing_image_is_the_drivers(reason: str) -> None:
    found = status(app("SUBMITTED"), waiting(reason, "not found"))
    assert (found.state, found.problem) == (S.STARTING, Problem.IMAGE_MISSING)


def test_a_node_that_does_not_answer_is_the_drivers() -> None:
    lost = {"Ready": {"status": "False"}, "ContainersReady": {"status": "True"}}
    found = status(app("RUNNING"), running(conditions=lost))
    assert (found.state, found.problem) == (S.RUNNING, Problem.NODE_LOST)
    assert "node-1" in found.description


def test_a_preempted_executor_is_named() -> None:
    events = [("Preempted", "Preempted by pod x on node node-1")]
    found = status(app("RUNNING"), running(), events)
    assert (found.state, found.problem) == (S.RUNNING, Problem.EXECUTOR_PREEMPTED)
    assert "Preempted by pod x" in found.description


def test_restarts_are_as_many_as_the_operator_counts_and_the_newest_is_the_drivers() -> None:
    found = status(app("RUNNING", executionAttempts=4), running())
    assert len(found.restarts) == 3
    assert found.restarts[-1] == found.since
    assert all(NOW - 1000 < restart <= NOW for restart in found.restarts)
