"""The schema registry on a cluster: only where an overlay has it, and who reaches it."""

from __future__ import annotations

import yaml

from local.base import REPO
from local.containers import layout
from local.runtime.ports import DEFAULTS
from local.services import registry
from tests.support.manifests import named, read

K8S = REPO / "k8s"
COMPONENT = K8S / "components" / "registry"
POLICIES = K8S / "components" / "network-policies" / "registry"
ASKING = {"airflow-task", "stream", "spark-job", "spark-executor"}


def test_only_overlays_that_ask_for_it_have_it() -> None:
    having = [
        path.parent.name
        for path in sorted((K8S / "overlays").glob("*/kustomization.yaml"))
        if "../../components/registry" in read(path)["components"]
    ]
    assert having == ["native-registry"]


def test_its_jobs_are_told_of_it() -> None:
    (patch,) = yaml.safe_load((COMPONENT / "patch-jobs.yaml").read_text())
    assert patch["value"] == {"name": registry.VARIABLE, "value": registry.ALWAYS}
    (applied,) = read(COMPONENT / "kustomization.yaml")["patches"]
    assert applied["target"] == {"kind": "Job", "name": "configure|provision"}


def test_it_is_where_jobs_look_for_it() -> None:
    service = read(COMPONENT / "service.yaml")
    assert service["metadata"]["name"] == layout.HOSTS[registry.NAME]
    assert [port["port"] for port in service["spec"]["ports"]] == [DEFAULTS[registry.NAME]]
    pod = read(COMPONENT / "deployment.yaml")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    address = f"127.0.0.1:{DEFAULTS[registry.HEALTH]}"
    assert container["readinessProbe"]["exec"]["command"] == ["health", "http", address, "/health/ready"]
    secrets = [one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one]
    assert secrets == [f"sluice-{registry.NAME}"]


def test_jobs_and_tasks_reach_it_and_no_other() -> None:
    policy = read(POLICIES / "networkpolicy-registry.yaml")["spec"]
    assert policy["podSelector"]["matchLabels"] == {"app.kubernetes.io/component": "registry"}
    (rule,) = policy["ingress"]
    assert named(rule["from"]) == ASKING
    (clients,) = [read(POLICIES / "networkpolicy-registry-clients.yaml")["spec"]]
    assert named([clients]) == ASKING
    assert [named(one["to"]) for one in clients["egress"]] == [{"registry"}]


def test_it_reaches_its_database_and_nothing_else() -> None:
    policy = read(POLICIES / "networkpolicy-registry.yaml")["spec"]
    assert [(named(one["to"]), one["ports"]) for one in policy["egress"]] == [
        ({"postgres"}, [{"protocol": "TCP", "port": DEFAULTS["postgres"]}])
    ]
    database = read(POLICIES / "networkpolicy-registry-postgres.yaml")["spec"]
    assert (database["policyTypes"], [named(one["from"]) for one in database["ingress"]]) == (
        ["Ingress"],
        [{"registry"}],
    )
