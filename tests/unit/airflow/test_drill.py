"""The drill's task: it starts the drill once, follows it, finds it again, and is red with its one line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.operators.drill import DrillOperator
from tests.support.raising import raising
from tests.support.steps import given

# Stands for `python -m local.cli drill --here NAME --ticket TICKET`: says a line, and how it ended.
PROGRAM = """\
#!{python}
import json, os, pathlib, sys, time
home = pathlib.Path(os.environ["SLUICE_HOME"]) / "drills"
name, ticket = sys.argv[sys.argv.index("--here") + 1], sys.argv[sys.argv.index("--ticket") + 1]
def note(state, rows=(), failure=""):
    text = json.dumps(dict(ticket=ticket, pid=os.getpid(), state=state, rows=list(rows), failure=failure))
    (home / "part").write_text(text)
    (home / "part").rename(home / "state.json")
(home / "starts").open("a").write(f"{{os.environ['AT_ONCE']}};")
note("running")
print("breaking something", flush=True)
time.sleep({seconds})
{end}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    return tmp_path


def program(home: Path, end: str, seconds: float = 0.05) -> None:
    path = home / "python"
    path.write_text(PROGRAM.format(python=sys.executable, seconds=seconds, end=end))
    path.chmod(0o700)


def row(passed: bool, why_not: str = "") -> str:
    return f"note('done', [dict(drill=name, passed={passed}, why_not={why_not!r}, lost=0)])"


def execute(home: Path, run: str = "run1", at_once: str = "False") -> dict[str, Any]:
    made = DrillOperator(task_id="drill", drill="x", at_once=at_once)
    made.poll_seconds, made.python = 0.02, str(home / "python")
    return made.execute(given(dag_run=SimpleNamespace(dag_id="drill_x", run_id=run)))


def starts(home: Path) -> str:
    return (home / "drills" / "starts").read_text()


def test_it_follows_the_drill_to_its_row(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(home, row(True))
    assert execute(home, at_once="True") == {"drill": "x", "passed": True, "why_not": "", "lost": 0}
    assert starts(home) == "1;"
    assert "breaking something" in capsys.readouterr().out


def test_a_drill_that_is_not_passed_is_red_with_its_line(home: Path) -> None:
    program(home, row(False, "nobody noticed"))
    with raising(AirflowFailException, "drill x", "nobody noticed"):
        execute(home)
    assert starts(home) == ";"


def test_a_drill_that_broke_off(home: Path) -> None:
    program(home, "note('failed', [], 'KeyboardInterrupt: ')")
    with raising(AirflowFailException, "drill x", "KeyboardInterrupt: "):
        execute(home)


def test_a_drill_that_was_killed_is_started_again_by_the_next_attempt(home: Path) -> None:
    program(home, "os._exit(9)")
    with raising(AirflowException, "drill x", home / "drills" / "x.log") as caught:
        execute(home)
    assert type(caught.value) is AirflowException, "it is tried again"
    program(home, row(True))
    assert execute(home)["passed"]
    assert starts(home) == ";;"


def test_a_second_attempt_finds_the_drill_that_the_first_has_started(home: Path) -> None:
    program(home, row(True), seconds=0.5)
    (home / "drills").mkdir()
    with (home / "drills" / "x.log").open("ab") as log:
        first = subprocess.Popen(
            [home / "python", "-m", "local.cli", "drill", "--here", "x", "--ticket", "drill_x run1"],
            env={"SLUICE_HOME": str(home), "AT_ONCE": ""},
            stdout=log,
        )
    while not (home / "drills" / "state.json").exists():
        time.sleep(0.02)
    assert execute(home)["passed"]
    assert starts(home) == ";", "one start"
    assert first.wait(5) == 0


def test_a_drill_that_ended_between_two_attempts_is_not_made_again(home: Path) -> None:
    program(home, "raise SystemExit('not to be started')")
    (home / "drills").mkdir()
    (home / "drills" / "x.log").write_text("passed\n")
    state = {
        "ticket": "drill_x run1",
        "pid": 1,
        "state": "done",
        "failure": "",
        "rows": [{"drill": "x", "passed": True}],
    }
    (home / "drills" / "state.json").write_text(json.dumps(state))
    assert execute(home)["passed"]
    assert not (home / "drills" / "starts").exists()


def test_a_task_that_is_cleared_plays_it_once_more(home: Path) -> None:
    program(home, row(True))
    execute(home)
    execute(home)
    execute(home, "run2")
    assert starts(home) == ";;;"


def test_a_drill_that_did_not_begin_says_why(home: Path) -> None:
    path = home / "python"
    path.write_text("#!/bin/sh\necho 'sluice: another drill is at work'\nexit 1\n")
    path.chmod(0o700)
    with raising(AirflowFailException, "drill x", "sluice: another drill is at work"):
        execute(home)


def test_without_a_home_there_is_nothing_to_break(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICE_HOME")
    with raising(AirflowFailException, "SLUICE_HOME"):
        execute(home)
