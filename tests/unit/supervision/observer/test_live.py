"""Lag in records and in time, from the offsets over the last hours."""

from __future__ import annotations

from dataclasses import replace

from sluice.supervision.observer.live import Live, Point, Points, seconds_behind
from sluice.supervision.rules.sample import KAFKA, Sample


def point(at: float, end: int, first: int) -> Point:
    return Point(at, {0: end}, {0: first})


def test_of_a_sample_without_offsets_there_is_no_point() -> None:
    known = Sample(10.0, None, begins={0: 5, 1: 0}, ends={0: 9, 1: 4})
    made = Point.of(known)
    # If a partition was never read, all of it waits.
    assert made == Point(10.0, {0: 9, 1: 4}, {0: 5, 1: 0})
    assert made is not None
    assert made.lag == 8
    assert Point.of(replace(known, ends=None)) is None
    assert Point.of(replace(known, errors={KAFKA: "no answer"})) is None


def test_points_are_apart_and_the_newest_is_always_there() -> None:
    points = Points(seconds=100, apart=30)
    for at in range(0, 151, 10):
        points.add(point(float(at), at, at))
    assert [one.at for one in points.all()] == [60, 90, 120, 150]
    points.add(point(155.0, 1, 1))
    assert points.all()[-1].at == 155
    # The clock was set back: what was observed before is no past any more.
    points.add(point(20.0, 1, 1))
    assert [one.at for one in points.all()] == [20]


def test_the_oldest_unread_record_came_after_the_last_point_without_it() -> None:
    points = [point(0, 100, 100), point(30, 200, 150), point(60, 300, 200), point(90, 400, 250)]
    # Offset 250 came between the second and the third point.
    assert seconds_behind(points) == (60, True)
    assert seconds_behind(points[:1]) == (0, True)
    assert seconds_behind([]) is None


def test_older_than_all_points_is_said_to_be_so() -> None:
    assert seconds_behind([point(0, 100, 50), point(60, 120, 50)]) == (60, False)
    assert seconds_behind([point(60, 120, 50)]) == (0, False)


def test_the_partition_that_is_furthest_behind_counts() -> None:
    points = [
        Point(0, {0: 10, 1: 10}, {0: 10, 1: 10}),
        Point(60, {0: 20, 1: 20}, {0: 20, 1: 10}),
        Point(120, {0: 30, 1: 30}, {0: 25, 1: 10}),
    ]
    assert seconds_behind(points) == (120, True)


def test_a_lag_of_an_older_observation_is_unknown_now() -> None:
    points = [point(60, 120, 50)]
    assert Live(at=60, points=points).lag == 70
    assert Live(at=70, points=points).lag is None
    assert Live().lag is None
