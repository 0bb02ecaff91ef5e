"""What a SparkApplication and its driver pod say of a component's process.

The operator has no liveness probe, and sees a node that is lost late: the driver pod says more than the
resource does. Whether the process makes progress is for supervision to say, as everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sluice.clients.kubernetes.jobs import LONG_DELAY, RESTARTS_KEPT
from sluice.clients.kubernetes.observed_pod import (
    Object,
    Pod,
    State,
    ended_text,
    is_out_of_memory,
    lost_text,
    pending,
    running,
    seconds,
    stopping,
)
from sluice.clients.kubernetes.spark_application import DRIVER_CONTAINER, RETRY_SECONDS
from sluice.core.messages import failure_reason
from sluice.core.processes import exits
from sluice.core.processes.status import Problem, ProcessExit, ProcessState, ProcessStatus

# States of the resource: over for good; between two submissions; to be submitted.
OVER = frozenset({"SUCCEEDING", "COMPLETED", "FAILED"})
BETWEEN = frozenset({"RUNNING", "FAILING", "PENDING_RERUN", "SUBMISSION_FAILED"})
BEFORE = {
    "": "the Spark operator has not seen it",
    "SUBMITTED": "it is submitted, and has no driver pod",
    "INVALIDATING": "its declaration changed: the Spark operator submits it again",
    "SUSPENDING": "it is resumed once it has ended",
    "SUSPENDED": "the Spark operator resumes it",
    "RESUMING": "the Spark operator resumes it",
}
# Those after which the operator waits.
WAITS = frozenset({"FAILING", "SUBMISSION_FAILED"})
_EXIT = re.compile(r"ExitCode: (\d+), Reason: (\w*)")


@dataclass(frozen=True)
class ObservedApplication:
    """``application``: None without one; ``driver``: its pod, None without one; ``events``: of its executors,
    as (reason, message), newest last; ``now``: when observed."""

    application: Object | None
    driver: Object | None
    events: Sequence[tuple[str, str]]
    now: float


def application_status(program: str, seen: ObservedApplication) -> ProcessStatus:
    """The component's status. ``restarts``: their number is the operator's; of their moments only the newest
    is known, the others are spread evenly."""
    pod = Pod(seen.driver, DRIVER_CONTAINER) if seen.driver else None
    said = _Said(seen.application or {})
    state, description, problem = _state(seen, said, pod)
    last_exit = _last_exit(said, pod)
    restarts = _restarts(said, pod)
    return ProcessStatus(
        program=program,
        state=state,
        since=pod.started if pod else None,
        created=_created(said, pod),
        exit_status=last_exit.code if last_exit else None,
        description=description,
        restarts=restarts,
        last_exit=last_exit if restarts or state is not ProcessState.RUNNING else None,
        restart_at=said.restart_at if state is ProcessState.BACKOFF else None,
        problem=problem,
    )


def _created(said: _Said, pod: Pod | None) -> float | None:
    """When the driver pod was made, or before the first its resource; None between two pods."""
    if pod is not None:
        return seconds(pod.data["metadata"].get("creationTimestamp"))
    return None if said.submissions else said.created


class _Said:
    """The resource's status."""

    def __init__(self, application: Object) -> None:
        status = application.get("status") or {}
        state = status.get("applicationState") or {}
        self.state = str(state.get("state") or "")
        self.error = str(state.get("errorMessage") or "")
        self.attempts = int(status.get("executionAttempts") or 0)
        self.submissions = int(status.get("submissionAttempts") or 0)
        self.created = seconds(application.get("metadata", {}).get("creationTimestamp"))
        self.submitted = seconds(status.get("lastSubmissionAttemptTime"))
        self.ended = seconds(status.get("terminationTime"))
        self.is_suspended = bool(application.get("spec", {}).get("suspend"))

    @property
    def restart_at(self) -> float | None:
        """When the operator submits it again; None for at once."""
        if self.submitted is None or self.state not in WAITS:
            return None
        return self.submitted + RETRY_SECONDS * self.submissions


