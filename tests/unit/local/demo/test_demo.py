"""What all demos have in common: figures, checks, and the run that is watched."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from local.demo.checks import Check, DemoResult, Figure, bucket
from sluice.cli.runs import seconds


def test_a_result_names_what_does_not_hold_and_its_figures() -> None:
    result = DemoResult(
        [Figure("lake rows", 98, "the table"), Figure("S3 calls", None, "MinIO")],
        [Check(True, "never said"), Check(False, "2 rows are missing")],
        {"page": "http://127.0.0.1/x"},
    )
    assert result.failures == ["2 rows are missing"]
    assert result.to_json() == {"lake_rows": 98, "s3_calls": None, "page": "http://127.0.0.1/x"}


def test_what_maintenance_deleted_fails_no_demo() -> None:
    found = bucket(22, 22, 1, None)
    assert found.failures == []
    assert list(found.to_json()) == ["objects", "versions", "delete_markers", "s3_calls"]


def test_seconds_of_a_task() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    start, end = (now - timedelta(seconds=9)).isoformat(), (now - timedelta(seconds=5)).isoformat()
    assert seconds({"start_date": None}, now) == 0
    assert seconds({"start_date": start}, now) == 9
    assert seconds({"start_date": start, "end_date": end}, now) == 4
