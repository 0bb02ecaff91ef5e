"""Calls to Airflow's REST API that only tests need."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from local.stack.airflow_api import Airflow
from local.stack.stack import Stack


def xcom(airflow: Airflow, dag: str, run_id: str, task: str) -> Any:
    """A task's return value. AirflowError with status 404 if there is none."""
    path = f"/dags/{dag}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task}/xcomEntries/return_value"
    return airflow.request("GET", path, params={"deserialize": "false", "stringify": "false"})["value"]


def document(stack: Stack, address: str) -> Any:
    """The ledger's document that a return value names."""
    bucket, key = address.removeprefix("s3://").split("/", 1)
    return json.loads(stack.admin_s3().get_object(Bucket=bucket, Key=key)["Body"].read())


def pause(airflow: Airflow, dag: str) -> None:
    airflow.request("PATCH", f"/dags/{dag}", json={"is_paused": True})


def clear(airflow: Airflow, dag: str, run_id: str, tasks: list[str], downstream: bool = False) -> None:
    """Let tasks of a run run again."""
    body = {
        "dry_run": False,
        "dag_run_id": run_id,
        "task_ids": tasks,
        "only_failed": False,
        "include_downstream": downstream,
        "reset_dag_runs": True,
    }
    airflow.request("POST", f"/dags/{dag}/clearTaskInstances", json=body)
