"""The demo's verdict, and the arithmetic of its figures."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local.demo.follow import seconds
from local.demo.verdict import Figures, complaints

GREEN = Figures(
    state="success",
    source_rows=100,
    topic_records=98,
    lake_rows=98,
    quarantined=2,
    of_source_rows=98,
    of_source_quarantined=2,
    gaps=0,
    duplicates=0,
    objects=22,
    versions=22,
    delete_markers=0,
    s3_calls=139,
    seconds={"total": 1.0},
)


def test_green() -> None:
    assert complaints(GREEN) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"state": "failed"}, "'failed'"),
        ({"source_rows": 0, "of_source_rows": 0, "of_source_quarantined": 0}, "no rows"),
        ({"gaps": 3}, "3 offsets"),
        ({"duplicates": 1}, "1 records are in the lake more than once"),
        ({"of_source_rows": 97}, "100 rows in the source, but 97 in the lake and 2 in quarantine"),
        ({"of_source_quarantined": 3}, "100 rows in the source, but 98 in the lake and 3 in quarantine"),
        ({"delete_markers": 1}, "1 delete markers"),
    ],
)
def test_each_thing_that_must_not_be(change: dict[str, Any], said: str) -> None:
    [complaint] = complaints(dataclasses.replace(GREEN, **change))
    assert said in complaint


def test_rows_of_other_sources_do_not_count_against_the_demo() -> None:
    assert complaints(dataclasses.replace(GREEN, lake_rows=5000, topic_records=5000)) == []


def test_the_keys_of_demo_json() -> None:
    keys = "state source_rows topic_records lake_rows quarantined gaps duplicates objects versions"
    assert list(GREEN.to_json()) == [*keys.split(), "delete_markers", "s3_calls", "seconds"]


def test_seconds_of_a_task() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    start, end = (now - timedelta(seconds=9)).isoformat(), (now - timedelta(seconds=5)).isoformat()
    assert seconds({"start_date": None}, now) == 0
    assert seconds({"start_date": start}, now) == 9
    assert seconds({"start_date": start, "end_date": end}, now) == 4
