"""What a load's checks say if it is not verified."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sluice.loads.verification.proof import ValidationResult


def result(quarantined: int, reasons: Any) -> ValidationResult:
    check: Any = SimpleNamespace(is_ok=True, total=100, published=100 - quarantined, quarantined=quarantined)
    offsets: Any = SimpleNamespace(is_ok=True)
    source: Any = SimpleNamespace(name="s3://b/k.csv")
    return ValidationResult(offsets, [(source, check)], [], 5.0, {}, reasons=reasons)


def test_reasons_of_rejected_rows_are_summed_up_for_a_load_with_too_many() -> None:
    assert result(5, lambda: pytest.fail("its reasons were read")).problems() == []
    (problem,) = result(6, lambda: "6 rows: column a is empty").problems()
    assert problem == (
        "quarantine: 6 of 100 rows, 6.00 %, the limit is 5 %. 6 rows: column a is empty. Or correct the "
        "source, or raise max_quarantined_percent"
    )
    assert "Fix: check their reasons, correct the source" in result(6, str).problems()[0]
