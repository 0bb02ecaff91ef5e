"""What a load's checks say if it is not verified."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sluice.loads.verification.proof import ValidationResult


def result(quarantined: int, reasons: Any, limit: float = 5.0) -> ValidationResult:
    check: Any = SimpleNamespace(is_ok=True, total=100, published=100 - quarantined, quarantined=quarantined)
    offsets: Any = SimpleNamespace(is_ok=True)
    source: Any = SimpleNamespace(
        name="s3://b/k.csv", run_id="r1", send_by_other_rules=lambda stream: f"upload, {stream}_load"
    )
    return ValidationResult(offsets, [(source, check)], [], limit, {}, reasons=reasons)


def test_reasons_of_rejected_rows_are_summed_up_for_a_load_with_too_many() -> None:
    assert result(5, lambda: pytest.fail("its reasons were read")).problems() == []
    problem, way_on = result(6, lambda: "6 rows: column a is empty").problems()
    assert problem == (
        "quarantine: 6 of 100 rows, 6.00 %, the limit is 5 %. 6 rows: column a is empty. Or correct the "
        "source, or raise max_quarantined_percent"
    )
    assert "Fix: check their reasons, correct the source" in result(6, str).problems()[0]
    assert way_on == (
        "quarantine: after a change of the declaration, trigger <stream>_change with action=revert and "
        "load=r1, upload, <stream>_load"
    )


def test_a_load_of_which_no_row_is_published_is_not_verified_whatever_the_limit_is() -> None:
    assert result(99, str, 100.0).problems() == []
    (problem,) = result(100, str, 100.0).problems()
    assert problem.startswith("quarantine: 100 of 100 rows, 100.00 %, and none is published")
