"""One control plane for all tests of this folder, with the operators' kinds and the base of k8s/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.base import REPO
from local.stack.stack import wait_until
from sluice.clients.kafka import strimzi
from tests.k8s import artifacts, spark_crds
from tests.k8s.control_plane import ControlPlane
from tests.k8s.kubelet import NODE, LogServer
from tests.k8s.world import CONTROLLERS, NAMESPACE, World, ignoring_404
from tests.support.services import Services


def pytest_collection_finish(session: pytest.Session) -> None:
    """Not in the fixture: what is compiled at first takes longer than a test may."""
    needed = any("control_plane" in getattr(item, "fixturenames", ()) for item in session.items)
    if needed and not session.config.option.collectonly:
        artifacts.ensure(artifacts.kubernetes(), *artifacts.strimzi(), artifacts.spark_operator())


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    found = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    try:
        found.up()
        folders = (artifacts.crds().path, artifacts.spark_kinds().path)
        crds = [path for folder in folders for path in sorted(folder.glob("[!.]*"))]
        # Too large for an annotation, which a client-side apply would add.
        done = found.kubectl("apply", "--server-side", *(f"--filename={path}" for path in crds))
        assert done.returncode == 0, done.stderr
        done = found.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        assert done.returncode == 0, done.stderr
        wait_until("the operators' kinds", lambda: is_served(found), 60, 0.2)
        done = found.kubectl("apply", "--server-side", "-k", str(REPO / "k8s" / "base"))
        assert done.returncode == 0, done.stderr
        yield found
    finally:
        found.down()


def is_served(plane: ControlPlane) -> bool:
    """Established is not served yet: the API server answers 404 or 429 for some moments."""
    kinds = [f"{plural}.{strimzi.GROUP}" for plural in artifacts.KINDS]
    kinds += [f"{kind}.{spark_crds.GROUP}" for kind in spark_crds.KINDS]
    return all(plane.kubectl("get", kind, "--all-namespaces").returncode == 0 for kind in kinds)


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    services = Services(tmp_path_factory.mktemp("services"))
    yield services
    services.stop()


@pytest.fixture(scope="module")
def controllers(control_plane: ControlPlane) -> Iterator[None]:
    control_plane.up_controllers(*CONTROLLERS)
    yield
    control_plane.down_controllers()


@pytest.fixture
def world(control_plane: ControlPlane, controllers: None, tmp_path: Path) -> Iterator[World]:
    world = World(control_plane, tmp_path)
    with world.kubelet:
        yield world
        world.kubelet.starts, world.kubelet.answers, world.kubelet.obeys = False, True, True
        world.batch.delete_collection_namespaced_job(NAMESPACE, propagation_policy="Background")
        for pod in world.kubelet.pods():
            options = {"gracePeriodSeconds": 0}
            ignoring_404(world.core.delete_namespaced_pod, pod["metadata"]["name"], NAMESPACE, body=options)
        wait_until("no pods", lambda: not world.kubelet.pods(), 20, 0.1)


@pytest.fixture
def node(world: World) -> Iterator[LogServer]:
    server = LogServer(world.plane.folder)
    with server:
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": server.port}},
        }
        world.core.create_node({"metadata": {"name": NODE}})
        world.core.patch_node_status(NODE, {"status": status})
        yield server
        ignoring_404(world.core.delete_node, NODE)
