"""What a stack keeps between its starts, and what its programs get of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from local.base import REPO
from local.runtime import notifications_file
from local.runtime.context import Context
from local.runtime.home import StackDir
from local.services import airflow, kafka, streams
from local.stack import health
from local.stack.stack import Stack
from sluice.config import notifications, overrides
from sluice.config.reading.toml import ConfigError
from tests.support.raising import raising

QUICK = "-XX:TieredStopAtLevel=1 -Xss2m"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (overrides.VARIABLE, notifications.VARIABLE, "SLUICE_EXTERNAL", "SLUICE_FEED"):
        monkeypatch.delenv(name, raising=False)
    StackDir(tmp_path / "home").prepare()
    return tmp_path / "home"


def started(stack: Stack) -> None:
    """What a start keeps."""
    stack.home.remember(**stack.settings)


def test_without_a_word_nothing_is_overridden(home: Path) -> None:
    found = Stack(home).settings
    assert (found["overrides"], found["java_options"]) == (None, "")
    assert (found["external"], found["feed"], found["dags"]) == (None, "public", str(REPO / "dags"))


def test_what_a_stack_was_made_with_is_kept_for_its_next_start(home: Path, tmp_path: Path) -> None:
    made = Stack(
        home,
        dags=tmp_path,
        feed="replay",
        overrides=tmp_path / "short.toml",
        java_options=QUICK,
        airflow_settings={"CORE__PARALLELISM": "8"},
    )
    started(made)
    assert Stack(home).settings == made.settings
    assert made.settings["overrides"] == str(tmp_path / "short.toml")
    assert made.settings["java_options"] == QUICK
    assert made.settings["airflow_settings"] == {"CORE__PARALLELISM": "8"}


def test_the_environment_counts_before_what_was_kept_and_an_argument_before_both(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(Stack(home, overrides=tmp_path / "kept.toml"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(overrides.VARIABLE, "given.toml")
    assert Stack(home).settings["overrides"] == str(tmp_path / "given.toml"), "wherever it is read"
    assert Stack(home, overrides=tmp_path / "a").settings["overrides"] == str(tmp_path / "a")
    monkeypatch.setenv(overrides.VARIABLE, "")
    assert Stack(home).settings["overrides"] is None, "said to be none"


def test_a_stream_that_is_added_to_a_stack_that_runs_does_not_restart_its_database(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = Stack(home)
    stack.home.remember(connections=130)
    monkeypatch.setattr(streams, "connections", lambda _: 1300)
    command = next(one.command for one in stack.programs() if one.name == "postgres")
    assert "max_connections=130" in command


def test_all_jobs_learn_of_the_overrides(context: Context, tmp_path: Path) -> None:
    assert overrides.VARIABLE not in context.job_environment()
    with_them = replace(context, overrides=str(tmp_path / "short.toml"))
    for told in (
        with_them.job_environment(),
        airflow.environment(with_them),
        *(program.environment for program in streams.programs(with_them)),
    ):
        assert told[overrides.VARIABLE] == str(tmp_path / "short.toml")


def test_every_jvm_gets_the_options(context: Context) -> None:
    with_them = replace(context, java_options=QUICK)
    [line] = [
        line
        for line in streams.spark_defaults(with_them).splitlines()
        if line.startswith("spark.driver.extraJavaOptions ")
    ]
    assert line.endswith(f" {QUICK}")
    command = list(kafka.program(with_them).command)
    at = command.index(QUICK.split()[0])
    assert command[at : at + 2] == QUICK.split()
    assert at < command.index("-cp")
    assert not set(QUICK.split()) & set(kafka.program(context).command)


MAIL = '[[notify]]\nnotifier = "smtp"\n[notify.arguments]\nto = "ops@example.com"\n'


def test_the_file_of_notifications_is_kept_checked_and_copied(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: Context
) -> None:
    (tmp_path / "mail.toml").write_text(MAIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(notifications.VARIABLE, "mail.toml")
    started(Stack(home))
    monkeypatch.delenv(notifications.VARIABLE)
    kept = Stack(home).settings["notifications"]
    assert kept == str(tmp_path / "mail.toml")
    made = replace(context, notifications=kept)
    assert notifications_file.files(made) == {context.home.platform / notifications.FILE: MAIL}
    (tmp_path / "mail.toml").write_text(MAIL.replace("smtp", "mail"))
    with raising(ConfigError, kept, "mail"):
        notifications_file.files(made)
    (tmp_path / "mail.toml").unlink()
    with raising(ConfigError, notifications.VARIABLE, kept):
        notifications_file.files(made)


def test_without_one_the_rules_of_an_earlier_start_end(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: Context
) -> None:
    home_with = StackDir(home)
    home_with.remember(notifications=str(tmp_path / "mail.toml"))
    monkeypatch.setenv(notifications.VARIABLE, "")
    assert Stack(home).settings["notifications"] is None
    ((path, text),) = notifications_file.files(context).items()
    assert path.name == notifications.FILE
    assert notifications.parse(text, "x", []) == notifications.Notifications()


def test_each_program_of_airflow_has_a_row_in_the_status(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {part for _, part in airflow.COMPONENTS.values()}
    monkeypatch.setattr(airflow, "health", lambda _: dict.fromkeys(parts, "healthy"))
    context = Stack(home).context
    states = {one.name: {"statename": "RUNNING"} for one in airflow.programs(context)}
    assert airflow.CLEANUP in states
    assert all(row.is_ok for row in health.rows(context, states))
