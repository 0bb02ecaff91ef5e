"""`sluice check-connections` prints a row for each end, and ends with 1 if one has a problem."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.cli import check_connections as command
from sluice.cli.base import UsageError
from sluice.cli.installation import Installation
from sluice.config.platform import DIRECTORY_VARIABLE
from sluice.connection_check.rows import Row
from tests.support.raising import raising


def installation(folder: Path) -> Installation:
    environ = {DIRECTORY_VARIABLE: str(folder)}
    made = SimpleNamespace(
        is_running=lambda: True, systems=lambda role: SimpleNamespace(environ=environ, platform=role)
    )
    return cast("Installation", made)


def finding(monkeypatch: pytest.MonkeyPatch, **found: Any) -> list[Sequence[str]]:
    """The roles that are asked for, each of whose only end is so."""
    asked: list[Sequence[str]] = []

    def check(roles: Sequence[str], *_: object, **__: object) -> list[Row]:
        asked.append(roles)
        return [Row(role, "kafka", "broker:9092", **found) for role in roles]

    monkeypatch.setattr(command, "check", check)
    return asked


def test_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for role in ("airflow", "consumer"):
        (tmp_path / f"{role}.toml").touch()
    asked = finding(monkeypatch, remarks=["1 right too many: \x1b[2J"])
    assert command.check_connections(installation(tmp_path), []) == 0
    assert asked == [["airflow", "consumer"]]
    out = capsys.readouterr().out
    assert "remark: consumer kafka broker:9092: 1 right too many: \\x1b[2J" in out
    assert "producer platform file producer.toml not looked at: its platform file is not here. Fix: " in out
    assert out.splitlines()[-1] == (
        "all 2 ends are as needed; not looked at: producer, reader, maintenance, observer"
    )


def test_files_of_a_role_that_are_not_for_this_process_are_not_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "consumer.toml").touch()
    finding(monkeypatch, not_looked_at="it names x.key: Permission denied. Fix: y")
    assert command.check_connections(installation(tmp_path), []) == 1
    assert "consumer kafka broker:9092 not looked at: it names x.key" in capsys.readouterr().out
    assert command.check_connections(installation(tmp_path), [], as_json=True) == 1
    document = json.loads(capsys.readouterr().out)
    assert not [end for end in document["ends"] if end["is_ok"]]


def test_a_problem_is_a_line_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finding(monkeypatch, problems=["it does not answer. Fix: start it"])
    assert command.check_connections(installation(tmp_path), ["reader", "reader"]) == 1
    *_, line, last = capsys.readouterr().out.splitlines()
    assert line == "FAILED: reader kafka broker:9092: it does not answer. Fix: start it"
    assert last == "1 of 1 ends failed"


def test_a_program_gets_one_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finding(monkeypatch, problems=["it does not answer. Fix: start it"])
    assert command.check_connections(installation(tmp_path), ["reader"], as_json=True) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["is_ok"] is False
    assert [(end["role"], end["is_ok"]) for end in document["ends"]] == [("reader", False)]
    assert any("sluice_results" in remark for remark in document["remarks"])


def test_a_role_that_is_none_and_a_folder_without_files_are_named(tmp_path: Path) -> None:
    with raising(UsageError, "writer", "consumer"):
        command.check_connections(installation(tmp_path), ["writer"])
    with raising(command.streams.ConfigError, str(tmp_path), DIRECTORY_VARIABLE):
        command.check_connections(installation(tmp_path), [])


def test_the_dag_that_is_named_is_there() -> None:
    from sluice.airflow.dags.connections_dag import connections_dag

    assert connections_dag().dag_id == command.DAG
