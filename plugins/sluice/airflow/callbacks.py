"""Airflow's callbacks of tasks and DAGs: a person is told of what ended."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

from sluice.airflow.channel import RunChannel, compose
from sluice.airflow.hook import PlatformHook
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import code_of, with_code
from sluice.core.errors import ClientError
from sluice.ledger.keys import history_name
from sluice.notify import occasions, telling
from sluice.notify.occasions import Occasion

log = logging.getLogger(__name__)


def task_failed(context: Mapping[str, Any]) -> None:
    """``on_failure_callback`` of every task over a stream: it failed for good.

    Airflow calls it in the task's own process, with the exception; if that was killed, the scheduler finds it
    and the DAG processor calls it, without one. Not a listener, which no process calls for a killed worker,
    and not a last task of the DAG, which would take a worker for each run that is well. A failure to deliver
    is logged: the task is red already, and the next check, or the run's own callback, tries again.
    """
    task, error = context["task"], context.get("exception")
    component = getattr(task, "component", None)
    occasion = occasions.failed_task(task.stream, task.dag_id, task.task_id, error, _today(), component)
    _tell(occasion, RunChannel(context, keeps=error is not None), task.dag_id, task.task_id)


def task_succeeded(context: Mapping[str, Any]) -> None:
    """By a task of supervision that is no component, when it succeeds: no check finds that it does again."""
    task = context["task"]
    occasion = occasions.recovered(task.stream, task.task_id, history_name(task.stream, task.task_id))
    _tell(occasion, RunChannel(context), task.dag_id, task.task_id)


def not_looked_at(context: Mapping[str, Any], lines: Sequence[str]) -> None:
    """By the task that looks at connections: ``lines`` of the roles that it could not look as."""
    task = context["task"]
    _tell(occasions.not_looked_at(lines), RunChannel(context), task.dag_id, task.task_id)


def run_failed(stream: str, context: Mapping[str, Any]) -> None:
    """``on_failure_callback`` of a DAG, in the DAG processor: of a run that failed without a failed task (it
    timed out), or whose failed task notified no one."""
    dag, reason = context["dag"], context.get("reason") or "unknown"
    occasion = occasions.failed_run(stream, dag.dag_id, reason, dag.dagrun_timeout)
    _tell(occasion, RunChannel(context, keeps=False), dag.dag_id)


def run_succeeded(stream: str, context: Mapping[str, Any]) -> None:
    """``on_success_callback`` of a DAG of SCHEDULED, in the DAG processor."""
    dag_id = context["dag"].dag_id
    kind = occasions.kind_of(dag_id, stream)
    occasion = occasions.recovered(stream, kind, f"{stream}.{kind}")
    _tell(occasion, RunChannel(context, keeps=False), dag_id)


def _tell(occasion: Occasion | None, channel: RunChannel, dag_id: str, task: str = "") -> None:
    """Log why it could not be told: what a callback raises, Airflow would log with a traceback."""
    if occasion is None:
        return
    try:
        run = dag_id, channel.context["run_id"]
        composed = partial(compose, run=run, task=task)
        telling.tell_occasion(occasion, composed, PlatformHook().brief_history, channel)
    except (telling.NotDelivered, ConfigError, ClientError) as error:
        log.error("%s", with_code(code_of(error), error))


def _today() -> date:
    return datetime.now(UTC).date()
