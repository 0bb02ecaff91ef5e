"""Pods and jobs of busybox, as PodSecurity `restricted` demands them."""

from __future__ import annotations

from typing import Any

from kubernetes import client

from local.stack.stack import wait_until
from tests.k8s.cluster import images

Manifest = dict[str, Any]
SECONDS = 60.0
ENDED = ("Succeeded", "Failed")


def pod_spec(script: str, **container: Any) -> Manifest:
    """`container`: fields of its container besides name, image and script."""
    own = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    main = {"name": "main", "image": images.BUSYBOX, "args": [script], "securityContext": own}
    return {"restartPolicy": "Never", "containers": [main | container]}


def pod(name: str, spec: Manifest) -> Manifest:
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


def job(name: str, spec: Manifest, **fields: Any) -> Manifest:
    """`fields`: of the job's `spec`."""
    return {"metadata": {"name": name}, "spec": {"template": {"spec": spec}} | fields}


class Objects:
    """The objects of a namespace."""

    def __init__(self, api: Any, namespace: str) -> None:
        self.namespace = namespace
        self.core = client.CoreV1Api(api)
        self.batch = client.BatchV1Api(api)

    def run(self, name: str, spec: Manifest) -> None:
        self.core.create_namespaced_pod(self.namespace, pod(name, spec))

    def wait_for_phase(self, name: str, phase: str) -> Any:
        """Give the pod in that phase. An AssertionError tells the status of one that ended otherwise."""

        def is_reached() -> bool:
            status = self.pod(name).status
            assert status.phase == phase or status.phase not in ENDED, f"pod {name}: {status}"
            return bool(status.phase == phase)

        wait_until(f"phase {phase} of pod {name}", is_reached, SECONDS, 0.2)
        return self.pod(name)

    def pod(self, name: str) -> Any:
        return self.core.read_namespaced_pod(name, self.namespace)

    def pods_of_job(self, name: str) -> list[Any]:
        found = self.core.list_namespaced_pod(self.namespace, label_selector=f"job-name={name}").items
        return sorted(found, key=lambda item: item.metadata.creation_timestamp)

    def log(self, name: str) -> str:
        # Otherwise the client gives the text of a bytes object.
        answer = self.core.read_namespaced_pod_log(name, self.namespace, _preload_content=False)
        return str(answer.data.decode())
