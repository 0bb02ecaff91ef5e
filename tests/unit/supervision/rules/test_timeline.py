"""At what pace a topic is trimmed: from advance to advance, since whole segments go at once."""

from __future__ import annotations

import pytest

from sluice.supervision.rules.sample import Sample, deletion_rate

CASES: dict[str, tuple[list[tuple[float, dict[int, int]]], float | None]] = {
    "no advance": ([(0, {0: 5}), (100, {0: 5})], None),
    "one advance": ([(0, {0: 0}), (100, {0: 900})], None),
    "two: the size of the first does not count": ([(0, {0: 0}), (100, {0: 900}), (200, {0: 1000})], 1.0),
    "what follows the last does not count": (
        [(0, {0: 0}), (100, {0: 900}), (200, {0: 1000}), (900, {0: 1000})],
        1.0,
    ),
    "three": ([(0, {0: 0}), (100, {0: 900}), (150, {0: 910}), (200, {0: 1100})], 2.0),
    "too close together": ([(0, {0: 0}), (100, {0: 900}), (159, {0: 1000})], None),
    "a partition that was added is no advance": (
        [(0, {}), (100, {0: 900}), (200, {0: 1000}), (300, {0: 1000})],
        None,
    ),
    "of another partition": ([(0, {0: 0, 1: 0}), (100, {0: 0, 1: 900}), (200, {0: 0, 1: 1000})], None),
    "a recreated topic": ([(0, {0: 900}), (100, {0: 0}), (200, {0: 10}), (300, {0: 20})], 0.1),
}


@pytest.mark.parametrize("case", CASES)
def test_deletion_rate(case: str) -> None:
    begins, rate = CASES[case]
    series = [Sample(at, None, None, begin, {}, None, None, {}) for at, begin in begins]
    assert deletion_rate(series, 0, 60) == rate
