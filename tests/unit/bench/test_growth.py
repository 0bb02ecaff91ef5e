"""The growth measurement's own arithmetic, and what it reads from a consumer's log."""

from __future__ import annotations

from typing import Any

import pytest

from bench.growing_stream import Calls, Event, events
from bench.growth import DAY_BATCHES, after_a_day, least, mean, over_goal, points, ratios


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        (5_000, [10, 100, 300, 1_000, 5_000]),
        (300, [10, 100, 300]),
        (301, [10, 100, 300, 301]),
        (60, [10, 60]),
        (1, [10]),
    ],
)
def test_a_stream_is_measured_at_the_points_below_its_batches_and_at_its_end(
    batches: int, expected: list[int]
) -> None:
    assert points(batches) == expected


def test_a_ratio_is_large_by_small_and_a_figure_that_is_0_or_missing_has_none() -> None:
    small = {"seconds": 0.5, "calls": 10.0, "read": 0.0, "small_only": 1.0}
    large = {"seconds": 0.65, "calls": 9.0, "read": 3.0, "large_only": 1.0}
    assert ratios(small, large) == {"seconds": 1.3, "calls": 0.9}


def test_what_grows_is_named_the_worst_first_and_the_goal_itself_is_reached() -> None:
    assert over_goal({"a": 1.3, "b": 1.2, "c": 2.0}) == ["c", "a"]


def test_points_are_averaged_and_of_repetitions_within_one_the_least_counts() -> None:
    repeated = [{"a": 1.0, "b": 6.0}, {"a": 2.0, "b": 5.0}]
    assert mean(repeated) == {"a": 1.5, "b": 5.5}
    assert least(repeated) == {"a": 1.0, "b": 5.0}
    assert least([]) == {}
    lacking = [{"a": 1.0, "b": 6.0}, {"a": 2.0}]
    assert (mean(lacking), least(lacking)) == ({"a": 1.5}, {"a": 1.0, "b": 6.0})


def test_a_tasks_calls_are_not_those_of_its_neighbours() -> None:
    nothing: Any = None
    calls = Calls(nothing)
    # A task from 10 to 12 makes 29 calls, the next from 13 to 15 makes 30.
    before, after = (12.0, 13.0), (15.0, 16.0)
    calls.samples = [
        (9.0, 9.1, 100),
        (11.0, 11.1, 110),
        (12.3, 12.4, 129),
        (14.0, 14.1, 150),
        (15.2, 15.4, 159),
    ]
    assert calls.between(before, after) == 30
    late, slow = (12.9, 13.2, 133), (11.9, 12.6, 127)
    for useless in (late, slow):
        calls.samples[2] = useless
        assert calls.between(before, after) is None
    assert calls.between(before, (16.0, 17.0)) is None


def test_a_consumer_s_log_tells_its_starts_and_its_batches() -> None:
    text = """\
2026-11-23 06:24:05,123 INFO spark_jobs.common.spark.session: Spark started seconds=9.1
2026-11-23 06:24:07,000 INFO spark_jobs.common.lake.writer_lease: lease acquired writer=x epoch=2 branch=w2_a
2026-11-23T06:24:08.000Z WARN Something: of the JVM
2026-11-23 06:24:09,500 INFO spark_jobs.common.consumer.writer: batch published batch=0 records=100 files=2 \
verification='100 of 100 offsets' seconds=1.4
"""
    start, lease, batch = events(text)
    assert [start.what, lease.what, batch.what] == ["Spark started", "lease acquired", "batch published"]
    assert batch == Event(start.at + 4.377, "batch published", 100, 1.4)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ({10: 1_000}, 1_000),
        ({10: 1_000, 280: 1_270}, 1_270 + DAY_BATCHES - 280),
        ({10: 1_000, 100: 900}, 900),
        ({10: 1_000, DAY_BATCHES + 5: 1_500}, 1_500),
    ],
)
def test_the_metadata_of_a_day_are_on_the_line_through_the_ends_of_the_curve(
    lengths: dict[int, int], expected: int
) -> None:
    curve = [{"batches": batches, "metadata_bytes": size} for batches, size in lengths.items()]
    assert after_a_day(curve)["metadata_bytes"] == expected
