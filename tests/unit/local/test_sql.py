"""Only tables that a query names are read, and none is read empty a second time."""

from __future__ import annotations

import pytest

from local.sql import named, reads_again, tables


def test_tables_of_every_stream() -> None:
    assert tables()["nyc_taxi"] == "raw.nyc_taxi"
    assert tables()["nyc_taxi_quarantine"] == "raw.nyc_taxi_quarantine"
    assert tables()["wiki_changes_editors"] == "results.wiki_changes_editors"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select count(*) from nyc_taxi", {"nyc_taxi"}),
        ("SELECT 1 FROM NYC_TAXI", {"nyc_taxi"}),
        ('select * from "nyc_taxi" join nyc_taxi_quarantine using (x)', {"nyc_taxi", "nyc_taxi_quarantine"}),
        ("describe nyc_taxi_quarantine", {"nyc_taxi_quarantine"}),
        ("select 1", set()),
    ],
)
def test_named(query: str, expected: set[str]) -> None:
    assert named(query, tables()) == expected


@pytest.mark.parametrize(
    ("query", "again"),
    [
        ("select count(*) from nyc_taxi", False),
        ("select 1 from nyc_taxi, nyc_taxi_quarantine", False),
        ("select 1 from nyc_taxi a join nyc_taxi b using (_source_row)", True),
        ("with a as (from nyc_taxi) select (select count(*) from a), (select count(*) from a)", True),
    ],
)
def test_a_stream_is_read_once_only(query: str, again: bool) -> None:
    assert reads_again(query, "nyc_taxi") is again
