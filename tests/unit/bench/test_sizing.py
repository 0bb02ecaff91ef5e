"""The sizing planner: enough for the goal, and no more than the next smaller size is too small for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.compare.sizing import BATCH_SECONDS, CORES_PER_EXECUTOR, HEADROOM, TASKS_PER_CORE, Goal, plan
from local.base import REPO

DAY = 86_400.0


def capacity(cores: int, rate: float, trigger: float) -> float:
    return cores * rate * (1 - HEADROOM) * trigger / (trigger + BATCH_SECONDS)


def test_the_table_of_the_documentation_is_the_planner_s() -> None:
    text = (REPO / "docs" / "performance.md").read_text()
    for goal in (Goal(112e6, 600), Goal(1e9, DAY), Goal(1e9, 3_600), Goal(1e4, 1, trigger_seconds=1)):
        found = plan(goal, 55_000)
        line = (
            f"| {found.rows_per_second:,} | {found.cores} | {found.executors} × {found.cores_per_executor} "
            f"| {found.megabytes_per_executor:,} MB | {found.partitions} | {found.rows_per_batch:,} "
            f"| {found.megabytes_per_second:g} |"
        )
        assert line in text


def test_112_million_rows_in_10_minutes() -> None:
    found = plan(Goal(112e6, 600), 60_000)
    assert found.rows_per_second == 186_667
    # 186,667 / (60,000 * 0.7 * 5 / 7) = 6.2
    assert (found.executors, found.cores_per_executor, found.cores) == (2, 4, 8)
    assert found.partitions == 16
    assert found.megabytes_per_second == 22.4


def test_a_billion_rows_a_day() -> None:
    found = plan(Goal(1e9, DAY), 60_000)
    assert found.rows_per_second == 11_575
    assert (found.executors, found.cores) == (1, 1)


@given(
    rows=st.floats(1, 1e12),
    seconds=st.floats(1, DAY),
    rate=st.floats(100, 1e6),
    trigger=st.floats(0.1, 600),
)
def test_a_size_reaches_its_goal_and_one_executor_less_does_not(
    rows: float, seconds: float, rate: float, trigger: float
) -> None:
    found = plan(Goal(rows, seconds, trigger_seconds=trigger), rate)
    goal = rows / seconds
    assert capacity(found.cores, rate, trigger) >= goal * (1 - 1e-5)
    less = (found.executors - 1) * found.cores_per_executor
    assert capacity(less, rate, trigger) < goal * (1 + 1e-5)
    assert found.cores == found.executors * found.cores_per_executor
    assert found.cores_per_executor <= CORES_PER_EXECUTOR
    assert found.partitions == TASKS_PER_CORE * found.cores


def test_a_batch_takes_what_arrives_while_one_runs_and_some_of_what_is_behind() -> None:
    found = plan(Goal(1e9, DAY, trigger_seconds=5), 60_000)
    assert found.rows_per_batch > found.rows_per_second * (5 + BATCH_SECONDS)


def test_wider_rows_need_more_memory_and_the_same_cores() -> None:
    narrow, wide = (plan(Goal(112e6, 600, row_bytes=size), 60_000) for size in (100, 2_000))
    assert wide.megabytes_per_executor > narrow.megabytes_per_executor
    assert wide.cores == narrow.cores


@pytest.mark.parametrize("goal", [Goal(0, 1), Goal(1, 0), Goal(1, 1, row_bytes=0), Goal(1, 1, 1, 0)])
def test_a_goal_of_nothing_is_refused(goal: Goal) -> None:
    with pytest.raises(ValueError, match="positive"):
        plan(goal, 1_000)
    with pytest.raises(ValueError, match="positive"):
        plan(Goal(1, 1), 0)
