"""`local/run airflow`: Airflow's own command line with the stack's environment; what starts the scheduler."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from local.base import REPO, UsageError
from local.commands.stack import run_airflow
from local.runtime.context import Context
from local.services import airflow
from sluice.config import work_pool
from tests.support.raising import raising


def stack(python_env: Path, *, is_running: bool = True) -> Any:
    return SimpleNamespace(is_running=lambda: is_running, context=SimpleNamespace(python_env=python_env))


def test_it_has_the_stacks_environment_and_gives_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "bin" / "airflow"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$AIRFLOW_HOME:$HOME:$1:$2"\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setattr(airflow, "environment", lambda _: {"AIRFLOW_HOME": "/stack/airflow"})
    monkeypatch.setenv("HOME", "/home/me")
    assert run_airflow(stack(tmp_path), ["dags", "two words"]) == 3
    assert capfd.readouterr().out == "/stack/airflow:/home/me:dags:two words\n"


def test_without_a_stack_it_says_so(tmp_path: Path) -> None:
    with raising(UsageError, "the stack does not run", "make up"):
        run_airflow(stack(tmp_path, is_running=False), ["dags", "list"])


def test_schedulers_make_the_pool_of_tasks_at_each_start(context: Context) -> None:
    command = ["-m", "sluice.airflow.database", "scheduler"]
    (scheduler,) = (one for one in airflow.programs(context) if one.name == "airflow-scheduler")
    words = list(map(str, scheduler.command))
    assert words[words.index("-m") : words.index("-m") + 3] == command
    chart = yaml.safe_load((REPO / "k8s" / "helm" / "airflow-values.yaml").read_text())
    assert chart["scheduler"]["args"] == ["python", *command]
    assert {"name": work_pool.VARIABLE, "value": "sluice_work:28"} in chart["env"]
