from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from sluice.config.reading.toml import ConfigError
from sluice.config.sections.generator import (
    COMMON,
    Generated,
    Generator,
    check_not_in_future,
    next_range,
    parse,
    sequences,
    truncate_to_hour,
)
from sluice.core.offsets.ranges import OffsetRanges
from tests.support.kafka_records import row_identity
from tests.support.raising import raising

GENERATOR = Generator(
    "generator:rows",
    params={
        "rows": {"default": 10},
        "users": {"type": "integer", "default": 5, "minimum": 1, "maximum": 9},
        "late_percent": {"type": "number", "default": 2, "minimum": 0, "maximum": 100},
    },
)
DOCUMENT: dict[str, Any] = {"rows": 1_000, "seed": 7, "start_time": "2026-11-21T10:00:00Z"}
SOME = parse(GENERATOR, DOCUMENT, "x")


def changed(**values: Any) -> Generated:
    """SOME with other values."""
    return parse(GENERATOR, {**DOCUMENT, **values}, "x")


def test_a_plan_says_all_and_is_read_back() -> None:
    assert parse(GENERATOR, SOME.values, "x") == SOME
    assert SOME.values == {
        **DOCUMENT,
        "duration_hours": 1,
        "rows_per_second": 0,
        "users": 5,
        "late_percent": 2.0,
    }
    assert list(GENERATOR.schemas) == [*COMMON, "users", "late_percent"]
    assert GENERATOR.schemas["rows"] == {**COMMON["rows"], "default": 10}


def test_numbers_are_the_same_however_they_are_written() -> None:
    written = {**DOCUMENT, "rows": 1_000.0, "late_percent": 2}
    assert parse(GENERATOR, written, "x").source_id == SOME.source_id


def test_every_parameter_makes_another_source() -> None:
    others: dict[str, Any] = {
        "rows": 1_001, "seed": 8, "start_time": "2026-11-21T11:00:00Z", "duration_hours": 2,
        "rows_per_second": 10, "users": 6, "late_percent": 1.0,
    }  # fmt: skip
    assert set(others) == set(SOME.values)
    ids = [SOME.source_id, *(changed(**{name: value}).source_id for name, value in others.items())]
    ids.append(parse(replace(GENERATOR, version=2), DOCUMENT, "x").source_id)
    assert len(set(ids)) == 9
    assert row_identity(f"{SOME.source_id}:5:1".encode()) == (SOME.source_id, 5, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": 0}, "p: rows is 0: 0 is less than the minimum of 1"),
        ({"rows": 1.5}, "p: rows is 1.5: "),
        ({"rows": None}, "p: rows is None: "),
        ({"seed": None}, "p: seed is None. Fix: "),
        ({"users": 10}, "p: users is 10: 10 is greater than the maximum of 9"),
        ({"users": True}, "p: users is True: "),
        ({"late_percent": math.nan}, "p: late_percent is nan: "),
        ({"rows_per_second": -1}, "p: rows_per_second is -1: "),
        ({"start_time": None}, "p: start_time None is no time"),
        ({"start_time": "today"}, "p: start_time 'today' is no time. Fix: write 2026-11-21T10:00:00Z"),
        (
            {"start_time": "2026-11-21T10:00:00"},
            "p: start_time '2026-11-21T10:00:00' names no time zone. Fix: write",
        ),
        (
            {"rows_per_second": 1, "rows": 43_201},
            "43201 rows at 1 per second take 12:00:01; they must not take",
        ),
        ({"colour": "red"}, "p: unknown key 'colour'; known keys are duration_hours, "),
    ],
)
def test_a_wrong_value_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(GENERATOR, {**DOCUMENT, **change}, "p")
    assert words in str(caught.value)


def test_what_would_be_quarantined_as_of_the_future_is_refused() -> None:
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    check_not_in_future(changed(start_time="2026-11-21T11:00:00Z"), now, "p")
    with raising(ConfigError, "p: ", "2 hours", "2026-11-21T11:00:00Z"):
        check_not_in_future(changed(start_time="2026-11-21T11:00:00Z", duration_hours=2), now, "p")


def test_an_hour_begins_in_utc() -> None:
    moment = datetime.fromisoformat("2026-11-21T00:59:59.9+01:00")
    assert truncate_to_hour(moment) == "2026-11-20T23:00:00Z"
    assert changed(start_time=truncate_to_hour(moment)).begins == datetime(2026, 11, 20, 23, tzinfo=UTC)


def test_rows_are_sent_at_once_or_a_seconds_at_a_time() -> None:
    assert list(SOME.slices()) == [(0, 1_000)]
    assert list(changed(rows_per_second=400).slices()) == [(0, 400), (400, 800), (800, 1_000)]


@pytest.mark.parametrize(
    ("done", "due", "expected", "left"),
    [
        (0, 0.0, (0, 400), 3),
        (0, 399.9, (0, 400), 3),
        (0, 400.0, (0, 800), 2),
        # Behind a slice that the topic holds already, another piece begins.
        (0, 5_000.0, (0, 800), 2),
        (800, 1_199.9, (0, 400), 3),
        (800, 1_200.0, (0, 800), 2),
    ],
)
def test_what_is_due_is_sent_in_one_piece(
    done: int, due: float, expected: tuple[int, int], left: int
) -> None:
    pending = deque([(0, 400), (400, 800), (1_200, 1_600), (1_600, 1_700)])
    assert next_range(pending, done, due) == expected
    assert len(pending) == left


def test_who_takes_three_seconds_for_a_piece_keeps_the_rate_all_the_same() -> None:
    pending = deque(changed(rows=100_000, rows_per_second=1_000).slices())
    now, done, behind = 0.0, 0, []
    while pending:
        now = max(now, done / 1_000)
        behind.append(now * 1_000 - done)
        first, until = next_range(pending, done, now * 1_000)
        done += until - first
        now += 3.0
    assert (done, now) == (100_000, 102.0)
    assert max(behind) <= 3_000


@pytest.mark.parametrize(
    ("hits", "hours", "rows", "tasks"),
    [(10, 24, 10, 1), (3_000_000, 24, 3_000_000, 720), (100_000, 1, 100_000, 30), (100_000, 1, 1_000, 1)],
)
def test_what_is_sent_at_one_time_lies_within_minutes(hits: int, hours: int, rows: int, tasks: int) -> None:
    assert changed(rows=hits, duration_hours=hours).tasks(rows) == tasks


@pytest.mark.parametrize("partition_count", [1, 3, 4])
def test_each_row_has_one_place_in_one_target_partition(partition_count: int) -> None:
    for first in range(12):
        for until in range(first, 12):
            expected: dict[int, list[tuple[int, int]]] = {}
            for row in range(first, until):
                expected.setdefault(row % partition_count, []).append(
                    (row // partition_count, row // partition_count + 1)
                )
            assert sequences(first, until, partition_count) == OffsetRanges.of(expected)
