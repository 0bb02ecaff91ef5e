"""The runtime on a control plane, as the service account of k8s/base, and an administrator who looks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubernetes import client

from local.stack.stack import wait_until
from sluice.clients.processes.kubernetes import KubernetesRuntime
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.core.processes.status import ProcessState
from tests.k8s.control_plane import ControlPlane
from tests.k8s.kubelet import Kubelet

NAMESPACE = "sluice"
ACCOUNT = "sluice-task"
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
        return Kubernetes(namespace, IMAGE, kubeconfig=self.plane.login(account, NAMESPACE, self._folder))

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


def ignoring_404(request: Callable[..., object], *arguments: Any, **options: Any) -> None:
    try:
        request(*arguments, **options)
    except client.ApiException as error:
        assert error.status == 404  # noqa: PT017 - it has ended by itself