def _state(seen: ObservedApplication, said: _Said, pod: Pod | None) -> State:
    is_alive = pod is not None and not pod.is_over and pod.terminated is None
    if seen.application is None or seen.application["metadata"].get("deletionTimestamp"):
        if pod is not None and is_alive:
            return stopping(pod, seen.now)
        return ProcessState.STOPPED, "it has no SparkApplication", None
    if pod is not None and is_alive:
        return _alive(seen, said, pod)
    if said.is_suspended and said.state not in OVER:
        if said.state == "SUSPENDED":
            return ProcessState.STOPPED, "its SparkApplication is suspended", None
        return ProcessState.STOPPING, "the Spark operator suspends it", None
    if said.state in OVER or (pod is not None and pod.exit is not None and pod.exit.code == 0):
        return _over(said, pod)
    if pod is not None or said.state in BETWEEN:
        return _between(seen, said, pod)
    if said.state in BEFORE:
        return ProcessState.STARTING, BEFORE[said.state], None
    return ProcessState.UNKNOWN, f"the Spark operator says {said.state}", None


def _alive(seen: ObservedApplication, said: _Said, pod: Pod) -> State:
    if pod.deleted is not None or said.is_suspended:
        return stopping(pod, seen.now)
    if pod.is_lost(seen.now):
        return ProcessState.RUNNING, lost_text(pod), Problem.NODE_LOST
    if pod.running is None:
        return pending(pod)
    return running(pod, seen.events)


def _over(said: _Said, pod: Pod | None) -> State:
    if pod is None or pod.exit is None:
        reason = failure_reason(said.error.splitlines()) if said.error else "it has no driver pod"
        return ProcessState.FATAL, f"its SparkApplication is {said.state}: {reason}", _problem(said, pod)
    lines = _message(pod).splitlines()
    reason = failure_reason(lines) if lines else ended_text(pod)
    return ProcessState.EXITED, reason, _problem(said, pod)


def _between(seen: ObservedApplication, said: _Said, pod: Pod | None) -> State:
    problem = _problem(said, pod)
    if pod is not None:
        text = ended_text(pod)
    elif said.error:
        lines = said.error.splitlines()
        text = failure_reason([line for line in lines if "exceeded quota" in line] or lines)
    else:
        text = "its driver pod is gone: the Spark operator submits it again"
    if said.restart_at is not None and said.restart_at - seen.now > LONG_DELAY:
        return (
            ProcessState.EXITED,
            f"{text}; the Spark operator would wait long before it restarts it",
            problem,
        )
    return ProcessState.BACKOFF, text, problem


def _problem(said: _Said, pod: Pod | None) -> Problem | None:
    found = _EXIT.search(said.error)
    if is_out_of_memory(pod) if pod else found and found[2] == "OOMKilled":
        return Problem.OUT_OF_MEMORY
    return Problem.QUOTA_EXCEEDED if "exceeded quota" in said.error else None


def _message(pod: Pod) -> str:
    return str((pod.terminated or {}).get("message") or "")


def _last_exit(said: _Said, pod: Pod | None) -> ProcessExit | None:
    """By its pod, or of a pod that the operator has deleted, by what it says."""
    if pod is not None:
        final = exits.final_end(_message(pod))
        return replace(pod.exit, code=final[0]) if pod.exit and final else pod.exit
    found = _EXIT.search(said.error)
    if found is None or said.ended is None:
        return None
    return ProcessExit(said.ended, int(found[1]), max(said.ended - (said.submitted or said.ended), 0.0))


def _restarts(said: _Said, pod: Pod | None) -> tuple[float, ...]:
    count = said.attempts - 1
    newest = (pod.started if pod else None) or said.submitted
    if count < 1 or newest is None or said.created is None:
        return ()
    step = max(newest - said.created, 0.0) / count
    return tuple(newest - step * before for before in reversed(range(min(count, RESTARTS_KEPT))))
