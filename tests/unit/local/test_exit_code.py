"""How a command line ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from local.base import SetupError, UnhealthyService, UsageError, exit_code


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
