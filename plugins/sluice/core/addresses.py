"""Addresses that messages and pages link to, below Airflow's ``[api] base_url``."""

from __future__ import annotations

from urllib.parse import quote

# Mount point of the pages, below the path of Airflow's base URL.
PREFIX = "/sluice"


# Address of the page of all streams, relative to the path of Airflow's base URL.
STREAMS = f"{PREFIX.removeprefix('/')}/streams"


def stream_page(stream: str) -> str:
    """Address of the stream's page, relative to the path of Airflow's base URL."""
    return f"{STREAMS}/{quote(stream, safe='')}"


def run_page(base_url: str, dag_id: str, run_id: str, task_id: str = "") -> str:
    """Airflow's page of a run, or of a task in it."""
    run = f"{dag_page(base_url, dag_id)}/runs/{quote(run_id, safe='')}"
    return f"{run}/tasks/{quote(task_id, safe='')}" if task_id else run


def dag_page(base_url: str, dag_id: str) -> str:
    """Airflow's page of a DAG. Its trigger form, which has no address in Airflow 3.3, is a click away."""
    return f"{base_url.rstrip('/')}/dags/{quote(dag_id, safe='')}"


def answer_page(base_url: str, dag_id: str, run_id: str, task_id: str) -> str:
    """Airflow's form for the answer of a task that asks a person."""
    return f"{run_page(base_url, dag_id, run_id, task_id)}/required_actions"
