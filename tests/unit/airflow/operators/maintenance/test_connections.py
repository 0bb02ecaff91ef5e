"""Task `check_connections`: a table in its log, and one line for its state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow import callbacks, connections
from sluice.airflow.failures import FindingsFailed
from sluice.airflow.operators.maintenance import connections as steps
from sluice.airflow.operators.maintenance.connections import CheckConnectionsOperator
from sluice.config.notifications import FILE
from sluice.config.platform import DIRECTORY_VARIABLE, ROLES
from sluice.connection_check import check as checking
from sluice.connection_check import needs as needing
from sluice.connection_check.needs import Needs
from sluice.connection_check.rows import Row
from sluice.connection_check.run import End, look
from sluice.core.error_codes import ErrorCode
from sluice.maintenance.airflow_cleaning import RECORD, STARTED, Cleaning
from tests.support.raising import raising


class Variables:
    """Airflow's, of which two are asked for; ``text``, ``started``: None if there is none."""

    def __init__(self, text: str | None, started: str | None = None) -> None:
        given = {RECORD: text, STARTED: started, f"{RECORD}_of_another": "?"}
        self.texts = {name: value for name, value in given.items() if value is not None}

    def keys(self, prefix: str) -> list[str]:
        assert all(name.startswith(prefix) for name in self.texts)
        return list(self.texts)

    def get(self, name: str) -> str:
        return self.texts[name]


def ago(days: float) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).isoformat()


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[End]:
    """Those of the only role whose platform file is here."""
    found: list[End] = []
    (tmp_path / "airflow.toml").touch()
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))

    def check(
        roles: Sequence[str],
        load: object,
        needs: Needs,
        further: Sequence[End],
        say: Callable[[str], None],
        own: Sequence[str],
    ) -> list[Row]:
        assert (list(roles), list(own)) == (["airflow"], ["airflow"])
        return look([*found, *further], say)

    monkeypatch.setattr(checking, "check", check)
    monkeypatch.setattr(callbacks, "not_looked_at", lambda context, lines: context.update(missed=lines))
    monkeypatch.setattr(needing, "needs", lambda specs: Needs([], tables={}))
    monkeypatch.setattr(CheckConnectionsOperator, "log", logging.getLogger(__name__))
    monkeypatch.setattr(steps, "Variable", Variables(Cleaning(ago(0.5)).dump()))
    return found


def run(context: dict[str, Any] | None = None) -> dict[str, int]:
    found = {} if context is None else context
    return CheckConnectionsOperator(task_id="check_connections").execute(cast("Any", found))


def nothing(rows: list[Row]) -> None:
    """It is well."""


def test_the_table_is_in_the_log(ends: list[End], caplog: pytest.LogCaptureFixture) -> None:
    ends.append(End(Row("airflow", "kafka", "broker:9092", remarks=["1 right too many: x"]), nothing))
    with caplog.at_level(logging.INFO):
        context: dict[str, Any] = {}
        assert run(context) == {"ends": 2, "remarks": 1, "not_looked_at": 5}
    assert [line.split()[0] for line in context["missed"]] == [role for role in ROLES if role != "airflow"]
    assert "airflow kafka broker:9092" in " ".join(caplog.text.split())
    assert "remark: airflow kafka broker:9092: 1 right too many: x" in caplog.text
    # The roles whose files are not here are in the table, and not as well.
    assert [line.split()[-3:] for line in caplog.text.splitlines() if line.startswith("producer")] == [
        ["not", "looked", "at"]
    ]
    assert "--role producer as role producer, where its files are" in caplog.text


def test_a_problem_fails_it_with_one_line(ends: list[End], caplog: pytest.LogCaptureFixture) -> None:
    ends.append(End(Row("airflow", "kafka", "broker:9092", problems=["it ended. Fix: renew it"]), nothing))
    ends.append(End(Row("airflow", "s3", "there"), nothing))
    with raising(FindingsFailed) as caught:
        run()
    # What one lost packet says is asked again after the pause.
    assert not isinstance(caught.value, AirflowFailException)
    reason = "1 of 3 ends failed, 1 finding: airflow kafka broker:9092: it ended. Fix: renew it"
    assert str(caught.value) == f"{ErrorCode.CONNECTION_FINDING} {reason}"


