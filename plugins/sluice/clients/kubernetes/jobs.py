"""A component as a Job of one pod, which Kubernetes restarts; and what the Job and its pods say of it.

Jobs are the API's JSON, as pods are (``observed_pod``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

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
from sluice.clients.kubernetes.pods import CONTAINER, MAX_PREFIX, PodJob, dashed, pod_labels, pod_spec
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import Component, StreamSpec
from sluice.core.messages import failure_reason
from sluice.core.processes import exits
from sluice.core.processes.status import Problem, ProcessState, ProcessStatus

# Kubernetes' delay before the n-th restart: 10 s, doubled each time, 360 s at most. It never resets while the
# Job lives, so a later restart is left to supervision, which makes a new Job.
FIRST_DELAY, MAX_DELAY, LONG_DELAY = 10.0, 360.0, 60.0
RESTARTS_KEPT = 20
# Kubernetes adds 6 characters for the pod's name.
MAX_NAME = MAX_PREFIX - 6


def job_name(component: Component, spec: StreamSpec) -> str:
    """Injective: names of streams have no dash, of components neither. Raises ConfigError for a long one, and
    for a stream whose name cannot be a label."""
    if spec.name.endswith("_"):
        raise ConfigError(
            f"stream {spec.name!r}: on Kubernetes its name cannot end with an underscore. Fix: rename it"
        )
    name = dashed(spec, component.name)
    if len(name) > MAX_NAME:
        raise ConfigError(
            f"stream {spec.name!r}: the name of its Job, {name}, has more than {MAX_NAME} characters. "
            "Fix: give it a shorter name"
        )
    return name


def component_job(spec: StreamSpec, component: Component, config: Kubernetes) -> dict[str, Any]:
    """The Job that keeps ``component`` running. Its pod is replaced when it has ended, never beside it."""
    job = PodJob(spec, component.name)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(component, spec),
            "namespace": config.namespace,
            "labels": job.labels,
        },
        "spec": {
            # Supervision counts restarts.
            "backoffLimit": 2_147_483_647,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {
                            "containerName": CONTAINER,
                            "operator": "In",
                            "values": sorted(exits.FINAL),
                        },
                    },
                    # Evicted, preempted, drained: no failure of its own.
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                ]
            },
            "template": {"metadata": {"labels": pod_labels(job, config)}, "spec": pod_spec(job, config)},
        },
    }


@dataclass(frozen=True)
class Observed:
    """``job``: None without one; ``pods``: of it, or of a deleted one of its name, in any order; ``events``:
    about it without a pod, and of executors, as (reason, message), newest last; ``now``: when observed."""

    job: Object | None
    pods: Sequence[Object]
    events: Sequence[tuple[str, str]]
    now: float


def process_status(program: str, seen: Observed) -> ProcessStatus:
    """The component's status. ``since``: start of the newest pod's container, whatever it does now."""
    pods = [Pod(pod) for pod in sorted(seen.pods, key=lambda pod: pod["metadata"]["creationTimestamp"])]
    newest = pods[-1] if pods else None
    state, description, problem = _state(seen, newest)
    ended = [pod.exit for pod in pods if pod.exit]
    last_exit = ended[-1] if ended else None
    restarts = _restarts(seen.job or {}, pods)
    return ProcessStatus(
        program=program,
        state=state,
        since=newest.started if newest else None,
        created=_created(seen.job, newest),
        exit_status=last_exit.code if last_exit else None,
        description=description,
        restarts=restarts,
        refused=_refused(pods),
        last_exit=last_exit if restarts or state is not ProcessState.RUNNING else None,
        restart_at=_restart_at(seen.job or {}, pods) if state is ProcessState.BACKOFF else None,
        problem=problem,
    )


def _created(job: Object | None, newest: Pod | None) -> float | None:
    """When the newest pod was made, or before the first its Job; None between two pods."""
    made = newest.data if newest else job
    if made is None or (newest is None and _number_made(made)):
        return None
    return seconds(made["metadata"].get("creationTimestamp"))


def _number_made(job: Object) -> int:
    """Pods that the Job has had."""
    status = job.get("status", {})
    return sum(int(status.get(name) or 0) for name in ("failed", "succeeded", "active"))


def _state(seen: Observed, pod: Pod | None) -> State:
    if seen.job is None or seen.job["metadata"].get("deletionTimestamp"):
        return _without_job(seen, pod)
    if (failed := _failed(seen.job, pod)) is not None:
        return _failed_state(failed, pod)
    is_suspended = bool(seen.job["spec"].get("suspend"))
    if pod is None or pod.is_over:
        if is_suspended:
            return ProcessState.STOPPED, "its Job is suspended", None
        return _between(seen.job, seen, pod)
    if pod.deleted is not None or is_suspended:
        return stopping(pod, seen.now)
    if pod.is_lost(seen.now):
        return ProcessState.RUNNING, lost_text(pod), Problem.NODE_LOST
    if pod.running is not None:
        return running(pod, seen.events)
    return pending(pod)


def _without_job(seen: Observed, pod: Pod | None) -> State:
    """No Job, or one that is being deleted: its pod is not replaced, and may still run."""
    if pod is None or pod.is_over:
        return ProcessState.STOPPED, "it has no Job", None
    return stopping(pod, seen.now)


def _between(job: Object, seen: Observed, pod: Pod | None) -> State:
    """The Job has no pod now: it makes one, or waits before it does."""
    created = [text for reason, text in seen.events if reason == "FailedCreate"]
    if created:
        refused = Problem.QUOTA_EXCEEDED if "exceeded quota" in created[-1] else Problem.NOT_STARTED
        return ProcessState.BACKOFF, created[-1], refused
    if pod is None:
        return ProcessState.STARTING, "its Job makes a pod", None
    problem = Problem.OUT_OF_MEMORY if is_out_of_memory(pod) else None
    text = ended_text(pod)
    if pod.exit and pod.exit.code == exits.LOGIN_REFUSED:
        return ProcessState.BACKOFF, _said(pod) or text, problem
    restart_at = _restart_at(job, [pod])
    if restart_at is not None and restart_at - seen.now > LONG_DELAY:
        return ProcessState.EXITED, f"{text}; Kubernetes would wait long before it restarts it", problem
    return ProcessState.BACKOFF, text, problem


def _failed_state(condition: Object, pod: Pod | None) -> State:
    if pod is None or pod.exit is None:
        return ProcessState.FATAL, f"its Job failed: {condition.get('message', '')}", None
    reason = _said(pod) or f"pod {pod.name}"
    return ProcessState.EXITED, reason, Problem.OUT_OF_MEMORY if is_out_of_memory(pod) else None


def _said(pod: Pod) -> str:
    """Why a pod's process ended, by its own last words; empty without any."""
    message = str((pod.terminated or {}).get("message") or "")
    return failure_reason(message.splitlines()) if message else ""


