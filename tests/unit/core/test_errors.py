"""The error for several problems."""

from __future__ import annotations

import logging

import pytest

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, check_no_problems

LOG = logging.getLogger("problems")


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
def test_an_error_names_three_problems_and_how_many_more(
    problems: list[str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Refused) as caught:
        check_no_problems(LOG, ErrorCode.LOAD_NOT_VERIFIED, problems, "verification failed", ". Fix: look")
    assert str(caught.value) == f"verification failed: {said}. Fix: look"
    assert caught.value.code is ErrorCode.LOAD_NOT_VERIFIED
    assert caplog.messages == problems, "each in full"


def test_without_problems_there_is_no_error() -> None:
    check_no_problems(LOG, ErrorCode.LOAD_NOT_VERIFIED, [], "verification failed")
