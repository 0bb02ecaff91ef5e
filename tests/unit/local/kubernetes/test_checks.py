"""The pod that serves the last checks: what it is given, and who reaches it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from local.base import REPO
from local.containers import cluster, layout
from local.runtime.ports import DEFAULTS
from sluice.clients.kubernetes.pods import OVERRIDES
from sluice.config import overrides

COMPONENTS = REPO / "k8s" / "components"
POLICIES = COMPONENTS / "network-policies" / "common"
PORT = DEFAULTS["checks"]
IT = {"app.kubernetes.io/component": "checks"}
TRIGGERER = {"podSelector": {"matchLabels": {"app.kubernetes.io/component": "airflow-triggerer"}}}
OPENED = {"namespaceSelector": {"matchLabels": {"sluice.io/ingress": "true"}}}


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


def pod() -> dict[str, Any]:
    return dict(read(COMPONENTS / "checks" / "deployment.yaml")["spec"]["template"]["spec"])


def test_supervision_finds_it() -> None:
    service = read(COMPONENTS / "checks" / "service.yaml")
    assert service["metadata"]["name"] == layout.HOSTS["checks"]
    assert [port["port"] for port in service["spec"]["ports"]] == [PORT]
    assert f"--port={PORT}" in pod()["containers"][0]["args"]


def test_it_has_no_file_of_another_pod() -> None:
    secrets = [one["secret"]["secretName"] for one in pod()["volumes"] if "secret" in one]
    assert secrets == [cluster.CHECKS]
    mounts = {one["name"]: one for one in pod()["containers"][0]["volumeMounts"]}
    assert mounts["platform"]["mountPath"] == str(layout.HOME.platform)
    assert not [volume for volume in pod()["volumes"] if "persistentVolumeClaim" in volume]


def test_it_knows_the_installation_s_own_intervals() -> None:
    assert {"name": overrides.VARIABLE, "value": OVERRIDES} in pod()["containers"][0]["env"]


def test_the_triggerer_and_prometheus_reach_it_and_no_other() -> None:
    policy = read(POLICIES / "networkpolicy-checks.yaml")["spec"]
    assert policy["podSelector"]["matchLabels"] == IT
    assert [rule["from"] for rule in policy["ingress"]] == [[TRIGGERER, OPENED]]
    clients = read(POLICIES / "networkpolicy-checks-clients.yaml")["spec"]
    assert clients["podSelector"] == TRIGGERER["podSelector"]
    assert [rule["to"] for rule in clients["egress"]] == [[{"podSelector": {"matchLabels": IT}}]]


def test_it_calls_nothing() -> None:
    allowed = [
        path.name
        for path in sorted(COMPONENTS.rglob("networkpolicy-*.yaml"))
        if "Egress" in read(path)["spec"]["policyTypes"]
        and "checks" in yaml.safe_dump(read(path)["spec"]["podSelector"])
    ]
    assert allowed == []
