"""How long a run may take: as long as its tasks may, so that a task ends it and says why."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import DAG

# Per try: in the scheduler's and the executor's queues, and between two phases.
QUEUED = timedelta(minutes=5)


def run_timeout(dag: DAG) -> timedelta:
    """The longest way through the DAG's tasks, with every try and wait as long as it may be.

    At its timeout Airflow fails a run, and skips its tasks without a reason.
    """
    ends: dict[str, timedelta] = {}
    for task in dag.topological_sort():
        begin = max((ends[name] for name in task.upstream_task_ids), default=timedelta())
        ends[task.task_id] = begin + _longest(task, dag.max_active_runs)
    return max(ends.values(), default=timedelta())


def _longest(task: Any, runs: int) -> timedelta:
    """``task.waits``: of a task that defers, the longest of each of its waits in the triggerer, in turn."""
    waits = getattr(task, "waits", ())
    # Airflow counts the timeout again in each worker.
    workers = len(waits) + (0 if task.start_from_trigger else 1)
    one_try = QUEUED + workers * task.execution_timeout + sum(waits, timedelta())
    # The tries of other runs may come before its own.
    turns = runs if task.max_active_tis_per_dag == 1 else 1
    return turns * (task.retries + 1) * one_try + task.retries * task.retry_delay
