"""Stand-ins for the scheduler and the kubelet: what they write about pods, without any process, and the
kubelet's address for logs."""

from __future__ import annotations

import ssl
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from kubernetes import client
from urllib3.exceptions import HTTPError

from sluice.clients.kubernetes.pods import CONTAINER
from sluice.core.processes import exits
from tests.k8s.background import Background

NODE = "node-1"


class Kubelet(Background):
    """Starts the pods of a namespace, and ends those that are deleted, while the `with` block runs.

    ``starts``: whether a pod gets a node, and its container starts. ``answers``: whether the node does;
    else nothing happens to its pods. ``obeys``: whether a process ends at SIGTERM.
    """

    def __init__(self, api: Any, namespace: str) -> None:
        super().__init__()
        self.starts = self.answers = self.obeys = True
        self._core = client.CoreV1Api(api)
        self._api, self._namespace = api, namespace

    def pods(self) -> list[dict[str, Any]]:
        found = self._core.list_namespaced_pod(self._namespace, _request_timeout=5)
        return list(self._api.sanitize_for_serialization(found)["items"])

    def end(self, pod: dict[str, Any], code: int, message: str = "", reason: str = "Error") -> None:
        """Its process ends."""
        now = _now()
        ended = {"exitCode": code, "reason": reason, "message": message, "finishedAt": now}
        statuses = pod["status"].get("containerStatuses") or [{}]
        started = statuses[0].get("state", {}).get("running", {}).get("startedAt", now)
        phase = "Failed" if code else "Succeeded"
        self._report(pod, phase, {"terminated": ended | {"startedAt": started}}, "False")

    def lose(self, pod: dict[str, Any]) -> None:
        """The node does not answer, and the control plane has seen it."""
        conditions = [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]
        self._status(pod, {"conditions": conditions})

    def act(self) -> None:
        try:
            for pod in self.pods():
                self._sync(pod)
        except HTTPError:
            return  # the API server restarts
        except client.ApiException as error:
            # Deleted or changed meanwhile; or the API server starts.
            if error.status not in (403, 404, 409, 500, 503):
                raise

    def _sync(self, pod: dict[str, Any]) -> None:
        is_over = pod["status"]["phase"] in ("Succeeded", "Failed")
        if pod["metadata"].get("deletionTimestamp"):
            if not self.answers or not pod["spec"].get("nodeName"):
                return
            if not is_over:
                if not self._is_to_end(pod):
                    return
                self.end(pod, exits.STOPPED)
            self._delete(pod)
        elif self.starts and self.answers and pod["status"]["phase"] == "Pending":
            self._start(pod)

    def _is_to_end(self, pod: dict[str, Any]) -> bool:
        at = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])
        return self.obeys or datetime.now(UTC) > at

    def _start(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            binding = {"metadata": {"name": name}, "target": target}
            # The client cannot read the answer.
            self._core.create_namespaced_pod_binding(name, self._namespace, binding, _preload_content=False)
        self._report(pod, "Running", {"running": {"startedAt": _now()}}, "True")

    def _report(self, pod: dict[str, Any], phase: str, state: dict[str, Any], ready: str) -> None:
        container = {
            "name": CONTAINER,
            "image": pod["spec"]["containers"][0]["image"],
            "imageID": "",
            "ready": ready == "True",
            "restartCount": 0,
            "state": state,
        }
        conditions = [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")]
        status = {"phase": phase, "containerStatuses": [container], "conditions": conditions}
        self._status(pod, status)

    def _status(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        self._core.patch_namespaced_pod_status(name, self._namespace, {"status": status}, _request_timeout=5)

    def _delete(self, pod: dict[str, Any]) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self._core.delete_namespaced_pod(
            pod["metadata"]["name"], self._namespace, body=options, _request_timeout=5
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class LogServer(ThreadingHTTPServer):
    """Answers the API server with ``text``, after ``waits`` seconds, while the `with` block runs.

    ``folder``: the control plane's, which has a key.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _LogHandler)
        self.text, self.waits, self.asked = "", 0.0, list[str]()
        self.end = threading.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "api.crt", folder / "api.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end.set()
        self.shutdown()
        self.server_close()


class _LogHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, LogServer)
        self.server.asked.append(self.path)
        self.server.end.wait(self.server.waits)
        body = self.server.text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass
