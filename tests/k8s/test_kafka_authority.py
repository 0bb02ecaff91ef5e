"""`configure` of overlay `dev` waits for the authority that Strimzi makes, with the rights of the overlay."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

from local.base import UnhealthyService
from local.containers import strimzi
from sluice.clients.kubernetes.api import KubernetesApi
from sluice.core.errors import Refused
from tests.k8s.control_plane import ControlPlane
from tests.k8s.manifests import K8S, NAMESPACE
from tests.support.raising import raising

PEM = "-----BEGIN CERTIFICATE-----\n"
NAME = "kafka-cluster-ca-cert"
ACCOUNT = "sluice-configure"


@pytest.fixture
def api(control_plane: ControlPlane, tmp_path: Path) -> Iterator[KubernetesApi]:
    """As the service account of `configure`."""
    airflow, dev = K8S / "components" / "airflow", K8S / "overlays" / "dev"
    rights = [airflow / f"{kind}-configure.yaml" for kind in ("serviceaccount", "role", "rolebinding")]
    rights += [dev / f"{kind}-kafka-authority.yaml" for kind in ("role", "rolebinding")]
    for path in rights:
        done = control_plane.kubectl("apply", "--server-side", "-f", str(path))
        assert done.returncode == 0, done.stderr
    kubeconfig = control_plane.login(ACCOUNT, NAMESPACE, tmp_path)
    yield KubernetesApi(kubeconfig, "kubernetes", {403: "apply the overlay", 404: "wait"})
    control_plane.kubectl("delete", "secret", NAME, "--namespace", NAMESPACE, "--ignore-not-found")


def create(control_plane: ControlPlane, name: str) -> None:
    data = {"ca.crt": base64.b64encode(PEM.encode()).decode()}
    body = {"metadata": {"name": name}, "data": data}
    client.CoreV1Api(control_plane.api()).create_namespaced_secret(NAMESPACE, body)


def test_it_is_waited_for(control_plane: ControlPlane, api: KubernetesApi) -> None:
    later = threading.Timer(1.5, create, (control_plane, NAME))
    later.start()
    try:
        core = client.CoreV1Api(api.client)
        assert strimzi.authority(api, core, NAMESPACE, "kafka", 30) == PEM
    finally:
        later.join()


def test_one_that_strimzi_never_makes_is_named(api: KubernetesApi) -> None:
    with raising(UnhealthyService, f"{NAMESPACE}/{NAME}", "missing after 2 s", "install its operator"):
        strimzi.authority(api, client.CoreV1Api(api.client), NAMESPACE, "kafka", 2)


def test_no_other_secret_can_be_read(control_plane: ControlPlane, api: KubernetesApi) -> None:
    with raising(Refused, "403", "other-cluster-ca-cert"):
        strimzi.authority(api, client.CoreV1Api(api.client), NAMESPACE, "other", 2)
