"""A machine without a program that tests need: they fail with the line to run, and never skip."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from tests.support import packages

INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "chromium")
LINE = " ".join(INSTALL)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """``found``: the program's path; ``ran``: the commands that were run; ``code``: how they end."""
    made: dict[str, Any] = {"found": None, "ran": [], "code": 0, "user": 0}

    def run(command: tuple[str, ...], **_: Any) -> subprocess.CompletedProcess[str]:
        made["ran"].append(" ".join(command))
        if command == INSTALL:
            made["found"] = made.get("installs")
        return subprocess.CompletedProcess(command, made["code"], "", "no such package")

    monkeypatch.setattr(packages.shutil, "which", lambda _, path: made["found"])
    monkeypatch.setattr(packages.subprocess, "run", run)
    monkeypatch.setattr(os, "geteuid", lambda: made["user"])
    return made


def test_it_is_there(machine: dict[str, Any]) -> None:
    machine["found"] = "/usr/bin/chromium"
    assert packages.program("chromium", "chromium") == "/usr/bin/chromium"
    assert machine["ran"] == []


def test_it_is_installed_by_root(machine: dict[str, Any]) -> None:
    machine["installs"] = "/usr/bin/chromium"
    assert packages.program("chromium", "chromium") == "/usr/bin/chromium"
    assert machine["ran"] == ["apt-get update", LINE]


def test_who_may_not_install_it_is_told_the_line(machine: dict[str, Any]) -> None:
    machine["user"] = 1000
    with pytest.raises(RuntimeError, match=f"Run: sudo {LINE}"):
        packages.program("chromium", "chromium")
    assert machine["ran"] == []


def test_an_installation_that_fails_says_why(machine: dict[str, Any]) -> None:
    machine["code"] = 100
    with pytest.raises(RuntimeError, match="ended with 100: no such package"):
        packages.program("chromium", "chromium")
    machine["code"] = 0
    with pytest.raises(RuntimeError, match="still missing"):
        packages.program("chromium", "chromium")
