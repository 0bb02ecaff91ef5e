"""Each manifest that users apply is accepted by a real API server, and each bad example is not."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.base import REPO
from local.kubernetes import command
from sluice.clients.kubernetes.pods import CONNECTIONS_SECRET
from sluice.config import overrides, streams
from tests.k8s import manifests
from tests.k8s.control_plane import ControlPlane
from tests.k8s.manifests import COMPONENT, K8S, OVERLAYS

BASE = REPO / "k8s" / "base"
DOCS = REPO / "docs" / "kubernetes.md"
BAD = sorted((Path(__file__).parent / "bad_examples").glob("*.yaml"))
EXPECTED = "# Rejected: "
DRY = ("apply", "--server-side", "--validate=strict", "--dry-run=server")
# The project's own, of a version; or another's, by its digest.
IMAGE = re.compile(r"sluice/[a-z-]+:(?!latest)[\w.-]+|[\w./:-]+@sha256:[0-9a-f]{64}")
each_overlay = pytest.mark.parametrize("name", OVERLAYS)


def test_the_base_is_accepted_as_it_is_written_and_applying_it_again_changes_nothing(
    control_plane: ControlPlane,
) -> None:
    for _ in range(2):
        done = control_plane.kubectl("apply", "--server-side", "--validate=strict", "-k", str(BASE))
        assert done.returncode == 0, done.stderr
    done = control_plane.kubectl("diff", "--server-side", "-k", str(BASE))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@each_overlay
def test_an_overlay_is_accepted_without_a_warning(control_plane: ControlPlane, name: str) -> None:
    done = control_plane.kubectl(*DRY, "-k", str(K8S / "overlays" / name))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(manifests.overlay(control_plane, name))


@pytest.mark.parametrize("name", ["workload-identity", "network-policies/external"])
def test_a_component_that_no_overlay_has_is_accepted_over_prod(
    control_plane: ControlPlane, tmp_path: Path, name: str
) -> None:
    above = Path(os.path.relpath(K8S, tmp_path))
    listed = {
        "resources": [str(above / "overlays" / "prod")],
        "components": [str(above / "components" / name)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(listed))
    done = control_plane.kubectl(*DRY, "-k", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    own = yaml.safe_load((K8S / "components" / name / "kustomization.yaml").read_text())["resources"]
    assert len(done.stdout.splitlines()) == len(manifests.overlay(control_plane, "prod")) + len(own)
    labels = [pod.labels for pod in manifests.installed_pods(control_plane, "prod")]
    for document in (yaml.safe_load((K8S / "components" / name / file).read_text()) for file in own):
        if document["kind"] == "NetworkPolicy":
            selector = document["spec"]["podSelector"]
            known = {found[COMPONENT] for found in labels if COMPONENT in found}
            assert manifests.selected(selector) <= known, document["metadata"]["name"]


def test_each_file_is_one_resource_and_is_applied() -> None:
    folders = [path.parent for path in sorted(K8S.rglob("kustomization.yaml"))]
    assert BASE in folders
    for folder in folders:
        kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
        listed = [path for path in kustomization.get("resources", ()) if path.endswith(".yaml")]
        patches = [patch["path"] for patch in kustomization.get("patches", ())]
        made = [name for one in kustomization.get("configMapGenerator", ()) for name in one["files"]]
        files = sorted(path.name for path in folder.glob("*.yaml") if path.name != "kustomization.yaml")
        assert sorted(listed + patches + [name for name in made if name.endswith(".yaml")]) == files, folder
        for name in listed:
            (document,) = yaml.safe_load_all((folder / name).read_text())
            kind, meta = document["kind"].lower(), document["metadata"]
            short = meta["name"].removeprefix("sluice-")
            names = (short, short.removeprefix(f"{folder.name}-"))
            assert name in (f"{kind}.yaml", *(f"{kind}-{one}.yaml" for one in names)), folder


@each_overlay
def test_passwords_are_in_no_overlay(control_plane: ControlPlane, name: str) -> None:
    kinds = {resource["kind"] for resource in manifests.overlay(control_plane, name)}
    assert "Secret" not in kinds
    assert "Namespace" in kinds


@each_overlay
def test_images_are_pinned(control_plane: ControlPlane, name: str) -> None:
    for pod in manifests.installed_pods(control_plane, name):
        for container in pod.containers:
            assert IMAGE.fullmatch(container["image"]), f"{pod.where}: {container['image']}"


@each_overlay
def test_every_container_has_requests_and_limits(control_plane: ControlPlane, name: str) -> None:
    for pod in manifests.installed_pods(control_plane, name):
        for container in pod.containers:
            where, resources = f"{pod.where}, {container['name']}", container["resources"]
            assert resources["requests"].keys() >= {"cpu", "memory"}, where
            assert resources["limits"].keys() >= {"cpu", "memory"}, where
            # More memory than it asked for can be taken from it at any time.
            assert resources["requests"]["memory"] == resources["limits"]["memory"], where


@each_overlay
def test_every_pod_satisfies_the_namespace_s_profile(
    control_plane: ControlPlane, tmp_path: Path, name: str
) -> None:
    specs = {pod.where: pod.spec for pod in manifests.installed_pods(control_plane, name)}
    assert_admitted(control_plane, tmp_path, specs)


def assert_admitted(control_plane: ControlPlane, folder: Path, specs: Mapping[str, dict[str, Any]]) -> None:
    """``specs``: of pods, by a name for the message."""
    items = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": re.sub(r"[^a-z0-9]+", "-", name.lower()), "namespace": "sluice"},
            "spec": spec,
        }
        for name, spec in specs.items()
    ]
    path = folder / "pods.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    done = control_plane.kubectl(*DRY, "-f", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(specs)


@each_overlay
def test_each_network_policy_and_budget_selects_pods(control_plane: ControlPlane, name: str) -> None:
    labels = [pod.labels for pod in manifests.installed_pods(control_plane, name)]
    keys = {"NetworkPolicy": "podSelector", "PodDisruptionBudget": "selector"}
    for resource in manifests.overlay(control_plane, name):
        if resource["kind"] in keys:
            selector = resource["spec"][keys[resource["kind"]]]
            assert any(manifests.matches(selector, found) for found in labels), resource["metadata"]["name"]


@each_overlay
def test_network_policies_open_ports_of_the_pods_that_they_select(
    control_plane: ControlPlane, name: str
) -> None:
    pods = manifests.installed_pods(control_plane, name)
    for policy in manifests.overlay(control_plane, name):
        if policy["kind"] != "NetworkPolicy":
            continue
        rules = policy["spec"].get("ingress", ())
        opened = {port["port"] for rule in rules for port in rule.get("ports", ())}
        chosen = [pod for pod in pods if manifests.matches(policy["spec"]["podSelector"], pod.labels)]
        assert opened <= {port for pod in chosen for port in pod.ports}, policy["metadata"]["name"]


def test_network_policies_name_no_component_that_is_nowhere(control_plane: ControlPlane) -> None:
    known, named = set[str](), set[str]()
    for name in OVERLAYS:
        known |= {pod.labels[COMPONENT] for pod in manifests.installed_pods(control_plane, name)}
        for policy in manifests.overlay(control_plane, name):
            if policy["kind"] == "NetworkPolicy":
                named |= {word for one in manifests.selectors(policy) for word in manifests.selected(one)}
    assert named <= known


def test_the_users_of_kafka_are_accepted(
    control_plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.print_users()
    path = tmp_path / "users.yaml"
    path.write_text(capsys.readouterr().out)
    done = control_plane.kubectl(*DRY, "-f", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 5


def test_the_docs_list_the_secrets_of_prod(control_plane: ControlPlane) -> None:
    users = command.users()
    pods = [pod.spec for pod in manifests.installed_pods(control_plane, "prod")]
    used = set(manifests.secret_names([manifests.helm_values("airflow"), users, pods]))
    section = DOCS.read_text().split("| Secret | keys |")[1].split("\n\n")[0]
    assert used == set(re.findall(r"`(sluice-[a-z-]+)`", section)) | {CONNECTIONS_SECRET}


def test_prod_has_an_executor_per_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(overrides.VARIABLE, str(K8S / "overlays" / "prod" / "overrides.toml"))
    spec = streams.load("nyc_taxi")
    assert spec.cluster.executors == spec.topic.partitions == 10


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_example_is_rejected_with_its_reason(control_plane: ControlPlane, path: Path) -> None:
    said = path.read_text().splitlines()[0]
    assert said.startswith(EXPECTED)
    done = control_plane.kubectl(*DRY, "-f", str(path))
    assert done.returncode != 0, done.stdout
    assert said.removeprefix(EXPECTED) in done.stderr


def test_a_spark_application_is_accepted_when_what_the_example_lacks_is_added(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    application = yaml.safe_load((BAD[0].parent / "spark-application-without-type.yaml").read_text())
    application["spec"]["type"] = "Python"
    schedule = {"schedule": "@daily", "template": application["spec"]}
    scheduled = application | {"kind": "ScheduledSparkApplication", "spec": schedule}
    path = tmp_path / "applications.yaml"
    path.write_text(yaml.safe_dump_all([application, scheduled]))
    done = control_plane.kubectl(*DRY, "-f", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 2
