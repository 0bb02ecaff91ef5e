"""How a command line ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from local.base import SetupError, UnhealthyService, UsageError, end_with


def raising(error: BaseException) -> Callable[[list[str]], int]:
    def main(arguments: list[str]) -> int:
        raise error

    return main


def test_an_exit_code_is_passed_on() -> None:
    with pytest.raises(SystemExit) as end:
        end_with(lambda arguments: 3)
    assert end.value.code == 3


def test_a_problem_is_one_line() -> None:
    for kind, code in ((UsageError, "SLU-801"), (SetupError, "SLU-802"), (UnhealthyService, "SLU-803")):
        with pytest.raises(SystemExit) as end:
            end_with(raising(kind("no such thing: make it")))
        assert end.value.code == f"sluice: {code} no such thing: make it"


def test_an_interrupt_says_what_is_given_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    for interrupted, said in ((str, ""), ("goes on from here".strip, "sluice: goes on from here\n")):
        with pytest.raises(SystemExit) as end:
            end_with(raising(KeyboardInterrupt()), interrupted)
        assert end.value.code == 130
        assert capsys.readouterr().err == said


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        end_with(raising(ZeroDivisionError()))
