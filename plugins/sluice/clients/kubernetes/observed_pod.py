"""A pod of ours, as the API's JSON (``kubectl get -o json``), and what it says of its process.

Its times become seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sluice.clients.kubernetes.pods import CONTAINER
from sluice.core.processes.status import Problem, ProcessExit, ProcessState

# A pod that is being deleted and still there so long after its grace is on a node that does not answer. Less
# than a stop waits for.
LOST_SECONDS = 20.0
# Reasons of a waiting container whose image is not there.
NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
Object = Mapping[str, Any]
# State, description and problem of a process.
State = tuple[ProcessState, str, Problem | None]


class Pod:
    """A pod and its one ``container`` of ours, as far as it matters here."""

    def __init__(self, data: Object, container: str = CONTAINER) -> None:
        self.data = data
        self.name = str(data["metadata"]["name"])
        self.phase = str(data["status"].get("phase", "Unknown"))
        self.deleted = seconds(data["metadata"].get("deletionTimestamp"))
        statuses = data["status"].get("containerStatuses") or []
        found: Object = next((one for one in statuses if one["name"] == container), {})
        states: Object = found.get("state") or {}
        self.waiting: Object = states.get("waiting") or {}
        self.running: Object | None = states.get("running")
        self.terminated: Object | None = states.get("terminated")
        self.started = seconds((self.running or self.terminated or {}).get("startedAt"))

    @property
    def is_over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def exit(self) -> ProcessExit | None:
        if self.terminated is None:
            return None
        # Without its moment where the kubelet has forgotten the container.
        at = seconds(self.terminated.get("finishedAt")) or self._changed
        return ProcessExit(at, int(self.terminated["exitCode"]), max(at - (self.started or at), 0.0))

    @property
    def _changed(self) -> float:
        """When its newest condition changed."""
        conditions = self.data["status"].get("conditions") or []
        moments = [seconds(one.get("lastTransitionTime")) or 0.0 for one in conditions]
        return max([seconds(self.data["metadata"]["creationTimestamp"]) or 0.0, *moments])

    def condition(self, kind: str) -> Object:
        conditions = self.data["status"].get("conditions") or []
        return next((one for one in conditions if one["type"] == kind), {})

    def is_lost(self, now: float) -> bool:
        """Its node does not answer: the container runs, and the control plane calls the pod not ready; or
        its deletion is overdue."""
        if self.is_over:
            return False
        if self.deleted is not None and now > self.deleted + LOST_SECONDS:
            return True
        ready, containers = self.condition("Ready"), self.condition("ContainersReady")
        return ready.get("status") == "False" and containers.get("status") == "True"


def stopping(pod: Pod, now: float) -> State:
    if pod.is_lost(now):
        return ProcessState.STOPPING, lost_text(pod), Problem.NODE_LOST
    return ProcessState.STOPPING, f"pod {pod.name} is ending", None


def lost_text(pod: Pod) -> str:
    return f"pod {pod.name}: node {pod.data['spec'].get('nodeName', 'unknown')} does not answer"


def running(pod: Pod, events: Sequence[tuple[str, str]]) -> State:
    """``events``: of its executors, as (reason, message), newest last."""
    preempted = [text for reason, text in events if reason == "Preempted"]
    if preempted:
        return ProcessState.RUNNING, f"pod {pod.name}; {preempted[-1]}", Problem.EXECUTOR_PREEMPTED
    return ProcessState.RUNNING, f"pod {pod.name}", None


def pending(pod: Pod) -> State:
    reason, said = pod.waiting.get("reason", ""), pod.waiting.get("message", "")
    if reason in NO_IMAGE:
        image = pod.data["spec"]["containers"][0]["image"]
        text = f"pod {pod.name}: image {image} cannot be pulled: {said or reason}"
        return ProcessState.STARTING, text, Problem.IMAGE_MISSING
    scheduled = pod.condition("PodScheduled")
    if scheduled.get("reason") == "Unschedulable":
        text = f"pod {pod.name} has no node: {scheduled.get('message', '')}"
        return ProcessState.STARTING, text, Problem.UNSCHEDULABLE
    detail = f": {reason} {said}".rstrip() if reason else ""
    return ProcessState.STARTING, f"pod {pod.name} is starting{detail}", None


def is_out_of_memory(pod: Pod) -> bool:
    return (pod.terminated or {}).get("reason") == "OOMKilled"


def ended_text(pod: Pod) -> str:
    if is_out_of_memory(pod):
        limit = pod.data["spec"]["containers"][0]["resources"]["limits"]["memory"]
        return f"pod {pod.name} was killed at its memory limit of {limit}"
    disruption = pod.condition("DisruptionTarget")
    if disruption.get("status") == "True":
        said = disruption.get("message") or disruption.get("reason")
        return f"pod {pod.name} was removed by Kubernetes: {said}"
    return f"pod {pod.name} ended"


def seconds(text: str | None) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None