def test_a_connection_that_airflow_lacks_is_its_own_row(
    ends: list[End], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(name: str) -> Any:
        raise AirflowFailException(f"SLU-102 connection {name!r} not found. Fix: add it")

    monkeypatch.setattr(needing, "needs", lambda specs: Needs([], tables={"results": ["t"]}))
    monkeypatch.setattr(connections, "get", gone)
    ends.append(End(Row("airflow", "s3", "there"), nothing))
    with raising(FindingsFailed, "1 of 3 ends", "connection 'results' not found"):
        run()


def test_each_end_that_failed_is_named(ends: list[End]) -> None:
    """The message ends after some: what is told of comes from the whole list."""
    for number in range(5):
        row = Row("airflow", "kafka broker", f"broker-{number}:9092", problems=["it is away"])
        ends.append(End(row, nothing))
    with raising(FindingsFailed, "5 of 6 ends failed, 5 findings", "and 2 more") as caught:
        run()
    found = caught.value.findings
    assert len(found) == 5
    assert all(f"broker-{number}:9092" in told for number, told in enumerate(found))


def test_an_invalid_file_of_notifications_is_its_own_row(ends: list[End], tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('[[notify]]\nnotifier = "unknown"\n')
    (tmp_path / FILE).chmod(0o600)
    ends.append(End(Row("airflow", "s3", "there"), nothing))
    with raising(FindingsFailed, "1 of 3 ends", "airflow notifications", FILE, "'unknown' is unknown"):
        run()


@pytest.mark.parametrize(
    ("text", "started", "problem", "remarks"),
    [
        (Cleaning(ago(1), failed=2).dump(), None, "", 0),
        (Cleaning(ago(1), failed=3).dump(), None, "3 cleanings of it failed", 0),
        (Cleaning(failed=4).dump(), None, "none succeeded yet", 0),
        ("?", None, "Fix: delete it", 0),
        # None began, whatever the reason: the last one tells it, or the scheduler of a stack.
        (Cleaning(ago(4)).dump(), None, "no cleaning of it succeeded within 3 days, the last was that of", 0),
        (Cleaning(ago(4)).dump(), ago(9), "no cleaning of it succeeded within 3 days", 0),
        (None, ago(4), "within 3 days, and none before: it grows. Fix: see whether airflow-cleanup runs", 0),
        (None, ago(2), "", 1),
        (None, "soon", f"{STARTED} is 'soon'. Fix: delete it", 0),
        # The stack stood still.
        (Cleaning(ago(40)).dump(), ago(0), "", 0),
        # An Airflow of a user's, which is cleaned in another way.
        (None, None, "", 1),
    ],
    # The same in each worker: the values have the time.
    ids=map(str, range(11)),
)
def test_a_cleaning_of_airflow_s_database_that_keeps_failing_or_does_not_begin_is_a_finding(
    ends: list[End],
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    started: str | None,
    problem: str,
    remarks: int,
) -> None:
    monkeypatch.setattr(steps, "Variable", Variables(text, started))
    if problem:
        with raising(FindingsFailed, "1 of 1 ends failed", "airflow database Airflow's own: ", problem):
            run()
    else:
        assert run()["remarks"] == remarks


def test_a_record_that_cannot_be_read_hides_no_other_end(
    ends: list[End], monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = Variables(None)
    # Deleted since its name was read.
    monkeypatch.setattr(variables, "keys", lambda prefix: [RECORD])
    monkeypatch.setattr(steps, "Variable", variables)
    ends.append(End(Row("airflow", "kafka", "broker:9092", problems=["it ended. Fix: renew it"]), nothing))
    with raising(FindingsFailed, "2 of 2 ends failed", "it ended", "not looked at: KeyError", RECORD):
        run()
