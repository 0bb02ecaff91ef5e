"""A drill's row: what it counts, and everything for which it is not passed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from local.drills.result import DrillRecord, seconds, store, table
from local.drills.stream import moved_on
from local.drills.traffic import lost_and_doubled
from local.stack.lake import Exactness
from sluice.clients.lake.catalog import Commit

PASSED = Exactness(gaps=0, duplicates=0, unexpected=0, records=500)
GREEN = DrillRecord(
    drill="consumer_killed",
    at="2026-01-01T00:00:00+00:00",
    interval_seconds=120,
    trigger_immediately=False,
    injected_at=1000.0,
    detected_at=1090.04,
    detected_by="verdict dead",
    decided_at=1091.0,
    recovered_at=1120.0,
    healthy_at=1210.0,
    offsets=PASSED,
    records=(0, 0),
    sent=300,
    load="success",
    verdicts=["down", "healthy"],
    restarts=1,
)


def test_the_row_of_a_drill_that_passed() -> None:
    assert GREEN.to_json() == {
        "drill": "consumer_killed",
        "passed": True,
        "failure": "",
        "seconds_to_detect": 90.0,
        "detected_by": "verdict dead",
        "seconds_to_recover": 120.0,
        "seconds_to_recover_from_decision": 29.0,
        "lost": 0,
        "duplicated": 0,
        "verdicts": ["down", "healthy"],
        "restarts": 1,
        "sent": 300,
        "at": "2026-01-01T00:00:00+00:00",
        "interval_seconds": 120,
        "trigger_immediately": False,
    }


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"detected_at": None}, "nobody noticed"),
        ({"recovered_at": None}, "nothing was published afterwards"),
        ({"healthy_at": None}, "not calm again: down, healthy"),
        ({"records": (1, 0)}, "of 300 records that Kafka took 1 are lost, 0 are there again"),
        ({"records": (0, 1)}, "0 are lost, 1 are there again"),
        ({"offsets": Exactness(1, 0, 0, 9)}, "of 9 offsets 1 are missing"),
        ({"offsets": Exactness(0, 1, 0, 9)}, "1 are there more than once"),
        ({"offsets": Exactness(0, 0, 1, 9)}, "1 are there and not on the topic"),
        ({"unsent": 2}, "2 records were never taken by Kafka"),
        ({"sent": 0}, "nothing was shown"),
        ({"load": "failed"}, "the load afterwards was failed"),
        ({"load": ""}, "the load afterwards was not made"),
        ({"failure": "the zombie still runs"}, "the zombie still runs"),
        ({"offsets": None, "records": None}, "it was not come to the proof"),
    ],
)
def test_each_reason_not_to_pass(changed: dict[str, Any], reason: str) -> None:
    record = dataclasses.replace(GREEN, **changed)
    assert not record.passed
    assert reason in record.failures
    assert ";" not in record.failures, "no other one"
    row = record.to_json()
    assert (row["passed"], row["failure"]) == (False, record.failures)
    assert (row["lost"] is None) == (record.offsets is None)


def test_a_drill_that_broke_nothing_is_not_passed() -> None:
    cannot = DrillRecord("disk_full", "", 120, False, failure="no file system of its own")
    assert cannot.failures == "no file system of its own"
    assert dataclasses.replace(cannot, failure="").failures == "nothing was broken"
    row = cannot.to_json()
    assert (row["passed"], row["lost"], row["duplicated"], row["seconds_to_detect"]) == (
        False,
        None,
        None,
        None,
    )


def test_a_lost_record_is_counted_once_though_it_is_a_gap_too() -> None:
    row = dataclasses.replace(GREEN, offsets=Exactness(2, 3, 0, 9), records=(2, 1)).to_json()
    assert (row["lost"], row["duplicated"]) == (2, 3)


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [(10.0, 12.34, 2.3), (10.0, None, None), (None, 12.0, None), (10.0, 9.9, 0.0)],
)
def test_seconds(begin: float | None, end: float | None, expected: float | None) -> None:
    assert seconds(begin, end) == expected


def test_recovered_is_the_first_batch_after_it_that_brought_something() -> None:
    steps = [
        Commit(1, 5.0, "batch", 1, {0: 120}),  # before it was noticed
        Commit(1, 11.0, "epoch-start", 2, {0: 120}),
        Commit(1, 12.0, "batch", 2, {0: 100}),  # nothing new
        Commit(1, 13.0, "batch", 2, {0: 130}),
        Commit(1, 14.0, "batch", 2, {0: 140}),
    ]
    assert moved_on(steps, after=10.0, total=100) == 13.0
    assert moved_on(steps, after=10.0, total=140) is None
    assert moved_on(steps, after=14.0, total=100) is None


def test_lost_and_doubled() -> None:
    from collections import Counter

    # 7 was sent, and Kafka never said that it has it: it may be there, once.
    assert lost_and_doubled([1, 2, 3], Counter([1, 2, 2, 2, 7])) == (1, 2)
    assert lost_and_doubled([1, 2], Counter([1, 2, 7, 7])) == (0, 1)
    assert lost_and_doubled([], Counter()) == (0, 0)


def test_rows_take_the_place_of_earlier_ones(tmp_path: Path) -> None:
    path, order = tmp_path / "drills.json", ["a", "b", "c"]
    first = [dataclasses.replace(GREEN, drill=name) for name in ("c", "a", "gone")]
    store(first, order, path)
    store([dataclasses.replace(first[0], sent=0)], order, path)
    assert [(found["drill"], found["passed"]) for found in json.loads(path.read_text())] == [
        ("a", True),
        ("c", False),
    ]


def test_the_table_says_what_did_not_happen() -> None:
    shown = table([GREEN, DrillRecord("disk_full", "", 120, False, failure="reason")])
    assert [list(column.cells) for column in shown.columns][1] == ["yes", "NO"]
    assert [list(column.cells) for column in shown.columns][2] == ["90 s", "—"]
