"""When an ISP's hits come: from the beginning to the end of the source, and never back."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from sluice.config import streams
from sluice.config.sections import generator
from spark_jobs.isp_hits.generator import daily_curve

GENERATOR = streams.load("isp_hits").generator


@pytest.mark.parametrize("begin", [f"2026-11-21T{hour:02}:30:00Z" for hour in (0, 7, 8, 19, 23)])
@pytest.mark.parametrize("hours", [1, 24, 100])
def test_the_daily_curve_runs_from_the_beginning_to_the_end_and_never_back(begin: str, hours: int) -> None:
    assert GENERATOR is not None
    parameters = generator.parse(GENERATOR, {"seed": 7, "start_time": begin, "duration_hours": hours}, "x")
    curve = daily_curve(parameters)
    midnight = parameters.begins.replace(hour=0, minute=0)

    def hour(share: float) -> float:
        uniform = curve.first + share * (curve.last - curve.first)
        return uniform + curve.stretch * math.sin(2 * math.pi * (uniform - 8) / 24)

    times = [midnight + timedelta(hours=hour(n / 500)) for n in range(501)]
    assert abs(times[0] - parameters.begins) < timedelta(milliseconds=1)
    assert abs(times[-1] - parameters.ends) < timedelta(milliseconds=1)
    assert times == sorted(times)
