"""The REST catalog on a cluster: only where an overlay has it, and who reaches it."""

from __future__ import annotations

import yaml

from local.base import REPO
from local.containers import layout
from local.runtime.ports import DEFAULTS
from local.services import rest_catalog
from tests.support.manifests import named, read

K8S = REPO / "k8s"
COMPONENT = K8S / "components" / "rest-catalog"
POLICIES = K8S / "components" / "network-policies" / "rest-catalog"
# All that PyIceberg and Spark run in.
ASKING = {"airflow-api-server", "airflow-triggerer", "airflow-task", "observer", "stream", "spark-job"}


def test_only_overlays_that_ask_for_it_have_it() -> None:
    having = [
        path.parent.name
        for path in sorted((K8S / "overlays").glob("*/kustomization.yaml"))
        if "../../components/rest-catalog" in read(path)["components"]
    ]
    assert having == ["native-rest-catalog"]


def test_its_jobs_are_told_of_it() -> None:
    (patch,) = yaml.safe_load((COMPONENT / "patch-jobs.yaml").read_text())
    assert patch["value"] == {"name": rest_catalog.VARIABLE, "value": "rest"}
    (applied,) = read(COMPONENT / "kustomization.yaml")["patches"]
    assert applied["target"] == {"kind": "Job", "name": "configure|provision"}


def test_it_is_where_roles_look_for_it() -> None:
    service = read(COMPONENT / "service.yaml")
    assert service["metadata"]["name"] == layout.HOSTS[rest_catalog.PORT]
    assert [port["port"] for port in service["spec"]["ports"]] == [DEFAULTS[rest_catalog.PORT]]
    pod = read(COMPONENT / "deployment.yaml")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    address = f"127.0.0.1:{DEFAULTS[rest_catalog.PORT]}"
    assert container["readinessProbe"]["exec"]["command"] == ["health", "http", address, "/v1/config", "401"]
    secrets = [one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one]
    assert secrets == [f"sluice-{rest_catalog.NAME}"]


def test_those_who_find_tables_reach_it_and_no_other() -> None:
    policy = read(POLICIES / "networkpolicy-rest-catalog.yaml")["spec"]
    assert policy["podSelector"]["matchLabels"] == {"app.kubernetes.io/component": "rest-catalog"}
    (rule,) = policy["ingress"]
    assert named(rule["from"]) == ASKING
    clients = read(POLICIES / "networkpolicy-rest-catalog-clients.yaml")["spec"]
    assert named([clients]) == ASKING
    assert [named(one["to"]) for one in clients["egress"]] == [{"rest-catalog"}]


def test_it_reaches_its_stores_and_nothing_else() -> None:
    stores = {"postgres": DEFAULTS["postgres"], "minio": DEFAULTS["minio"]}
    policy = read(POLICIES / "networkpolicy-rest-catalog.yaml")["spec"]
    assert [(named(one["to"]), one["ports"]) for one in policy["egress"]] == [
        ({store}, [{"protocol": "TCP", "port": port}]) for store, port in stores.items()
    ]
    for store, port in stores.items():
        allowed = read(POLICIES / f"networkpolicy-rest-catalog-{store}.yaml")["spec"]
        assert named([allowed]) == {store}
        (rule,) = allowed["ingress"]
        assert (named(rule["from"]), rule["ports"]) == ({"rest-catalog"}, [{"protocol": "TCP", "port": port}])
