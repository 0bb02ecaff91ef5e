"""A redirect of an API server, or of who answers for it, takes the account's token nowhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from sluice.clients.kubernetes.api import KubernetesApi
from sluice.core.errors import Unreachable
from tests.support.raising import raising

CONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "{server}"}}}}]
users: [{{name: u, user: {{token: "very-secret"}}}}]
"""


class Elsewhere(HTTPServer):
    """``location``: where it sends a client; "" to answer itself."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.location = ""
        self.tokens: list[str | None] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Elsewhere

    def do_GET(self) -> None:
        self.server.tokens.append(self.headers.get("Authorization"))
        self.send_response(307 if self.server.location else 200)
        self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture
def servers() -> Iterator[tuple[Elsewhere, Elsewhere]]:
    made = Elsewhere(), Elsewhere()
    yield made
    for server in made:
        server.shutdown()
        server.server_close()


def test_it_is_not_followed(servers: tuple[Elsewhere, Elsewhere], tmp_path: Path) -> None:
    from kubernetes.client import CoreV1Api

    asked, other = servers
    asked.location = f"{other.url}/stolen"
    file = tmp_path / "config"
    file.write_text(CONFIG.format(server=asked.url))
    api = KubernetesApi(str(file), "kubernetes", {404: "none"})
    with raising(Unreachable, "redirects", asked.url):
        api.ask("pods", lambda: CoreV1Api(api.client).list_namespaced_pod("n"))
    assert asked.tokens == ["Bearer very-secret"]
    assert other.tokens == []
