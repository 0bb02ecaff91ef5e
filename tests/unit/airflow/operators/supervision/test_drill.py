"""The drill's task: it runs the stack's command, shows its output, and fails with its last line."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow.operators.supervision.drill import DrillOperator
from tests.support.raising import raising
from tests.support.steps import given

# Stands for `python -m tests.drills NAME --in-place`.
PROGRAM = """\
#!{python}
import os, pathlib, signal, sys, time
home = pathlib.Path(os.environ["SLUICE_HOME"])
(home / "arguments").write_text(" ".join(sys.argv[1:]))
print("breaking something", file=sys.stderr, flush=True)
{rest}
"""
PASSED = """print('{"drill": "x", "passed": true, "lost": 0}')"""
REPAIRS = """
def repair(*_):
    (home / "repaired").touch()
    sys.exit("sluice: interrupted")
signal.signal(signal.SIGTERM, repair)
(home / "broken").touch()
time.sleep(60)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    return tmp_path


def context(trigger_immediately: bool = False) -> Any:
    return given(params={"drill": "x", "trigger_immediately": trigger_immediately})


def step(home: Path, rest: str) -> DrillOperator:
    path = home / "python"
    path.write_text(PROGRAM.format(python=sys.executable, rest=rest))
    path.chmod(0o700)
    made = DrillOperator(task_id="drill")
    made.python = str(path)
    return made


def test_it_runs_the_drill_on_its_own_stack_and_gives_its_row(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert step(home, PASSED).execute(context()) == {"drill": "x", "passed": True, "lost": 0}
    command = "-m tests.drills x --in-place"
    assert (home / "arguments").read_text() == command
    assert "breaking something" in capsys.readouterr().out
    step(home, PASSED).execute(context(trigger_immediately=True))
    assert (home / "arguments").read_text() == f"{command} --trigger-immediately"


def test_a_drill_that_fails_says_its_last_line(home: Path) -> None:
    with raising(AirflowFailException, "drill x", "sluice: x: not detected"):
        step(home, "sys.exit('sluice: x: not detected')").execute(context())


def test_a_task_that_is_ended_ends_its_drill_which_repairs_what_it_broke(home: Path) -> None:
    made = step(home, REPAIRS)
    failure: list[BaseException] = []

    def run() -> None:
        try:
            made.execute(context())
        except AirflowFailException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not (home / "broken").exists():
        time.sleep(0.01)
    made.on_kill()
    thread.join(30)
    assert (home / "repaired").exists()
    assert [str(error) for error in failure] == ["SLU-804 drill x: sluice: interrupted"]


def test_without_a_home_there_is_nothing_to_break(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    made = DrillOperator(task_id="drill")
    with raising(AirflowFailException, "SLUICE_HOME"):
        made.execute(context())
