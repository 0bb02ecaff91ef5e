"""A drill's row: what it counts, and everything for which it is not passed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from local.stack.lake import OffsetComparison
from sluice.clients.lake.commits import Commit
from tests.drills.result import DrillRecord, seconds, store, table
from tests.drills.runner import moved_on
from tests.support.traffic import lost_and_duplicated

PASSED = OffsetComparison(gaps=0, duplicates=0, unexpected=0, records=500)
GREEN = DrillRecord(
    drill="consumer_killed",
    at="2026-01-01T00:00:00+00:00",
    interval_seconds=120,
    trigger_immediately=False,
    injected_at=1000.0,
    detected_at=1090.04,
    detected_by="health down",
    decided_at=1091.0,
    recovered_at=1120.0,
    healthy_at=1210.0,
    offsets=PASSED,
    records=(0, 0),
    sent=300,
    load="success",
    health_statuses=["down", "healthy"],
    restarts=1,
)


def test_the_row_of_a_drill_that_passed() -> None:
    assert GREEN.to_json() == {
        "drill": "consumer_killed",
        "passed": True,
        "failure": "",
        "seconds_to_detect": 90.0,
        "detected_by": "health down",
        "seconds_to_recover": 120.0,
        "seconds_to_recover_from_decision": 29.0,
        "lost": 0,
        "duplicated": 0,
        "health_statuses": ["down", "healthy"],
        "restarts": 1,
        "sent": 300,
        "at": "2026-01-01T00:00:00+00:00",
        "interval_seconds": 120,
        "trigger_immediately": False,
    }


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"detected_at": None}, "not detected"),
        ({"recovered_at": None}, "no batch was published afterwards"),
        ({"healthy_at": None}, "not healthy again: down, healthy"),
        ({"records": (1, 0)}, "of 300 records that Kafka took 1 are lost, 0 duplicated"),
        ({"records": (0, 1)}, "0 are lost, 1 duplicated"),
        ({"offsets": OffsetComparison(1, 0, 0, 9)}, "of 9 offsets 1 are missing"),
        ({"offsets": OffsetComparison(0, 1, 0, 9)}, "1 are duplicated"),
        ({"offsets": OffsetComparison(0, 0, 1, 9)}, "1 are not on the topic"),
        ({"unsent": 2}, "Kafka never took 2 records"),
        ({"sent": 0}, "no record was sent during the drill"),
        ({"load": "failed"}, "the load afterwards was failed"),
        ({"load": ""}, "the load afterwards was not started"),
        ({"failure": "the zombie still runs"}, "the zombie still runs"),
        ({"offsets": None, "records": None}, "the verification was not reached"),
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
    assert dataclasses.replace(cannot, failure="").failures == "no fault was injected"
    row = cannot.to_json()
    assert (row["passed"], row["lost"], row["duplicated"], row["seconds_to_detect"]) == (
        False,
        None,
        None,
        None,
    )


def test_a_lost_record_is_counted_once_though_it_is_a_gap_too() -> None:
    row = dataclasses.replace(GREEN, offsets=OffsetComparison(2, 3, 0, 9), records=(2, 1)).to_json()
    assert (row["lost"], row["duplicated"]) == (2, 3)


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [(10.0, 12.34, 2.3), (10.0, None, None), (None, 12.0, None), (10.0, 9.9, 0.0)],
)
def test_seconds(begin: float | None, end: float | None, expected: float | None) -> None:
    assert seconds(begin, end) == expected


def test_recovered_is_the_first_batch_after_it_that_brought_something() -> None:
    steps = [
        Commit(1, 5.0, "batch", 1, {0: 120}),  # before its detection
        Commit(1, 11.0, "epoch-start", 2, {0: 120}),
        Commit(1, 12.0, "batch", 2, {0: 100}),  # nothing new
        Commit(1, 13.0, "batch", 2, {0: 130}),
        Commit(1, 14.0, "batch", 2, {0: 140}),
    ]
    assert moved_on(steps, after=10.0, total=100) == 13.0
    assert moved_on(steps, after=10.0, total=140) is None
    assert moved_on(steps, after=14.0, total=100) is None


def test_lost_and_duplicated() -> None:
    from collections import Counter

    # 7 was sent, and Kafka never said that it has it: it may be there, once.
    assert lost_and_duplicated([1, 2, 3], Counter([1, 2, 2, 2, 7])) == (1, 2)
    assert lost_and_duplicated([1, 2], Counter([1, 2, 7, 7])) == (0, 1)
    assert lost_and_duplicated([], Counter()) == (0, 0)


def test_rows_take_the_place_of_earlier_ones(tmp_path: Path) -> None:
    path, order = tmp_path / "drills.json", ["a", "b", "c"]
    for name in ("c", "a", "gone"):
        store(dataclasses.replace(GREEN, drill=name), order, path)
    store(dataclasses.replace(GREEN, drill="c", sent=0), order, path)
    assert [(found["drill"], found["passed"]) for found in json.loads(path.read_text())] == [
        ("a", True),
        ("c", False),
    ]


def test_the_table_says_what_did_not_happen() -> None:
    shown = table([GREEN, DrillRecord("disk_full", "", 120, False, failure="reason")])
    assert [list(column.cells) for column in shown.columns][1] == ["yes", "NO"]
    assert [list(column.cells) for column in shown.columns][2] == ["90 s", "—"]
