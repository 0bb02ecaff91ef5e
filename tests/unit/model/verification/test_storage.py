from __future__ import annotations

import pytest

from sluice.model.verification.storage import BudgetCheck, PrefixUsage


def test_counts_are_subtracted_unit_by_unit() -> None:
    before, after = PrefixUsage(1, 2, 3, 4), PrefixUsage(11, 22, 33, 44)
    assert after - before == PrefixUsage(10, 20, 30, 40)


@pytest.mark.parametrize(
    ("value", "ok", "words"),
    [
        (20, True, "versions is 20, the limit is 20"),
        (21, False, "versions is 21"),
        (None, False, "unknown"),
    ],
)
def test_what_is_over_or_unseen_is_not_within_its_budget(value: float | None, ok: bool, words: str) -> None:
    line = BudgetCheck("versions", value, 20)
    assert line.ok is ok
    assert words in line.message()
