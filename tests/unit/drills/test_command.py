"""The drills' command: which drills it runs, and that it spares external systems."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from local.base import UsageError
from local.stack.stack import Stack
from sluice.cli import app
from tests.drills import __main__ as command
from tests.drills.faults import DRILLS
from tests.support.raising import raising


def test_the_drills_that_are_chosen() -> None:
    assert [drill.name for drill in command.chosen(["disk_full", "consumer_hung"])] == [
        "disk_full",
        "consumer_hung",
    ]
    assert [drill.name for drill in command.chosen([])] == list(DRILLS)
    with raising(UsageError, "no drill a. Fix", *DRILLS):
        command.chosen(["a", "disk_full"])


def test_no_drill_breaks_external_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those that a stack that runs remembers, nor those of the environment."""

    def unexpected(*_: object) -> None:
        raise AssertionError("the drill went on")

    monkeypatch.setattr(command, "_in_place", unexpected)
    monkeypatch.setattr(command, "own_stack", unexpected)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    monkeypatch.delenv("SLUICE_EXTERNAL", raising=False)
    stack = Stack()
    stack.home.prepare()
    stack.home.remember(external="/my-platform")
    with raising(UsageError, "/my-platform", "SLUICE_EXTERNAL", "Fix: ") as caught:
        command.main(["disk_full", "--in-place", "consumer_killed"])
    assert len(str(caught.value).splitlines()) == 1
    monkeypatch.setenv("SLUICE_EXTERNAL", str(tmp_path))
    with raising(UsageError, str(tmp_path), "SLUICE_EXTERNAL", "Fix: "):
        command.main(["consumer_killed"])


def test_the_command_of_the_checkout_becomes_that_of_the_drills(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its process: an interrupt must reach it, and leave it the time to repair."""

    became: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, arguments: became.append([program, *arguments]))
    monkeypatch.setenv(app.VARIABLE, "local.commands")
    assert app.run(["drill", "broker_killed", "--in-place", "--trigger-immediately"]) == 0
    expected = ["-m", "tests.drills", "broker_killed", "--in-place", "--trigger-immediately"]
    assert became == [[sys.executable, sys.executable, *expected]]
