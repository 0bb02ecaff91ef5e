"""The runtime on a Kubernetes cluster with the Spark operator: a SparkApplication per component with a JVM.

The operator submits it, and submits it again when its driver failed. A stop suspends it; a start makes a new
one, from the declaration as it is then, so that the operator's counts and waits begin again. A component
without a JVM, a feed's producer, is a Job of one pod here too.
"""

from __future__ import annotations

import time
from typing import Any

from sluice.clients.kubernetes.api import FIELD_MANAGER, MERGE, Conflict, NotFound
from sluice.clients.kubernetes.application_status import ObservedApplication, application_status
from sluice.clients.kubernetes.pods import PodJob
from sluice.clients.kubernetes.spark_application import (
    DRIVER_CONTAINER,
    GROUP,
    PLURAL,
    VERSION,
    component_application,
    driver_name,
)
from sluice.clients.processes.base import TIMEOUT_SECONDS
from sluice.clients.processes.kubernetes import EVENT_SECONDS, FIXES, KubernetesRuntime, declared
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.config.stream import Component, StreamSpec
from sluice.core.errors import Unreachable
from sluice.core.processes.status import ENDED, ProcessState, ProcessStatus


class SparkOperatorRuntime(KubernetesRuntime):
    """SparkApplications in the namespace of ``config``; each request has ``timeout`` seconds."""

    fixes = FIXES | {
        404: "install the Spark operator, apply k8s/base, and correct the namespace in [kubernetes]",
        409: "leave the resource to Sluice, or delete it",
    }
    container = DRIVER_CONTAINER

    def __init__(self, config: Kubernetes, timeout: float = TIMEOUT_SECONDS) -> None:
        """Raises ConfigError for a kubeconfig that cannot be read."""
        from kubernetes.client import CustomObjectsApi

        super().__init__(config, timeout)
        self._jobs = KubernetesRuntime(config, timeout)
        self._custom = CustomObjectsApi(self._api.client)
        self._kind = {"group": GROUP, "version": VERSION, "plural": PLURAL}

    def status(self, program: str) -> ProcessStatus:
        spec, component, name = declared(program)
        if not _has_jvm(spec, component):
            return self._jobs.status(program)
        return application_status(program, self._observe_application(name))

    def start(self, program: str) -> bool:
        spec, component, name = declared(program)
        if not _has_jvm(spec, component):
            return self._jobs.start(program)
        seen = self._observe_application(name)
        status = application_status(program, seen)
        if status.state is ProcessState.STOPPING:
            raise Unreachable(f"{status.message()} and cannot be started before it has ended; start it again")
        if status.state not in ENDED:
            return False
        if seen.application is not None:
            try:
                self._remove(name, seen.application["metadata"]["uid"])
            except Conflict:
                return False  # a concurrent start was first
        return self._apply(name, component_application(spec, component, self._config))

    def stop(self, program: str, grace: float, instance: str | None = None) -> ProcessStatus:
        spec, component, _ = declared(program)
        if not _has_jvm(spec, component):
            return self._jobs.stop(program, grace, instance)
        return super().stop(program, grace, instance)

    def tail(self, program: str, size: int = 8192) -> list[str]:
        spec, component, _ = declared(program)
        if not _has_jvm(spec, component):
            return self._jobs.tail(program, size)
        return super().tail(program, size)

    def _observe_application(self, name: str) -> ObservedApplication:
        now = time.time()
        application: dict[str, Any] | None
        try:
            application = self._read(name)
        except NotFound:
            application = None
        drivers = self._pods(name)
        executors = tuple(((application or {}).get("status") or {}).get("executorState") or ())
        events: list[tuple[str, str]] = []
        if executors:
            events = self._events("reason=Preempted", now - EVENT_SECONDS, executors)
        return ObservedApplication(application, drivers[0] if drivers else None, events, now)

    def _apply(self, name: str, body: dict[str, Any]) -> bool:
        """False if a concurrent start had made it. Raises Conflict if another manager did otherwise."""
        patch = self._custom.patch_namespaced_custom_object
        namespace = self._config.namespace
        answer = self._api.apply(
            f"{namespace}/{name}", patch, **self._kind, namespace=namespace, name=name, body=body
        )
        return answer is None

    def _pods(self, name: str) -> list[dict[str, Any]]:
        """The driver's, if it is there."""
        pod = driver_name(name)
        try:
            return [self._json(pod, self._core.read_namespaced_pod, name=pod)]
        except NotFound:
            return []

    def _read(self, name: str) -> dict[str, Any]:
        return dict(self._ask(name, self._custom.get_namespaced_custom_object, **self._kind, name=name))

    def _patch(self, name: str, body: dict[str, Any]) -> None:
        patch = self._custom.patch_namespaced_custom_object
        options = {"field_manager": FIELD_MANAGER, "_content_type": MERGE}
        self._ask(name, patch, **self._kind, name=name, body=body, **options)

    def _delete(self, name: str, options: dict[str, Any]) -> None:
        delete = self._custom.delete_namespaced_custom_object
        self._ask(name, delete, **self._kind, name=name, body=options)


def _has_jvm(spec: StreamSpec, component: Component) -> bool:
    return PodJob(spec, component.name).has_jvm
