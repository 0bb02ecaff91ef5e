"""Which pods of a cluster may change anything in it."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from local.base import REPO

K8S = REPO / "k8s"
READS = {"get", "list", "watch"}
# Pods of tasks, by KubernetesExecutor; jobs and pods of components, by tasks; executors, by drivers; the
# files of each pod, by Job `configure`.
CHANGE = {"sluice-airflow-scheduler", "sluice-task", "sluice-spark", "sluice-configure"}
# Drivers of a role with an account of its own (component `workload-identity`), in place of `sluice-spark`.
BY_ROLE = {"sluice-producer", "sluice-consumer"}


@cache
def documents() -> list[dict[str, Any]]:
    return [
        document
        for path in sorted(K8S.rglob("*.yaml"))
        for document in yaml.load_all(path.read_text(), yaml.CSafeLoader)
        if isinstance(document, dict) and "kind" in document
    ]


def verbs() -> dict[str, set[str]]:
    """Service account -> the verbs of all its roles."""
    roles, found = {}, dict[str, set[str]]()
    for one in documents():
        if one["kind"] in ("Role", "ClusterRole"):
            roles[one["metadata"]["name"]] = {verb for rule in one["rules"] for verb in rule["verbs"]}
    for one in documents():
        if one["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            for subject in one["subjects"]:
                found.setdefault(subject["name"], set()).update(roles[one["roleRef"]["name"]])
    return found


def test_only_these_accounts_change_anything() -> None:
    changing = {account for account, granted in verbs().items() if not granted <= READS}
    assert changing == CHANGE | BY_ROLE
    assert all(verbs()[account] == verbs()["sluice-spark"] for account in BY_ROLE)


def test_what_answers_requests_from_outside_only_reads() -> None:
    accounts = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["serviceAccountName"]
        for one in documents()
        if one["kind"] == "Deployment"
    }
    values = yaml.safe_load((K8S / "helm" / "airflow-values.yaml").read_text())
    accounts |= {
        f"chart {name}": values[name]["serviceAccount"]["name"] for name in ("apiServer", "triggerer")
    }
    changing = {name for name, account in accounts.items() if not verbs().get(account, set()) <= READS}
    assert changing == {"airflow-scheduler"}
    assert {
        "airflow-api-server",
        "airflow-triggerer",
        "chart apiServer",
        "chart triggerer",
        "checks",
    } <= accounts.keys()
    assert accounts["checks"] == "sluice-checks"
    assert "sluice-checks" not in verbs(), "it asks Kubernetes for nothing"
