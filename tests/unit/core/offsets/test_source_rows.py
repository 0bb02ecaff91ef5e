from __future__ import annotations

import pytest

from sluice.core.offsets.sources import check_rows
from tests.support.counted import counted

CASES = {
    "all published": (4, [0, 1, 2, 3], [], True, "passed: 4 rows = 4 published + 0 quarantined"),
    "some quarantined": (4, [0, 3], [1, 2], True, "passed: 4 rows = 2 published + 2 quarantined"),
    "quarantined twice is quarantined": (3, [0, 1], [2, 2], True, "passed"),
    "an empty object": (0, [], [], True, "passed: 0 rows"),
    "one nowhere": (4, [0, 1, 3], [], False, "1 missing (rows [2,3))"),
    "one twice": (3, [0, 1, 1, 2], [], False, "1 more than once (rows [1,2))"),
    "one in both": (3, [0, 1, 2], [1], False, "1 more than once"),
    "one too many": (3, [0, 1, 2, 3], [], False, "1 not in the source (rows [3,4))"),
    "count right, rows wrong": (3, [0, 1, 1], [], False, "1 missing"),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_against_the_source(case: str) -> None:
    rows, published, quarantined, exact, words = CASES[case]
    found = check_rows(rows, counted(published), counted(quarantined).present)
    assert found.is_ok is exact
    assert words in found.message()
