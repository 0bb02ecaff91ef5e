"""What one run hands to the next."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from sluice.config.sections.supervision import Supervision
from sluice.ledger.history import History
from sluice.ledger.keys import history_name
from sluice.supervision.observation import Observation, record
from sluice.supervision.rules.sample import Sample, downsample
from sluice.supervision.rules.status import Health
from tests.support.memory_s3 import MemoryS3
from tests.support.supervision import report, sample


def moments(*at: float) -> list[float]:
    return [s.at for s in downsample([sample(float(a)) for a in at], 100, 6)]


def test_few_far_apart_are_all_kept() -> None:
    assert moments(0, 30, 60, 90) == [0, 30, 60, 90]


def test_many_are_thinned_evenly_and_the_last_one_stays() -> None:
    assert moments(*range(0, 101, 5)) == [0, 25, 50, 75, 100]
    assert moments(*range(0, 99, 5)) == [0, 25, 50, 75, 95]


def test_there_are_never_more_than_that() -> None:
    samples = [sample(float(at)) for at in range(500)]
    assert max(len(downsample(samples[:count], 100, 6)) for count in range(500)) in (5, 6)


def test_samples_close_together_add_up_over_many_runs() -> None:
    kept: list[Sample] = []
    for run in range(200):
        kept = downsample([*kept, sample(run * 10.0)], 100, 6)
    assert kept[-1].at - kept[0].at >= 75
    assert len(kept) >= 4


def test_what_is_too_old_is_left_out() -> None:
    assert moments(0, 500, 550, 590) == [500, 550, 590]


def test_a_clock_that_was_put_back_does_not_hold_the_present_up() -> None:
    assert moments(5000, 5100, 10, 50) == [10, 50]


def test_none_is_none() -> None:
    assert downsample([], 100, 5) == []


def test_it_survives_json() -> None:
    observation = Observation(report(), [sample(), sample(2000.0)])
    assert Observation.from_json(json.loads(json.dumps(observation.to_json()))) == observation


def test_a_worker_gets_the_newest_sample_and_one_that_has_published_offsets() -> None:
    unseen = replace(sample(3000.0), published=None)
    of = {
        count: Observation.of(report(), [sample(), sample(2000.0), *[unseen] * count]) for count in range(3)
    }
    assert [[s.at for s in of[count].samples] for count in of] == [[2000], [2000, 3000], [2000, 3000]]
    assert [of[count].before.at for count in of] == [2000, 2000, 2000]
    alone = Observation.of(report(), [unseen])
    assert (alone.before, alone.samples) == (unseen, [unseen])


@pytest.mark.parametrize(
    ("component", "health", "is_left"),
    [
        ("consumer", Health.UNKNOWN, True),
        ("consumer", Health.STARTING, True),
        ("consumer", Health.FENCED, True),
        ("consumer", Health.LAGGING, False),
        ("consumer", Health.REJECTING, False),
        ("consumer", Health.HEALTHY, False),
        ("producer", Health.SOURCE_UNAVAILABLE, False),
        ("producer", Health.FENCED, False),
    ],
)
def test_a_component_that_works_again_is_left_no_more(component: str, health: Health, is_left: bool) -> None:
    """Else the next single end would be flapping, weeks later."""
    history = History(MemoryS3().as_client(), "s3://w/ledger", history_name("wiki_changes", component))
    for found in (Health.FLAPPING, health):
        restarts = history.restart_history(datetime.now(UTC), Supervision())
        record(history, Observation.of(report(found), [sample()]), restarts, component)
    left = history.restart_history(datetime.now(UTC), Supervision()).left_since
    assert (left is not None) is is_left
