"""A machine without a program that tests need: they fail with the line to run, and never skip."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import packages
from tests.support.raising import raising

NAME, PACKAGE = "sluice-has-none", "a-package"
INSTALL = f"apt-get install -y --no-install-recommends {PACKAGE}"


class Machine:
    """One whose only programs are those in ``folder``; its `apt-get` takes note of what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / NAME
        self._apt, self._asked = folder / "apt-get", folder / "asked"

    def apt(self, then: str) -> None:
        self._script(self._apt, f'echo "apt-get $*" >> "{self._asked}"\n{then}')

    def install(self) -> None:
        self._script(self.program, "")

    def _script(self, path: Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    @property
    def asked(self) -> list[str]:
        return self._asked.read_text().splitlines() if self._asked.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Machine]:
    """Return a factory of machines with a user of this number."""

    def made(user: int) -> Machine:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(os, "geteuid", lambda: user)
        return Machine(tmp_path)

    return made


def test_it_is_there(machine: Callable[[int], Machine]) -> None:
    here = machine(0)
    here.apt("exit 1")
    here.install()
    assert packages.program(NAME, PACKAGE) == str(here.program)
    assert here.asked == []


def test_it_is_installed_by_root(machine: Callable[[int], Machine]) -> None:
    here = machine(0)
    here.apt(f'[ "$1" = install ] && : > "{here.program}" && /bin/chmod 755 "{here.program}"; exit 0')
    assert packages.program(NAME, PACKAGE) == str(here.program)
    assert here.asked == ["apt-get update", INSTALL]


def test_who_may_not_install_it_is_told_the_line(machine: Callable[[int], Machine]) -> None:
    here = machine(1000)
    here.apt("exit 1")
    with raising(RuntimeError, NAME, f"sudo {INSTALL}"):
        packages.program(NAME, PACKAGE)
    assert here.asked == []


def test_an_installation_that_fails_says_why(machine: Callable[[int], Machine]) -> None:
    here = machine(0)
    here.apt("echo no such package >&2; exit 100")
    with raising(RuntimeError, "apt-get update", 100, "no such package"):
        packages.program(NAME, PACKAGE)
    here.apt("exit 0")
    with raising(RuntimeError, NAME, INSTALL):
        packages.program(NAME, PACKAGE)
