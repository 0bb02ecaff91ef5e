"""What a report's snapshots say of it, written and read back."""

from __future__ import annotations

from sluice.model.stream import Report
from spark_jobs.common import report_state
from spark_jobs.common.report_state import State

RULE = report_state.rule(Report("reports.x", "X"))
COUNTED = State(RULE, 77, 1_000, 500, 9_000_000, 3, {1: 5, 0: 7})


def summary(kind: str, state: State) -> dict[str, str]:
    return report_state.summary(kind, "wiki", 4, state, 10)


def test_what_is_written_is_read_back() -> None:
    said = summary("report", COUNTED)
    assert said == {
        "sluice.kind": "report",
        "sluice.stream": "wiki",
        "sluice.token": "4",
        "sluice.rule": "windows of 10 min, watermark 10 min",
        "sluice.source": "77",
        "sluice.source_at": "1000",
        "sluice.records": "500",
        "sluice.newest": "9000000",
        "sluice.watermark": "8400000",
        "sluice.late": "3",
        "sluice.ends": '{"0": 7, "1": 5}',
    }
    assert report_state.read([said], RULE) == COUNTED


def test_before_anything_is_counted_moments_are_empty() -> None:
    said = summary("genesis", State(RULE))
    assert (said["sluice.source"], said["sluice.newest"], said["sluice.watermark"]) == ("", "", "")
    assert report_state.read([said], RULE) == State(RULE)
    assert report_state.read([], RULE) == State(RULE)


def test_a_stream_without_events_has_no_newest() -> None:
    state = State(RULE, 77, 1_000, 0, None, 0, {0: 7})
    assert report_state.read([summary("report", state)], RULE) == state


def test_maintenance_says_nothing_and_the_newest_counts() -> None:
    older = summary("report", State(RULE, 1, 1, 1, 1, 1, {0: 1}))
    assert report_state.read([{"operation": "replace"}, summary("takeover", COUNTED), older], RULE) == COUNTED


def test_what_was_counted_by_another_rule_is_not_counted() -> None:
    other = report_state.rule(Report("reports.x", "X", window_minutes=5))
    assert other != RULE
    assert report_state.read([summary("report", COUNTED)], other) == State(other)
