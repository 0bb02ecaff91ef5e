from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from sluice.core.offsets.bitmaps import Bitmap
from sluice.core.offsets.counts import Counted
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


def test_a_lost_partition_of_a_generated_source_is_named_in_constant_memory() -> None:
    """Its rows go to the partitions in turn, so each lost one is a range of its own."""
    rows, held = 2_000_000, Counted()
    held.add(np.flatnonzero(np.arange(rows) % 10 != 3))
    tracemalloc.start()
    found = check_rows(rows, held, Bitmap())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.problems[0].startswith("200000 missing (rows [3,4),[13,14),[23,24),")
    named = found.problems[0].count("[")
    assert found.problems[0].endswith(f") … ({200_000 - named} ranges more))")
    assert len(found.problems[0]) < 1_100
    assert peak < 1_000_000


@pytest.mark.parametrize("values", [[], [5], [0, 1, 2, 9], [2**32 - 1, 2**33, 2**33 + 1]])
def test_ranges_are_shown_as_they_are(values: list[int]) -> None:
    bitmap = counted(values).present
    assert bitmap.shown() == str(bitmap.ranges())
    assert bitmap.shown(1).split(" … ")[0] == str(bitmap.ranges()).split(",[")[0]
