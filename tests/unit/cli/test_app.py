"""The command line: its commands in a checkout, in a container and with the package alone; how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.cli import app, installation
from sluice.cli.base import UsageError
from tests.support.raising import raising

REPO = Path(__file__).resolve().parents[3]
PACKAGE = {
    "load",
    "change",
    "sql",
    "put",
    "batches",
    "trace",
    "schema",
    "catalog-check",
    "check-connections",
    "new-stream",
}


def names() -> set[str]:
    return app.names(app.build()[0])


@pytest.fixture(autouse=True)
def only_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(app.VARIABLE, raising=False)
    monkeypatch.delenv("SLUICE_PROFILES", raising=False)


def test_the_package_alone_has_what_needs_the_systems_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert names() == PACKAGE
    assert app.run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in (*PACKAGE, *app.OF_A_CHECKOUT, "Exit codes"))


@pytest.mark.parametrize("command", app.OF_A_CHECKOUT)
def test_what_needs_a_checkout_says_so_in_one_line(command: str) -> None:
    with raising(UsageError, f"{command} needs", f"local/run {command}"):
        app.run([command])


def test_a_checkout_adds_its_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(app.VARIABLE, "local.commands")
    assert names() > PACKAGE | set(app.OF_A_CHECKOUT)


def test_in_a_container_there_is_what_it_can_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(app.VARIABLE, "local.commands")
    monkeypatch.setenv("SLUICE_PROFILES", "single-broker")
    assert names() == PACKAGE | {"demo", "airflow", "python"}
    assert app.run(["sql", "--help"]) == 0
    assert "docker compose run --rm tools sql" in capsys.readouterr().out
    with raising(UsageError, "docker compose up --wait"):
        app.run(["up"])


def test_a_wrong_command_line_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["no-such-command"], ["sql"], ["load", "nyc_taxi", "--no-such-option"]):
        assert app.run(arguments) == 2
        assert "Error" in capsys.readouterr().err


def test_an_invalid_declaration_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_PLATFORM_DIR", str(tmp_path))
    with raising(UsageError, tmp_path):
        app.run(["batches", "nyc_taxi"])


def test_airflow_is_found_by_its_address() -> None:
    with raising(UsageError, "SLUICE_AIRFLOW_USER, SLUICE_AIRFLOW_PASSWORD"):
        installation.ConfiguredInstallation({"SLUICE_AIRFLOW_URL": "http://airflow"}).airflow()
    given = dict.fromkeys(
        (installation.URL_VARIABLE, installation.USER_VARIABLE, installation.PASSWORD_VARIABLE), "x/"
    )
    assert installation.ConfiguredInstallation(given).airflow().url == "x"


def test_a_shell_can_complete_it() -> None:
    """As the script that `sluice --install-completion` writes asks it."""
    asked = {"_SLUICE_COMPLETE": "complete_bash", "COMP_WORDS": "sluice new", "COMP_CWORD": "1"}
    program = "from sluice.cli.app import main; main()"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPO / "plugins"), **asked}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["new-stream"], "")
