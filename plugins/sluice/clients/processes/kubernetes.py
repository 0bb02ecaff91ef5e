"""The runtime on a Kubernetes cluster without operators: a Job of one pod per component.

Kubernetes restarts what ends. A stop suspends the Job, so that its pod is not replaced; a start makes a new
Job, from the declaration as it is then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sluice.clients.kubernetes.api import FIELD_MANAGER, Conflict, KubernetesApi, NotFound
from sluice.clients.kubernetes.jobs import Observed, component_job, job_name, process_status
from sluice.clients.kubernetes.observed_pod import Pod
from sluice.clients.kubernetes.pods import CONTAINER
from sluice.clients.polling import wait_for
from sluice.clients.processes.base import TIMEOUT_SECONDS, Runtime
from sluice.config import streams
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import Component, StreamSpec
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Missing, Refused, Unreachable
from sluice.core.processes.status import ENDED, Problem, ProcessState, ProcessStatus

# After the grace, until a pod and its Job must be gone.
HARD_SECONDS = 30.0
# Events about older states say nothing of now.
EVENT_SECONDS = 600.0
# Which Job a pod is of, and what keeps a pod until the Job's controller has counted it.
UID_LABEL, FINALIZER = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-tracking"
STRATEGIC = "application/strategic-merge-patch+json"
# Assumed length of a log's line: the API is asked for lines, not bytes.
LINE_BYTES = 100
FIXES = {
    400: "see the message",
    401: "correct the kubeconfig's login",
    403: "apply k8s/base, and bind its roles to this login",
    404: "apply k8s/base, and correct the namespace in [kubernetes]",
    409: "none: another request was first",
    422: "correct [cluster] in stream.toml, and [kubernetes] in the platform file",
}


class KubernetesRuntime(Runtime):
    """Jobs in the namespace of ``config``; each request has ``timeout`` seconds."""

    fixes: Mapping[int, str] = FIXES
    container = CONTAINER

    def __init__(self, config: Kubernetes, timeout: float = TIMEOUT_SECONDS) -> None:
        """Raises ConfigError for a kubeconfig that cannot be read."""
        from kubernetes.client import BatchV1Api, CoreV1Api

        self._config = config
        self._api = KubernetesApi(config.kubeconfig, "kubernetes", self.fixes)
        self._batch, self._core = BatchV1Api(self._api.client), CoreV1Api(self._api.client)
        self._options = {"namespace": config.namespace, "_request_timeout": timeout}

    def status(self, program: str) -> ProcessStatus:
        spec, _, name = declared(program)
        return process_status(program, self._observe(spec, name))

    def start(self, program: str) -> bool:
        spec, component, name = declared(program)
        seen = self._observe(spec, name)
        status = process_status(program, seen)
        if status.state is ProcessState.STOPPING:
            raise Unreachable(f"{status.message()} and cannot be started before it has ended; start it again")
        if status.state not in ENDED:
            return False
        body = component_job(spec, component, self._config)
        try:
            if seen.job is not None:
                self._remove(name, seen.job["metadata"]["uid"])
            self._ask(name, self._batch.create_namespaced_job, body=body, field_manager=FIELD_MANAGER)
        except Conflict:
            return False  # a concurrent start was first
        return True

    def stop(self, program: str, grace: float, instance: str | None = None) -> ProcessStatus:
        began = time.monotonic()
        _, _, name = declared(program)
        status = self.status(program)
        if instance not in (None, status.identity):
            return status
        # Also one whose pod has ended: Kubernetes may replace it later.
        self._suspend(name)
        # 0 would remove the pod from the API before its process has ended.
        self._delete_pods(name, max(int(grace), 1))
        status = self._wait(program, grace + HARD_SECONDS, is_lost_enough=True)
        if status.problem is Problem.NODE_LOST:
            # No kubelet confirms its end. If its process lives on, its epoch is not the newest.
            self._delete_pods(name, 0, is_forced=True)
            status = self._wait(program, HARD_SECONDS)
        if status.state not in ENDED:
            raise Unreachable(
                f"{status.message()}, {time.monotonic() - began:.0f} s after the stop request. "
                "Fix: see the pod's events and its node"
            )
        return status

    def tail(self, program: str, size: int = 8192) -> list[str]:
        _, _, name = declared(program)
        pods = [Pod(data, self.container) for data in self._pods(name)]
        started = [pod for pod in pods if pod.started is not None]
        if not started:
            return []
        newest = max(started, key=lambda pod: pod.started or 0.0)
        try:
            answer = self._ask(
                newest.name,
                self._core.read_namespaced_pod_log,
                name=newest.name,
                container=self.container,
                tail_lines=max(size // LINE_BYTES, 1),
                # Else the client takes a log that is JSON for a document.
                _preload_content=False,
            )
            text = self._api.ask(newest.name, lambda: answer.data.decode(errors="replace"))
        except NotFound:
            return []  # it was removed meanwhile
        return [line for line in text[-size:].splitlines() if line.strip()]

    def _observe(self, spec: StreamSpec, name: str) -> Observed:
        # In this order: a Job that is made meanwhile has none of these pods.
        now, found = time.time(), self._pods(name)
        try:
            job = self._read(name)
        except NotFound:
            return Observed(None, found, (), now)
        pods = [pod for pod in found if pod["metadata"]["labels"].get(UID_LABEL) == job["metadata"]["uid"]]
        running = [pod for pod in map(Pod, pods) if pod.running is not None and pod.deleted is None]
        events: list[tuple[str, str]] = []
        if not running:
            of_job = f"involvedObject.kind=Job,involvedObject.uid={job['metadata']['uid']}"
            # Those before its newest pod say why there was none then.
            made = [_moment(pod) for pod in pods]
            events = self._events(of_job, max([now - EVENT_SECONDS, *made]))
        elif spec.cluster.executors:
            of_executors = [f"{pod.name}-exec-" for pod in running]
            events = self._events("reason=Preempted", now - EVENT_SECONDS, tuple(of_executors))
        return Observed(job, pods, events, now)

    def _pods(self, job: str) -> list[dict[str, Any]]:
        selector = f"batch.kubernetes.io/job-name={job}"
        found = self._json(job, self._core.list_namespaced_pod, label_selector=selector)
        return list(found["items"])

    def _events(self, selector: str, since: float, names: tuple[str, ...] = ("",)) -> list[tuple[str, str]]:
        """(reason, message), oldest first, of objects whose names begin with one of ``names``."""
        found = self._json("its events", self._core.list_namespaced_event, field_selector=selector)["items"]
        dated = [(_moment(event), event) for event in found]
        return [
            (str(event.get("reason", "")), str(event.get("message", "")))
            for at, event in sorted(dated, key=lambda pair: pair[0])
            if at >= since and str(event["involvedObject"].get("name", "")).startswith(names)
        ]

    def _suspend(self, name: str) -> None:
        try:
            self._patch(name, {"spec": {"suspend": True}})
        except NotFound:
            return  # without a Job no pod is replaced

    def _remove(self, name: str, uid: str) -> None:
        """Delete this Job with its pods, and wait until it is gone. Raises Conflict if it is another now."""
        options = {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
        try:
            self._delete(name, options)
        except NotFound:
            return
        if not wait_for(lambda: self._is_gone(name, uid), HARD_SECONDS):
            raise Unreachable(
                f"{name} is not gone {HARD_SECONDS:.0f} s after its deletion. Fix: see its finalizers",
                ErrorCode.KUBERNETES_UNREACHABLE,
            )

    def _is_gone(self, name: str, uid: str) -> bool:
        try:
            found = self._read(name)
        except NotFound:
            return True
        return bool(found["metadata"]["uid"] != uid)

    def _read(self, name: str) -> dict[str, Any]:
        return dict(self._json(name, self._batch.read_namespaced_job, name=name))

    def _patch(self, name: str, body: dict[str, Any]) -> None:
        self._ask(name, self._batch.patch_namespaced_job, name=name, body=body, field_manager=FIELD_MANAGER)

    def _delete(self, name: str, options: dict[str, Any]) -> None:
        self._ask(name, self._batch.delete_namespaced_job, name=name, body=options)

    def _delete_pods(self, job: str, grace: int, is_forced: bool = False) -> None:
        for pod in map(Pod, self._pods(job)):
            if pod.is_over:
                continue
            try:
                if is_forced:
                    # The Job's controller keeps it until a kubelet says that the pod has ended.
                    finalizers = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
                    patch = self._core.patch_namespaced_pod
                    self._ask(pod.name, patch, name=pod.name, body=finalizers, _content_type=STRATEGIC)
                options = {"gracePeriodSeconds": grace}
                self._ask(pod.name, self._core.delete_namespaced_pod, name=pod.name, body=options)
            except NotFound:
                continue  # it was faster

    def _wait(self, program: str, seconds: float, is_lost_enough: bool = False) -> ProcessStatus:
        """Until it has ended, or also until its node is lost."""

        def observe() -> ProcessStatus | ClientError:
            try:
                return self.status(program)
            except ClientError as error:
                # The API server may restart meanwhile, and knows no rights in its first moment.
                return error

        def is_done(found: ProcessStatus | ClientError) -> bool:
            if isinstance(found, ClientError):
                return False
            return found.state in ENDED or (is_lost_enough and found.problem is Problem.NODE_LOST)

        found = wait_for(observe, seconds, is_done=is_done)
        if isinstance(found, ClientError):
            raise found
        return found

    def _json(self, where: str, request: Any, **arguments: Any) -> Any:
        return self._api.json(self._ask(where, request, **arguments))

    def _ask(self, where: str, request: Any, **arguments: Any) -> Any:
        label = f"{self._config.namespace}/{where}"
        return self._api.ask(label, lambda: request(**self._options, **arguments))


def declared(program: str) -> tuple[StreamSpec, Component, str]:
    """Its stream, component, and the name of its Job. Other streams may be invalid."""
    # stream-<name> or stream-<name>-<component>; neither has a dash.
    name = program.partition("-")[2].partition("-")[0]
    try:
        spec = streams.load(name)
    except ConfigError as error:
        raise Missing(f"program {program!r} is of no declared stream: {error}", error.code) from error
    for component in spec.components.values():
        if component.program == program:
            try:
                return spec, component, job_name(component, spec)
            except ConfigError as error:
                raise Refused(str(error), error.code) from error
    raise Missing(f"stream {name!r} has no component with program {program!r}. Fix: see its stream.toml")


def _moment(found: dict[str, Any]) -> float:
    """Return when an event happened, or when another object was created."""
    text = found.get("lastTimestamp") or found.get("eventTime") or found["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(text).timestamp()
