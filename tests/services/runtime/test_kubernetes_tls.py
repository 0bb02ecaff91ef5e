"""The Kubernetes API behind TLS: certificates of both sides, a service account's token that is renewed."""

from __future__ import annotations

import datetime
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from kubernetes.config import incluster_config

from sluice.clients.kubernetes.api import KubernetesApi
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from tests.support.certificates import Authority
from tests.support.raising import raising


class ApiServer(HTTPServer):
    """Answers each question with nothing; ``logins``: those that came."""

    def __init__(self, authority: Authority, *, asks_for_certificate: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.logins: list[str | None] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("api-server"))
        if asks_for_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(authority.ca)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a client that refuses the certificate."""


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        self.server.logins.append(self.headers.get("Authorization"))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def kubeconfig(folder: Path, server: str, user: dict[str, str], **cluster: object) -> str:
    named = {"name": "c"}
    document = {
        "current-context": "c",
        "clusters": [named | {"cluster": {"server": server, **cluster}}],
        "users": [named | {"user": user}],
        "contexts": [named | {"context": {"cluster": "c", "user": "c"}}],
    }
    path = folder / f"kubeconfig-{len(list(folder.iterdir()))}"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def ask(kubeconfig: str) -> None:
    from kubernetes.client import VersionApi

    api = KubernetesApi(kubeconfig, "kubernetes", {})
    api.ask("version", lambda: VersionApi(api.client).get_code(_preload_content=False))


@pytest.fixture
def strict(authority: Authority) -> Iterator[ApiServer]:
    made = ApiServer(authority, asks_for_certificate=True)
    yield made
    made.stop()


def test_certificates_of_a_kubeconfig_are_checked_on_both_sides(
    authority: Authority, strict: ApiServer, tmp_path: Path
) -> None:
    url = f"https://127.0.0.1:{strict.server_port}"
    other = Authority(tmp_path / "other", "another authority")

    def files(issuer: Authority) -> dict[str, str]:
        certificate, key = map(str, issuer.issue("sluice"))
        return {"client-certificate": certificate, "client-key": key}

    ca = {"certificate-authority": str(authority.ca)}
    ask(kubeconfig(tmp_path, url, files(authority), **ca))
    assert len(strict.logins) == 1
    foreign = {"certificate-authority": str(other.ca)}
    for user, cluster, words in (
        (files(authority), foreign, "Fix: correct certificate-authority"),
        (files(other), ca, "Fix: renew client-certificate"),
        ({"token": "very-secret"}, ca, "Fix: renew client-certificate"),
    ):
        with raising(Refused, "version: Kubernetes at", words) as raised:
            ask(kubeconfig(tmp_path, url, user, **cluster))
        assert raised.value.code is ErrorCode.KUBERNETES_REFUSED
        assert "very-secret" not in str(raised.value)
    assert len(strict.logins) == 1


@pytest.mark.parametrize(
    ("server", "cluster", "words"),
    [
        ("http://api.example.com:6443", {}, "would be sent to it in plain text"),
        (
            "https://api.example.com:6443",
            {"insecure-skip-tls-verify": True},
            "insecure-skip-tls-verify is there",
        ),
    ],
)
def test_an_api_server_that_would_not_be_verified_is_refused(
    tmp_path: Path, server: str, cluster: dict[str, object], words: str
) -> None:
    with raising(ConfigError, "[kubernetes] of the platform file", words, "Fix: "):
        ask(kubeconfig(tmp_path, server, {"token": "t"}, **cluster))


def test_a_service_account_s_token_is_read_again(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes.client import VersionApi

    server, token = ApiServer(authority, asks_for_certificate=False), tmp_path / "token"
    token.write_text("one")
    now = [datetime.datetime(2026, 1, 1)]  # noqa: DTZ001 - as the client has it
    clock = SimpleNamespace(datetime=SimpleNamespace(now=lambda: now[0]), timedelta=datetime.timedelta)
    monkeypatch.setattr(incluster_config, "datetime", clock)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority.ca))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_port))
    try:
        api = KubernetesApi("", "kubernetes", {})
        asked = VersionApi(api.client)
        api.ask("version", lambda: asked.get_code(_preload_content=False))
        token.write_text("two")
        now[0] += datetime.timedelta(minutes=2)
        api.ask("version", lambda: asked.get_code(_preload_content=False))
        assert server.logins == ["bearer one", "bearer two"]
    finally:
        server.stop()
