from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluice.model.config import ConfigError
from sluice.model.generated import (
    Generated,
    hour_of,
    next_range,
    parse,
    refuse_the_future,
    rhythm,
    seqs,
)
from sluice.model.ranges import RangeSet
from sluice.model.source import RowIdentity, parse_key
from tests.support.raising import raising

SOME = Generated(hits=1_000, seed=7, begin="2026-11-21T10:00:00Z")
DOCUMENT: dict[str, Any] = {"hits": 1_000, "seed": 7, "begin": "2026-11-21T10:00:00Z"}


def test_a_plan_says_all_and_is_read_back() -> None:
    assert parse(DOCUMENT, "x") == SOME
    assert parse(SOME.document(), "x") == SOME
    assert parse({**DOCUMENT, "late_percent": 3}, "x") == replace(SOME, late_percent=3.0)


def test_every_parameter_makes_another_source() -> None:
    others: dict[str, Any] = {
        "hits": 1_001, "seed": 8, "begin": "2026-11-21T11:00:00Z", "hours": 2, "zipcodes": 10, "isps": 10,
        "late_percent": 1.0, "late_minutes": 5, "duplicate_percent": 2.0, "malformed_percent": 1.0,
        "per_second": 10,
    }  # fmt: skip
    assert set(others) == set(SOME.document())
    ids = [SOME.source_id, *(replace(SOME, **{name: value}).source_id for name, value in others.items())]
    assert len(set(ids)) == 12
    assert SOME.source_id == Generated(**DOCUMENT).source_id
    assert parse_key(f"{SOME.source_id}:5:1".encode()) == RowIdentity(SOME.source_id, 5, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hits": 0}, "p: hits is 0; it must be from 1 to 1000000000"),
        ({"hits": 1.5}, "p hits: 1.5 is a float; give a int"),
        ({"hits": None}, "p hits: None is a NoneType"),
        ({"seed": -1}, "p: seed is -1"),
        ({"zipcodes": 50_001}, "p: zipcodes is 50001; it must be from 1 to 50000"),
        ({"isps": 0}, "p: isps is 0"),
        ({"late_percent": 101}, "p: late_percent is 101.0; it must be from 0 to 100"),
        ({"malformed_percent": math.nan}, "p: malformed_percent is nan"),
        ({"late_minutes": 0}, "p: late_minutes is 0"),
        ({"hours": 0}, "p: hours is 0"),
        ({"per_second": -1}, "p: per_second is -1"),
        ({"begin": "today"}, "p: begin 'today' is no time; write 2026-11-21T10:00:00Z"),
        ({"begin": "2026-11-21T10:00:00"}, "p: begin '2026-11-21T10:00:00' names no time zone; write"),
        ({"begin": "2001-01-01T00:00:00Z"}, "lies before 2001"),
        ({"per_second": 1, "hits": 43_201}, "43201 hits at 1 per second take 12:00:01; they must not take"),
        ({"colour": "red"}, "p: unknown key 'colour'; known keys are begin, "),
    ],
)
def test_a_wrong_value_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse({**DOCUMENT, **change}, "p")
    assert words in str(caught.value)


def test_what_would_be_quarantined_as_of_the_future_is_refused() -> None:
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    refuse_the_future(replace(SOME, begin="2026-11-21T11:00:00Z"), now, "p")
    with raising(ConfigError, "p: ", "2 hours", "2026-11-21T11:00:00Z"):
        refuse_the_future(replace(SOME, begin="2026-11-21T11:00:00Z", hours=2), now, "p")


def test_an_hour_begins_in_utc() -> None:
    moment = datetime.fromisoformat("2026-11-21T00:59:59.9+01:00")
    assert hour_of(moment) == "2026-11-20T23:00:00Z"
    assert replace(SOME, begin=hour_of(moment)).begins == datetime(2026, 11, 20, 23, tzinfo=UTC)


def test_rows_are_sent_at_once_or_a_seconds_at_a_time() -> None:
    assert list(SOME.slices()) == [(0, 1_000)]
    assert list(replace(SOME, per_second=400).slices()) == [(0, 400), (400, 800), (800, 1_000)]


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
    pending = deque(replace(SOME, hits=100_000, per_second=1_000).slices())
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
    assert replace(SOME, hits=hits, hours=hours).tasks(rows) == tasks


@pytest.mark.parametrize("lanes", [1, 3, 4])
def test_each_row_has_one_place_in_one_lane(lanes: int) -> None:
    for first in range(12):
        for until in range(first, 12):
            expected: dict[int, list[tuple[int, int]]] = {}
            for row in range(first, until):
                expected.setdefault(row % lanes, []).append((row // lanes, row // lanes + 1))
            assert seqs(first, until, lanes) == RangeSet.of(expected)


@pytest.mark.parametrize("begin", [f"2026-11-21T{hour:02}:30:00Z" for hour in (0, 7, 8, 19, 23)])
@pytest.mark.parametrize("hours", [1, 24, 100])
def test_the_rhythm_runs_from_the_beginning_to_the_end_and_never_back(begin: str, hours: int) -> None:
    parameters = replace(SOME, begin=begin, hours=hours)
    found = rhythm(parameters)
    midnight = parameters.begins.replace(hour=0, minute=0)

    def hour(share: float) -> float:
        even = found.first + share * (found.last - found.first)
        return even + found.stretch * math.sin(2 * math.pi * (even - 8) / 24)

    times = [midnight + timedelta(hours=hour(n / 500)) for n in range(501)]
    assert abs(times[0] - parameters.begins) < timedelta(milliseconds=1)
    assert abs(times[-1] - parameters.ends) < timedelta(milliseconds=1)
    assert times == sorted(times)
