"""On Kubernetes tasks know for how long Airflow keeps runs: `remove_history` keeps documents as long."""

from __future__ import annotations

from typing import Any

import yaml

from local.base import REPO
from sluice.airflow.database import DAYS_VARIABLE

K8S = REPO / "k8s"


def days(env: list[dict[str, Any]]) -> list[str]:
    return [one["value"] for one in env if one["name"] == DAYS_VARIABLE]


def test_tasks_of_the_overlays_know_it_as_the_cleaning_does() -> None:
    folder = K8S / "components" / "airflow"
    cleaning = yaml.safe_load((folder / "cronjob-cleanup.yaml").read_text())
    (container,) = cleaning["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    (task,) = yaml.safe_load((folder / "pod-template.yaml").read_text())["spec"]["containers"]
    assert days(task.get("env", [])) == days(container["env"]) == ["30"]


def test_tasks_of_airflow_s_chart_know_it_as_the_cleaning_does() -> None:
    values = yaml.safe_load((K8S / "helm" / "airflow-values.yaml").read_text())
    (task,) = yaml.safe_load(values["podTemplate"])["spec"]["containers"]
    assert days(task["env"]) == days(values["env"]) == ["30"]
