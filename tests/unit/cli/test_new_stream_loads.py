"""When `sluice new-stream` loads the file of which it inferred a stream, and what it prints instead."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import typer

from sluice.cli import app, loads, put
from sluice.cli.installation import Host, Installation
from sluice.cli.topics import look
from sluice.cli.topics.look import FoundTopic
from sluice.config import streams
from sluice.config.folders import VARIABLE
from sluice.core.decoding.sample import Guess

CLEAR, DOUBTFUL = "id,x\n1,2.50\n", "id,x\n1,NA\n2,3\n"


class Checkout(ModuleType):
    """The commands of a checkout whose stack runs, and what it is asked."""

    def __init__(self, usual: Path, is_running: bool = True) -> None:
        super().__init__("fake_checkout")
        self.asked = list[Any]()
        fake = SimpleNamespace(is_running=lambda: is_running, systems=lambda role: f"as {role}")
        stack = cast("Installation", fake)
        self.host = Host(
            "local/run",
            lambda: stack,
            usual,
            add_streams=lambda: self.asked.append("add"),
            allow_reading=lambda _: True,
        )

    def add(self, _: typer.Typer) -> Host:
        return self.host


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    return made(tmp_path, monkeypatch)


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_running: bool = True) -> Checkout:
    found = Checkout(tmp_path / "usual", is_running)
    monkeypatch.setitem(sys.modules, found.__name__, found)
    monkeypatch.setenv(app.VARIABLE, found.__name__)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "mine"))
    monkeypatch.setattr(put, "main", lambda _, file, key: found.asked.append((file.name, key)))

    def load(_: Any, request: loads.Request, __: float) -> int:
        found.asked.append(request.dag)
        return 0

    monkeypatch.setattr(loads, "main", load)
    return found


def new(tmp_path: Path, content: str, *options: str) -> int:
    file = tmp_path / "my rides.csv"
    file.write_text(content)
    return app.run(["new-stream", "rides", "--from", str(file), *options])


LOADED = ["add", ("my rides.csv", "rides/my rides.csv"), "rides_load"]


def test_a_file_without_a_doubt_is_loaded_at_once(
    checkout: Checkout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new(tmp_path, CLEAR) == 0
    assert checkout.asked == LOADED
    assert (tmp_path / "mine" / "rides" / "stream.toml").is_file()
    said = capsys.readouterr().out
    assert "Still paused: rides_stream, rides_maintenance, rides_reconciliation" in said
    assert "local/run airflow dags unpause rides_stream" in said
    assert "Next: " not in said


@pytest.mark.parametrize("options", [[], ["--no-load"]])
def test_with_a_doubt_a_person_loads(
    checkout: Checkout, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new(tmp_path, CLEAR if options else DOUBTFUL, *options) == 0
    assert checkout.asked == []
    file = tmp_path / "my rides.csv"
    assert (
        f"Next: make up; local/run put '{file}' 'rides/my rides.csv'; local/run load rides --unpause\n"
        "Still paused: rides_stream"
    ) in capsys.readouterr().out


def test_a_folder_that_the_stack_knows_may_be_given(checkout: Checkout, tmp_path: Path) -> None:
    assert new(tmp_path, CLEAR, "--into", str(tmp_path / "mine")) == 0
    assert checkout.asked == LOADED


def test_another_folder_is_to_be_made_known_first(
    checkout: Checkout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    assert new(tmp_path, CLEAR, "--into", str(other)) == 0
    assert checkout.asked == []
    line = f"export {VARIABLE}={tmp_path / 'mine'}:{other}"
    assert f"Next: {line}; make up; local/run put " in capsys.readouterr().out
    assert app.run(["new-stream", "bus", "--into", str(other)]) == 0
    assert f"First: {line}\n" in capsys.readouterr().out


def test_nothing_is_loaded_while_the_stack_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = made(tmp_path, monkeypatch, is_running=False)
    assert new(tmp_path, CLEAR) == 0
    assert stopped.asked == []


def test_a_topic_that_was_looked_at_is_loaded_by_a_person(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def looked_at(systems: str, topic: str, allow_reading: Any) -> FoundTopic:
        checkout.asked += [systems, topic, allow_reading]
        guess = Guess("json", "text", {"headers": "STRING", "id": "BIGINT"}, has_headers=True)
        return FoundTopic(topic, 2, guess, [], [])

    monkeypatch.setattr(look, "look", looked_at)
    assert app.run(["new-stream", "orders", "--topic", "shop.orders"]) == 0
    assert checkout.asked == ["as airflow", "shop.orders", checkout.host.allow_reading]
    said = capsys.readouterr().out
    assert "Next: make up; local/run load orders --unpause\nStill paused: orders_stream" in said
    spec = streams.load("orders", {VARIABLE: str(tmp_path / "mine")})
    assert spec.records is not None
    assert (spec.records.key_column, spec.records.headers) == ("key", "record_headers")


def test_the_usual_folder_is_that_of_a_checkout(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    assert new(tmp_path, CLEAR, "--no-load") == 0
    assert (tmp_path / "usual" / "rides").is_dir()


def test_the_package_alone_loads_nothing_and_unpauses_in_airflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(app.VARIABLE, raising=False)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert new(tmp_path, CLEAR) == 0
    said = capsys.readouterr().out
    assert "Next: sluice put " in said
    assert "unpause them in Airflow" in said
