"""Calls to Airflow's REST API that only tests need."""

from __future__ import annotations

import json
from typing import Any

from local.stack.stack import Stack, wait_until
from sluice.cli.airflow_api import Airflow, AirflowError


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


def print_failed(airflow: Airflow, dag: str, run_id: str) -> None:
    """The end of the newest log of each failed task of a run."""
    for task in airflow.tasks(dag, run_id):
        if task["state"] == "failed":
            log = airflow.log(dag, run_id, task["task_id"], int(task["try_number"]))
            print(f"{run_id} {task['task_id']} failed:\n" + "\n".join(log)[-4000:])


def wait_for_task(
    airflow: Airflow, dag: str, run_id: str, task: str, states: frozenset[str], seconds: float
) -> None:
    """Until a task of a run, which may not be there yet, is in one of these states."""

    def there() -> bool:
        try:
            tasks = airflow.tasks(dag, run_id)
        except AirflowError as error:
            if error.status != 404:
                raise
            return False
        return any(one["task_id"] == task and one["state"] in states for one in tasks)

    wait_until(f"{task} of {run_id} is one of {sorted(states)}", there, seconds, 0.5)
