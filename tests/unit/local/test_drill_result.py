"""A drill's row: what it counts, and everything for which it is not passed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from local.drills.result import Findings, Moments, Story, complaints, row, seconds, store, table
from local.drills.site import Step, moved_on
from local.drills.trickle import lost_and_doubled
from local.evidence import Exactness

EXACT = Exactness(gaps=0, duplicates=0, strays=0, records=500)
GREEN = Story(
    drill="consumer_killed",
    at="2026-01-01T00:00:00+00:00",
    interval_seconds=120,
    at_once=False,
    moments=Moments(
        broken=1000.0,
        noticed=1090.04,
        noticed_by="verdict dead",
        decided=1091.0,
        recovered=1120.0,
        calm=1210.0,
    ),
    findings=Findings(exact=EXACT, payloads=(0, 0), unsent=0, sent=300, load="success"),
    verdicts=["dead", "healthy"],
    restarts=1,
)


def test_the_row_of_a_drill_that_passed() -> None:
    assert row(GREEN).to_json() == {
        "drill": "consumer_killed",
        "passed": True,
        "why_not": "",
        "seconds_to_notice": 90.0,
        "noticed_by": "verdict dead",
        "seconds_to_recover": 120.0,
        "seconds_to_recover_from_decision": 29.0,
        "lost": 0,
        "duplicated": 0,
        "verdicts": ["dead", "healthy"],
        "restarts": 1,
        "sent": 300,
        "at": "2026-01-01T00:00:00+00:00",
        "interval_seconds": 120,
        "at_once": False,
    }


def changed(
    moments: dict[str, Any] | None = None, findings: dict[str, Any] | None = None, **own: Any
) -> Story:
    return dataclasses.replace(
        GREEN,
        moments=dataclasses.replace(GREEN.moments, **(moments or {})),
        findings=dataclasses.replace(GREEN.findings, **(findings or {})),
        **own,
    )


@pytest.mark.parametrize(
    ("story", "said"),
    [
        (changed(moments={"noticed": None}), "nobody noticed"),
        (changed(moments={"recovered": None}), "nothing was published afterwards"),
        (changed(moments={"calm": None}), "not calm again: dead, healthy"),
        (
            changed(findings={"payloads": (1, 0)}),
            "of 300 records that Kafka took 1 are lost, 0 are there again",
        ),
        (changed(findings={"payloads": (0, 1)}), "0 are lost, 1 are there again"),
        (changed(findings={"exact": Exactness(1, 0, 0, 9)}), "of 9 offsets 1 are missing"),
        (changed(findings={"exact": Exactness(0, 1, 0, 9)}), "1 are there more than once"),
        (changed(findings={"exact": Exactness(0, 0, 1, 9)}), "1 are there and not on the topic"),
        (changed(findings={"unsent": 2}), "2 records were never taken by Kafka"),
        (changed(findings={"sent": 0}), "nothing was shown"),
        (changed(findings={"load": "failed"}), "the load afterwards was failed"),
        (changed(findings={"load": ""}), "the load afterwards was not made"),
        (changed(failure="the zombie still runs"), "the zombie still runs"),
    ],
)
def test_each_thing_for_which_it_is_not_passed(story: Story, said: str) -> None:
    [complaint] = complaints(story)
    assert said in complaint
    made = row(story)
    assert not made.passed
    assert made.why_not == complaint


def test_a_drill_that_broke_nothing_is_not_passed() -> None:
    cannot = Story("disk_full", "", 120, False, failure="no file system of its own")
    assert complaints(cannot) == ["no file system of its own"]
    assert complaints(dataclasses.replace(cannot, failure="")) == ["nothing was broken"]
    made = row(cannot)
    assert (made.passed, made.lost, made.duplicated, made.seconds_to_notice) == (False, None, None, None)


def test_a_drill_without_a_proof_is_not_passed() -> None:
    story = changed(findings={"exact": None, "payloads": None})
    assert complaints(story) == ["it was not come to the proof"]
    assert (row(story).lost, row(story).duplicated) == (None, None)


def test_a_lost_record_is_counted_once_though_it_is_a_gap_too() -> None:
    made = row(changed(findings={"exact": Exactness(2, 3, 0, 9), "payloads": (2, 1)}))
    assert (made.lost, made.duplicated) == (2, 3)


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [(10.0, 12.34, 2.3), (10.0, None, None), (None, 12.0, None), (10.0, 9.9, 0.0)],
)
def test_seconds(begin: float | None, end: float | None, expected: float | None) -> None:
    assert seconds(begin, end) == expected


def test_recovered_is_the_first_batch_after_it_that_brought_something() -> None:
    steps = [
        Step(at=5.0, kind="batch", token=1, total=120),  # before it was noticed
        Step(at=11.0, kind="takeover", token=2, total=120),
        Step(at=12.0, kind="batch", token=2, total=100),  # nothing new
        Step(at=13.0, kind="batch", token=2, total=130),
        Step(at=14.0, kind="batch", token=2, total=140),
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
    first = [dataclasses.replace(row(GREEN), drill=name) for name in ("c", "a", "gone")]
    store(first, order, path)
    store([dataclasses.replace(first[0], passed=False)], order, path)
    assert [(found["drill"], found["passed"]) for found in json.loads(path.read_text())] == [
        ("a", True),
        ("c", False),
    ]


def test_the_table_says_what_did_not_happen() -> None:
    shown = table([row(GREEN), row(Story("disk_full", "", 120, False, failure="why"))])
    assert [list(column.cells) for column in shown.columns][1] == ["yes", "NO"]
    assert [list(column.cells) for column in shown.columns][2] == ["90 s", "—"]
