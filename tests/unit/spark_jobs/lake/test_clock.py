"""A commit that Iceberg refuses because the clock was set back: said with both times, and tried again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from sluice.core.error_codes import PERMANENT, ErrorCode
from sluice.core.processes import exits
from sluice.core.tables.file_removal import MAX_WRITE_AGE
from spark_jobs.common.lake import clock
from spark_jobs.common.lake.clock import ClockSetBack, committing, outdated_by
from spark_jobs.common.lake.iceberg import IcebergTable
from spark_jobs.common.spark import process
from tests.support.raising import raising

NEWEST = datetime(2999, 11, 21, 10, 5, tzinfo=UTC)
MS = int(NEWEST.timestamp() * 1000)
# As Iceberg 1.10.2 answers a stage, a publish, and a commit after one to a branch only.
STAGED = f"Invalid update timestamp 1795398627292: before last snapshot log entry at {MS}"
PUBLISHED = "[BUG] Expected sorted snapshot log entries."
AFTER_BRANCH = f"Invalid update timestamp 1795398627292: before the latest metadata log entry timestamp {MS}"


def spark(updated: int = MS, logged: list[int] | None = None) -> Any:
    """A session with a table that was changed at ``updated``, and its ``main`` at each of ``logged``."""
    log = [SimpleNamespace(timestampMillis=lambda at=at: at) for at in logged or []]
    metadata = SimpleNamespace(lastUpdatedMillis=lambda: updated, snapshotLog=lambda: log)
    table = SimpleNamespace(operations=lambda: SimpleNamespace(refresh=lambda: metadata))
    util = SimpleNamespace(loadIcebergTable=lambda session, name: table)
    iceberg = SimpleNamespace(spark=SimpleNamespace(Spark3Util=util))
    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(iceberg=iceberg)))
    return SimpleNamespace(_jvm=jvm, _jsparkSession=None)


def refuse(text: str) -> None:
    # Py4J hands on Java's IllegalArgumentException as one of PySpark's.
    raise PySparkException(text)


@pytest.mark.parametrize("text", [STAGED, PUBLISHED, AFTER_BRANCH])
def test_both_times_and_what_to_do_are_said(text: str) -> None:
    today = datetime.now(UTC).date().isoformat()
    wait = (NEWEST - timedelta(minutes=1)).isoformat()
    with (
        raising(ClockSetBack, "raw.trips", today, NEWEST.isoformat(), "Fix", "clock", wait) as caught,
        committing(spark(), "raw.trips"),
    ):
        refuse(text)
    assert text in str(caught.value.__cause__)
    assert caught.value.code is ErrorCode.CLOCK_SET_BACK


def test_the_newest_time_may_be_that_of_main() -> None:
    """A commit to a branch may be up to a minute before it."""
    with (
        raising(ClockSetBack, NEWEST.isoformat()),
        committing(spark(MS - 30_000, [MS - 90_000, MS]), "raw.trips"),
    ):
        refuse(PUBLISHED)


def test_other_errors_are_passed_on() -> None:
    with raising(PySparkException, "Cannot find column") as caught, committing(spark(), "raw.trips"):
        refuse("Cannot find column")
    assert not isinstance(caught.value, ClockSetBack)


def test_every_commit_of_a_table_says_so() -> None:
    table = object.__new__(IcebergTable)
    table.__dict__ |= {"name": "raw.trips", "_spark": spark(), "_table": None}
    with raising(ClockSetBack, "raw.trips", NEWEST.isoformat()):
        table._commit(None, None, lambda: refuse(PUBLISHED), {})


def test_the_next_attempt_may_succeed(
    monkeypatch: pytest.MonkeyPatch, levels: Callable[..., list[str]]
) -> None:
    """The clock may pass the table's time by itself, so runtime and Airflow try again."""

    def work(stop: object) -> None:
        with committing(spark(), "raw.trips"):
            refuse(STAGED)

    monkeypatch.setattr(process, "_check_parent", lambda: None)
    assert process.run_process("the consumer of trips", work) not in exits.FINAL
    assert levels("SLU-510 ClockSetBack: raw.trips", NEWEST.isoformat()) == ["ERROR"]
    assert ErrorCode.CLOCK_SET_BACK not in PERMANENT


def test_a_write_is_outdated_once_its_files_may_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: MS)
    limit = MAX_WRITE_AGE // timedelta(milliseconds=1)
    assert outdated_by(MS - limit) is None
    assert outdated_by(MS - limit - 1) == MAX_WRITE_AGE + timedelta(milliseconds=1)
