"""Which samples the next run gets: few, and as far back as needed, however often supervision runs."""

from __future__ import annotations

import itertools

import pytest

from sluice.config.sections.supervision import Supervision
from sluice.supervision.rules.sample import Sample, downsample, memory_seconds


def sample(at: float) -> Sample:
    return Sample(at, None, None, None, None, None, None, {})


@pytest.mark.parametrize("every", [2.0, 12.0, 40.0, 120.0])
def test_runs_that_follow_each_other_closely_still_reach_back(every: float) -> None:
    kept: list[Sample] = []
    runs = [number * every for number in range(int(1200 / every))]
    for at in runs:
        kept = downsample([*kept, sample(at)], seconds=420, most=12)
        assert len(kept) <= 12
        assert kept[-1].at == at, "the last one is kept"
    reach = [sample.at for sample in kept]
    assert reach == sorted(reach)
    assert runs[-1] - 420 <= reach[0] <= runs[-1] - 420 + max(every, 42) + 42
    assert all(later - earlier <= max(every, 42) + every for earlier, later in itertools.pairwise(reach))


@pytest.mark.parametrize(
    ("details", "seconds"),
    [({}, 2 * 300 + 120), ({"stall_timeout_seconds": 1800.0}, 2 * 1800 + 120)],
)
def test_memory_reaches_twice_as_far_as_the_longest_rule_looks(
    details: dict[str, float], seconds: float
) -> None:
    """A restart doubles the stall timeout."""
    assert memory_seconds(Supervision(), details) == seconds
    assert memory_seconds(Supervision(stall_timeout_seconds=4000), details) == 2 * 4000 + 120


def test_nothing_and_one() -> None:
    assert downsample([], 420, 12) == []
    assert downsample([sample(5)], 420, 12) == [sample(5)]
