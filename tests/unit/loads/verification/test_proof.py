"""What a load's checks say if it is not verified."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sluice.core.csv.form import Declared
from sluice.core.csv.summary import Rejected, summary
from sluice.core.messages import summarize
from sluice.loads.verification.proof import SHOWN_PROBLEMS, ValidationResult


def result(quarantined: int, reasons: Any, limit: float = 5.0) -> ValidationResult:
    check: Any = SimpleNamespace(is_ok=True, total=100, published=100 - quarantined, quarantined=quarantined)
    offsets: Any = SimpleNamespace(is_ok=True)
    source: Any = SimpleNamespace(
        name="s3://b/k.csv", run_id="r1", send_by_other_rules=lambda stream: f"upload, {stream}_load"
    )
    return ValidationResult(offsets, [(source, check)], [], limit, {}, reasons=reasons)


def test_reasons_of_rejected_rows_are_summed_up_for_a_load_with_too_many() -> None:
    assert result(5, lambda: pytest.fail("its reasons were read")).problems("x") == []
    share, *reasons, way_on = result(6, lambda: ["6 rows: a is empty", "1 row: b"]).problems("x")
    assert share == (
        "quarantine: 6 of 100 rows, 6.00 %, the limit is 5 %. Fix: check their reasons, correct the source, "
        "or raise max_quarantined_percent"
    )
    assert reasons == ["quarantine: 6 rows: a is empty", "quarantine: 1 row: b"]
    assert result(6, list).problems("x") == [share]
    assert way_on == (
        "quarantine: after a change of the declaration, trigger x_change with action=revert and load=r1, "
        "upload, x_load; sluice new-stream NAME --from FILE --no-load infers all of [csv]"
    )


def test_a_load_of_which_no_row_is_published_is_not_verified_whatever_the_limit_is() -> None:
    assert result(99, list, 100.0).problems("x") == []
    problem, reason, _ = result(100, lambda: ["100 rows: a is empty"], 100.0).problems("x")
    assert problem.startswith("quarantine: 100 of 100 rows, 100.00 %, and none is published")
    assert reason == "quarantine: 100 rows: a is empty"


def test_the_message_of_a_load_has_all_of_its_reasons_and_the_way_on() -> None:
    """Each problem is cut, so the fix of the last reason would be lost in one that has all."""
    rejected = [
        Rejected(row, f"{wrong}; column c: 'ja' is not a boolean", row + 2, f"s3://b/{'k' * 900}.csv")
        for wrong in (f"column {'a' * 60}: '1/31/2016 4:05' is not a time", "column b: '1,5' is not a long")
        for row in (1, 2)
    ]
    told = [summary(rejected, Declared()), [*summary(rejected, Declared()), "and 2 more reasons"]]
    for reasons in told:
        problems = result(6, lambda reasons=reasons: reasons).problems("x")
        message = summarize([*("offsets: " + "x" * 900,) * 2, *problems], SHOWN_PROBLEMS)
        for words in ('"yyyy-MM-dd", "M/d/yyyy H:mm"]', "decimal_comma = true", '"1", "ja"]', "--no-load"):
            assert words in message
