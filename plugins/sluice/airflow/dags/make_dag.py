"""What all DAGs have in common: their arguments, callbacks, and the timeout of their runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, CronTriggerTimetable, Param
from airflow.sdk.definitions.param import ParamsDict

from sluice.airflow import callbacks
from sluice.config import work_pool
from sluice.notify.occasions import CONFIGURATION, MAINTENANCE, SCHEDULED, STREAM, kind_of

# DAGs whose runs last minutes, and which check again.
SUPERVISION = (STREAM, CONFIGURATION)
# A DAG's kind -> priority of its tasks, where the executor has fewer slots than tasks wait. Absolute: Airflow
# otherwise adds the weights of all tasks behind one, and a long DAG passes a short one.
PRIORITIES = {STREAM: 100, CONFIGURATION: 100, "change": 50, "load": 20, "backfill": 10, MAINTENANCE: 1}
OTHERS = 5
# Per try: in the scheduler's and the executor's queues, and between two phases.
QUEUED = timedelta(minutes=5)


@contextmanager
def make_dag(
    dag_id: str,
    label: str,
    description: str,
    *,
    tags: Sequence[str],
    retries: int = 0,
    retry_delay: timedelta = timedelta(seconds=20),
    task_timeout: timedelta = timedelta(minutes=5),
    schedule: timedelta | CronDataIntervalTimetable | CronTriggerTimetable | None = None,
    start_date: datetime | None = datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs: int = 1,
    stream: str | None = None,
    params: Mapping[str, Param] | None = None,
    **kwargs: Any,
) -> Iterator[DAG]:
    """A DAG without catch-up, by default without a schedule and with one run at a time. The DAG file
    registers it, once it is complete.

    Its timeout follows from the tasks that are made in the context. ``stream``: whose notifications tell of
    its failures; None: no one's. ``params``: its form.
    """
    of_dag = _callbacks(dag_id, stream) if stream else {}
    kind = kind_of(dag_id, stream or "")
    priority = PRIORITIES.get(kind, OTHERS)
    with DAG(
        dag_id=dag_id,
        dag_display_name=label,
        description=description,
        start_date=start_date,
        catchup=False,
        schedule=schedule,
        auto_register=False,
        max_active_runs=max_active_runs,
        tags=[*tags, "sluice"],
        default_args={
            "owner": "sluice",
            "retries": retries,
            "retry_delay": retry_delay,
            "execution_timeout": task_timeout,
            "priority_weight": priority,
            "weight_rule": "absolute",
            # Supervision has Airflow's own, which others leave free.
            "pool": work_pool.DEFAULT if kind in SUPERVISION else work_pool.name(),
        },
        **of_dag,
        **kwargs,
    ) as dag:
        yield dag
    for task in dag.tasks if stream else ():
        # Not by default_args: Airflow looks for the source text of what these call, for each DAG.
        task.on_failure_callback = [callbacks.task_failed]
    # After its tasks: each would have a copy of its own, in Airflow's database too. A run has the DAG's.
    dag.params = ParamsDict(params)
    dag.dagrun_timeout = run_timeout(dag)


def _callbacks(dag_id: str, stream: str) -> dict[str, Any]:
    """The callbacks of the DAG. A timed-out supervision run missed its deadline before."""
    kind = kind_of(dag_id, stream)
    of_dag: dict[str, Any] = {}
    if kind not in SUPERVISION:
        of_dag["on_failure_callback"] = partial(callbacks.run_failed, stream)
    if kind in SCHEDULED:
        of_dag["on_success_callback"] = partial(callbacks.run_succeeded, stream)
    return of_dag


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
