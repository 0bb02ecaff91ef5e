"""Exported connections in their Secret: against a real API server, with the rights of k8s/base."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sluice.airflow import connections
from sluice.clients.kubernetes.api import KubernetesApi
from sluice.clients.kubernetes.connections_secret import ConnectionsSecret
from sluice.clients.kubernetes.pods import CONNECTIONS_SECRET
from sluice.config import connection
from sluice.config.connection import Database
from sluice.core.errors import Refused, Unreachable
from tests.k8s.control_plane import ControlPlane
from tests.k8s.world import NAMESPACE, World
from tests.support.raising import raising

# In the platform's own network, as it declares it.
PLAIN = {"sslmode": "disable"}
WHERE = Database("postgresql", "db", 5432, "results", "results", "very-secret", PLAIN)


class Connections(World):
    """The Secret as `local.containers configure` makes it, and the client as the account of tasks."""

    def configure(self) -> None:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": CONNECTIONS_SECRET}, "data": {}}
        patch = self.core.patch_namespaced_secret
        api = KubernetesApi(str(self.plane.kubeconfig), "kubernetes", {})
        api.apply("Secret", patch, name=CONNECTIONS_SECRET, namespace=NAMESPACE, body=body)

    def files(self) -> dict[str, str]:
        """As a pod sees them."""
        data: dict[str, Any] = self.core.read_namespaced_secret(CONNECTIONS_SECRET, NAMESPACE).data or {}
        return {name: base64.b64decode(text).decode() for name, text in data.items()}


@pytest.fixture
def world(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Connections]:
    world = Connections(control_plane, tmp_path)
    world.configure()
    yield world
    world.core.delete_namespaced_secret(CONNECTIONS_SECRET, NAMESPACE)


def test_a_connection_is_a_file_of_the_secret_and_written_only_if_it_changed(
    world: Connections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = world.config()
    assert connections.export("sluice_results", WHERE, config)
    ((name, text),) = world.files().items()
    path = tmp_path / name
    path.touch(mode=0o600)
    path.write_text(text)
    monkeypatch.setenv(connection.DIRECTORY_VARIABLE, str(tmp_path))
    assert connection.load("sluice_results") == WHERE
    before = world.core.read_namespaced_secret(CONNECTIONS_SECRET, NAMESPACE).metadata.resource_version
    assert not connections.export("sluice_results", WHERE, config)
    after = world.core.read_namespaced_secret(CONNECTIONS_SECRET, NAMESPACE).metadata.resource_version
    assert before == after
    changed = Database("postgresql", "db", 5432, "results", "results", "other", PLAIN)
    assert connections.export("sluice_results", changed, config)
    assert "other" in world.files()[name]


def test_connections_do_not_remove_each_other_and_configure_removes_none(world: Connections) -> None:
    secrets = [ConnectionsSecret(world.config()) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(secrets[n % 4].put, f"database_{n}", f"text {n}") for n in range(12)]
        assert all(one.result() for one in done)
    expected = {f"database_{n}.toml": f"text {n}" for n in range(12)}
    assert world.files() == expected
    world.configure()
    assert world.files() == expected


def test_no_log_has_the_password(world: Connections, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    config = world.config()
    caplog.clear()
    assert connections.export("sluice_results", WHERE, config)
    assert not connections.export("sluice_results", WHERE, config)
    coded = base64.b64encode(WHERE.dump().encode()).decode()
    for secret in (WHERE.password, coded):
        assert secret not in caplog.text
    # The client would.
    world.core.read_namespaced_secret(CONNECTIONS_SECRET, NAMESPACE)
    assert coded in caplog.text


def test_what_is_missing_is_said_with_its_fix(world: Connections) -> None:
    config = world.config()
    world.core.delete_namespaced_secret(CONNECTIONS_SECRET, NAMESPACE)
    with raising(Refused, "404", f"{NAMESPACE}/{CONNECTIONS_SECRET}", "make Secret"):
        ConnectionsSecret(config).put("a", "b")
    world.configure()
    world.core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "without-secrets"}})
    with raising(Refused, "403", "without-secrets", "role-connections.yaml"):
        ConnectionsSecret(world.config("without-secrets")).put("a", "b")
    with raising(Refused, "403"):
        ConnectionsSecret(world.config(namespace="default")).put("a", "b")
    with raising(Refused, "422", "a b.toml"):
        ConnectionsSecret(config).put("a b", "c")
    world.core.delete_namespaced_service_account("without-secrets", NAMESPACE)


def test_an_api_server_that_is_away_is_said(world: Connections) -> None:
    secret = ConnectionsSecret(world.config())
    world.plane.crash_api_server()
    try:
        with raising(Unreachable, CONNECTIONS_SECRET, "does not answer"):
            secret.put("a", "b")
    finally:
        world.plane.up_api_server()
    assert secret.put("a", "b")
