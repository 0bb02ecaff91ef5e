"""What must be true at the end of the ISP stream's demo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local.demo.checks import DemoResult, Figure
from local.demo.hits import HITS, Counts, HitsDemo, result
from local.progress import ProgressDisplay
from local.stack.lake import OffsetComparison
from local.stack.stack import Stack
from sluice.queries.compare import QueryComparison, SinkComparison

COUNTS = Counts(
    "windows", results=20, lake=90, late=3, early=0, sinks={"jdbc a": 90, "kafka b": 90}, different=0
)
PASSED = OffsetComparison(0, 0, 0, HITS)


def made(**changes: Any) -> DemoResult:
    green = {
        "records": HITS,
        "lake_rows": HITS - 2,
        "quarantined": 2,
        "comparison": PASSED,
        "counts": [COUNTS],
    }
    return result(**{**green, "counts": [COUNTS], "page": "http://127.0.0.1/x", **changes})


def test_a_demo_that_is_as_it_must_be() -> None:
    assert made().failures == []
    assert Figure("topic records", HITS, "Kafka's begin and end offsets") in made().figures
    assert made().to_json()["counts"][0]["sinks"] == COUNTS.sinks


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"records": 5, "lake_rows": 3}, f"{HITS} hits were sent, and the topic has 5"),
        (
            {"lake_rows": 97},
            f"{HITS} records came onto the topic, but 97 are in the lake and 2 in quarantine",
        ),
        ({"comparison": replace(PASSED, gaps=1)}, "1 offsets of the topic are neither"),
        ({"comparison": replace(PASSED, duplicates=1)}, "1 records are in the lake more than once"),
        ({"counts": []}, "no query has results"),
        ({"counts": [replace(COUNTS, results=0)]}, "query windows has no results"),
        ({"counts": [replace(COUNTS, different=2)]}, "2 results of query windows differ from the lake"),
    ],
)
def test_what_is_wrong_is_said_with_its_numbers(changes: dict[str, Any], says: str) -> None:
    (failure,) = made(**changes).failures
    assert failure.startswith(says)


def test_the_sums_of_a_query_are_side_by_side() -> None:
    sinks = [SinkComparison("jdbc a", 20, 90, 90, 0), SinkComparison("kafka b", 20, 90, 89, 2)]
    found = Counts.of(QueryComparison("windows", 5, 7, 3, 0, "all results", sinks))
    assert found == replace(COUNTS, sinks={"jdbc a": 90, "kafka b": 89}, different=2)


def test_no_hit_is_dated_ahead_of_its_sending(stack: Callable[[str], Stack]) -> None:
    demo = HitsDemo()
    before = datetime.now(UTC).replace(microsecond=0)
    demo.prepare(stack("public"), ProgressDisplay())
    params = demo.params()
    begin = datetime.strptime(params["start_time"], "%Y-%m-%dT%H:%M:%S%z")
    assert before <= begin + timedelta(hours=params["duration_hours"]) <= datetime.now(UTC)
