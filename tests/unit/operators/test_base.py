"""A step's failure for several problems: one line, while its log has each in full."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.model.error_codes import ErrorCode
from sluice.operators.base import StreamOperator


def fail(problems: list[str]) -> str:
    step = StreamOperator(task_id="validate", stream="nyc_taxi")
    with pytest.raises(AirflowFailException) as caught:
        step.check_no_problems(ErrorCode.LOAD_NOT_VERIFIED, problems, "verification failed", ". Fix: look")
    return str(caught.value)


@pytest.mark.parametrize(
    ("problems", "said"),
    [
        (["a"], "a"),
        (["a", "b", "c"], "a; b; c"),
        (["a", "b", "c", "d"], "a; b; c; and 1 more"),
        ([f"p{number}" for number in range(1003)], "p0; p1; p2; and 1000 more"),
        (["two\n  lines", "b"], "two lines; b"),
        (["x" * 10_000, "b"], f"{'x' * 499}…; b"),
    ],
)
def test_a_failure_names_three_problems_and_how_many_more(
    problems: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(StreamOperator, "log", property(lambda step: Log(logged)))
    assert fail(problems) == f"SLU-401 verification failed: {said}. Fix: look"
    assert logged == problems, "each in full"


class Log:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def error(self, text: str, *arguments: object) -> None:
        self._lines.append(text % arguments)


def test_a_step_without_problems_goes_on() -> None:
    step = StreamOperator(task_id="validate", stream="nyc_taxi")
    step.check_no_problems(ErrorCode.LOAD_NOT_VERIFIED, [], "verification failed")
