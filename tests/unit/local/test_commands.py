"""The checkout's commands, by `local/run` and `make`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local.base import REPO, UsageError
from local.commands import stack as commands
from sluice.cli import app
from tests.support.raising import raising


@pytest.fixture(autouse=True)
def checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(app.VARIABLE, "local.commands")
    monkeypatch.delenv("SLUICE_PROFILES", raising=False)


def test_python_is_the_environments_and_its_exit_code_is_passed_on(
    capfd: pytest.CaptureFixture[str],
) -> None:
    program = "import sys; print(sys.executable, sys.argv[1:]); sys.exit(3)"
    assert app.run(["python", "-c", program, "--help", "-x"]) == 3
    assert capfd.readouterr().out.strip() == f"{sys.executable} ['--help', '-x']"


def test_airflow_gets_its_own_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []

    def run(stack: Any, arguments: list[str]) -> int:
        asked.append(arguments)
        return 5

    monkeypatch.setattr(commands, "run_airflow", run)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    assert app.run(["airflow", "dags", "list", "--output", "json", "--help"]) == 5
    assert asked == [["dags", "list", "--output", "json", "--help"]]


def test_every_target_of_make_is_a_command() -> None:
    [line] = [text for text in (REPO / "Makefile").read_text().splitlines() if text.startswith("COMMANDS :=")]
    assert set(line.split()[2:]) - {"help"} <= app.names(app.build()[0])


def test_no_variable_carries_an_argument() -> None:
    assert "export" not in (REPO / "Makefile").read_text()


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "kafka.log").write_text("started\n")
    stack: Any = SimpleNamespace(home=SimpleNamespace(logs=tmp_path))
    with raising(UsageError, "no log of minio", "kafka"):
        commands.follow_logs(stack, "minio")
    stack.home.logs = tmp_path / "none"
    with raising(UsageError, "make up"):
        commands.follow_logs(stack)


def test_destroy_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    destroyed: list[str] = []
    made: Any = SimpleNamespace(
        home=SimpleNamespace(root=tmp_path), destroy=lambda: destroyed.append("destroyed")
    )
    monkeypatch.setattr(commands, "opened", lambda: made)
    monkeypatch.setattr(commands.sys, "stdin", SimpleNamespace(isatty=lambda: False))
    with raising(UsageError, "--yes"):
        app.run(["destroy"])
    monkeypatch.setattr(commands.sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", lambda question: "n")
    assert app.run(["destroy"]) == 1
    assert destroyed == []
    assert app.run(["destroy", "--yes"]) == 0
    assert destroyed == ["destroyed"]


def test_help_needs_no_set_up(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SLUICE_CACHE": str(tmp_path / "cache")}
    for arguments in ([], ["help"], ["--help"], ["load", "--help"]):
        done = subprocess.run(
            ["local/run", *arguments], cwd=REPO, env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert re.search("local/run setup", done.stdout)
    assert not (tmp_path / "cache").exists()


def test_paths_are_of_the_folder_where_it_is_called(tmp_path: Path) -> None:
    program = "import os; print(os.getcwd())"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [REPO / "local" / "run", "status", "--help"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "local/run status" in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "sluice.cli.app", "python", "-c", program],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": f"{REPO / 'plugins'}:{REPO}"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == str(tmp_path)