def _failed(job: Object, pod: Pod | None) -> Object | None:
    """The condition by which the Job is over; complete, too, is not what a component should be.

    Kubernetes sets it a moment after the pod's end.
    """
    if pod is not None and pod.is_over and pod.exit and pod.exit.code in exits.FINAL:
        return {}
    conditions = job.get("status", {}).get("conditions") or []
    over = (one for one in conditions if one["type"] in ("Failed", "Complete") and one["status"] == "True")
    return next(over, None)


def _restarts(job: Object, pods: Sequence[Pod]) -> tuple[float, ...]:
    """Starts of the pods but the Job's first one, which may have been deleted."""
    is_first_there = _number_made(job) <= len(pods)
    starts = [pod.started for pod in pods[1 if is_first_there else 0 :]]
    return tuple(start for start in starts if start is not None)[-RESTARTS_KEPT:]


def _refused(pods: Sequence[Pod]) -> tuple[float, ...]:
    """Starts of the pods that came after one whose login was refused."""
    after = [pod for before, pod in pairwise(pods) if before.exit and before.exit.code == exits.LOGIN_REFUSED]
    return tuple(pod.started for pod in after if pod.started is not None)[-RESTARTS_KEPT:]


def _restart_at(job: Object, pods: Sequence[Pod]) -> float | None:
    """When Kubernetes replaces the newest pod; None if no pod has ended."""
    ends = [pod.exit.at for pod in pods if pod.exit]
    failed = max(int(job.get("status", {}).get("failed") or 0), 1)
    wait = min(FIRST_DELAY * 2.0 ** min(failed - 1, 10), MAX_DELAY)
    return ends[-1] + wait if ends else None
