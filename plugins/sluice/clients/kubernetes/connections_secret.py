"""Exported Airflow connections on a Kubernetes cluster: keys of a Secret that the streams' pods mount."""

from __future__ import annotations

import base64
import json
from typing import Any

from sluice.clients.kubernetes.api import FIELD_MANAGER, MERGE, REQUEST_SECONDS, KubernetesApi
from sluice.clients.kubernetes.pods import CONNECTIONS_SECRET
from sluice.config.platform_sections.kubernetes import Kubernetes

_FIXES = {
    400: "see the message",
    401: "correct the kubeconfig's login",
    403: "apply k8s/base/role-connections.yaml, and bind its role to this login",
    404: f"correct the namespace in [kubernetes], and make Secret {CONNECTIONS_SECRET} there, empty",
    409: "none: another request was first",
    413: "remove keys of streams that are gone",
    422: "see the message",
}


class ConnectionsSecret:
    """Secret CONNECTIONS_SECRET in the namespace of ``config``."""

    def __init__(self, config: Kubernetes) -> None:
        """Raises ConfigError for a kubeconfig that cannot be read."""
        from kubernetes.client import CoreV1Api

        self._api = KubernetesApi(config.kubeconfig, "kubernetes", _FIXES)
        self._core = CoreV1Api(self._api.client)
        self._where = f"Secret {config.namespace}/{CONNECTIONS_SECRET}"
        self._options = {
            "name": CONNECTIONS_SECRET,
            "namespace": config.namespace,
            "_request_timeout": REQUEST_SECONDS,
            # Else the client logs, at level DEBUG, each answer with the Secret's data.
            "_preload_content": False,
        }

    def put(self, connection: str, text: str) -> bool:
        """Set key ``<connection>.toml``; whether that changed it. Other keys stay, also at the same time."""
        key, value = f"{connection}.toml", base64.b64encode(text.encode()).decode()
        secret = self._ask(self._core.read_namespaced_secret)
        if (secret.get("data") or {}).get(key) == value:
            return False
        # No server-side apply: one without the other connections' keys would remove them.
        self._ask(
            self._core.patch_namespaced_secret,
            body={"data": {key: value}},
            field_manager=FIELD_MANAGER,
            _content_type=MERGE,
        )
        return True

    def _ask(self, request: Any, **arguments: Any) -> dict[str, Any]:
        answer = self._api.ask(self._where, lambda: request(**self._options, **arguments).data)
        return dict(json.loads(answer))
