"""How a command line ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from local.base import REPO, SetupError, UnhealthyService, UsageError, exit_code, printable_log


def raising(error: BaseException) -> Callable[[list[str]], int]:
    def main(arguments: list[str]) -> int:
        raise error

    return main


def test_an_exit_code_is_passed_on() -> None:
    assert exit_code(lambda arguments: 3) == 3


def test_a_usage_error_is_one_line() -> None:
    for kind, code in ((UsageError, "SLU-801"), (SetupError, "SLU-802"), (UnhealthyService, "SLU-803")):
        assert exit_code(raising(kind("no such thing: make it"))) == f"sluice: {code} no such thing: make it"


def test_an_interrupt_says_what_is_given_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    for interrupted, said in ((str, ""), ("goes on from here".strip, "sluice: goes on from here\n")):
        assert exit_code(raising(KeyboardInterrupt()), interrupted) == 130
        assert capsys.readouterr().err == said


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_code(raising(ZeroDivisionError()))


@pytest.mark.parametrize("module", ["sluice.cli.app", "local.setup", "local.replay"])
def test_a_failed_command_line_does_not_end_with_0(module: str, tmp_path: Path) -> None:
    commands = {"SLUICE_COMMANDS": "local.commands"}
    environment = os.environ | commands | {"JAVA_HOME": str(tmp_path), "SLUICE_CACHE": str(tmp_path)}
    command = [sys.executable, "-m", module, "logs", "--no-such-option"]
    ended = subprocess.run(command, cwd=REPO, env=environment, capture_output=True, text=True)
    assert ended.returncode not in (0, None)
    assert ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_text_of_others_gives_a_terminal_no_orders() -> None:
    assert exit_code(raising(UsageError("key 'a\x1b[2J'\nline"))) == "sluice: SLU-801 key 'a\\x1b[2J'\nline"
    assert printable_log("\x1b[32mok\x1b[0m \x1b[2J\x07\ud800") == "\x1b[32mok\x1b[0m \\x1b[2J\\x07\\ud800"
