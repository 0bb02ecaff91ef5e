"""What is kept of the cleanings of Airflow's database, and when a person is to look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sluice.config.reading.toml import ConfigError
from sluice.maintenance.airflow_cleaning import RECORD, Cleaning
from tests.support.raising import raising

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}x", "[]", '{"more": 1}', '{"before": "soon"}', '{"before": ""}', '{"succeeded": 1}'),
        *('{"failed": null}', '{"failed": "1"}', '{"failed": true}', '{"failed": -1}'),
        '{"succeeded": "2026-11-28T03:43:00"}',
    ],
)
def test_a_record_that_a_person_changed_is_named(text: str) -> None:
    with raising(ConfigError, RECORD, repr(text), "delete it"):
        Cleaning.read(text)


def test_a_record_is_read_as_it_was_written() -> None:
    for record in (Cleaning(), Cleaning(ago(1), ago(31), 2)):
        assert Cleaning.read(record.dump()) == record


@pytest.mark.parametrize(
    ("succeeded", "started", "is_late"),
    [
        (ago(2.9), None, False),
        (ago(3.1), None, True),
        (ago(9), ago(2.9), False),
        (None, ago(3.1), True),
        # None tells since when.
        (None, None, False),
        # A clock that was ahead: as far as clocks differ, and for a year.
        (ago(-0.9), None, False),
        (ago(-365), None, True),
        (ago(-365), ago(2), False),
    ],
)
def test_a_cleaning_is_late_three_days_after_the_last_or_the_start(
    succeeded: str | None, started: str | None, is_late: bool
) -> None:
    problem = Cleaning(succeeded).problem(NOW, started)
    assert ("no cleaning of it succeeded within 3 days" in problem) is is_late
    assert is_late is bool(problem)
    assert (succeeded or "none before") in problem or not is_late
