"""The steps of a compaction: what is pinned, what the job is told, and what its check finds."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from sluice.clients import keys, rewriting
from sluice.clients.errors import Refused
from sluice.clients.ledger import Ledger
from sluice.model import stream
from sluice.model.rewrites import Held, Rewrite
from sluice.operators.check_compaction import CheckCompactionOperator
from sluice.operators.compact import SCRIPT, CompactOperator, closed_before
from tests.support.memory_s3 import MemoryS3

AT = datetime(2026, 11, 21, 0, 30, tzinfo=UTC)


class World:
    """A table whose main is at ``head``, and a Spark that remembers what it was told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.head: int | None = 77
        self.submitted: list[list[str]] = []
        self.failure: str | None = None
        self.ledger = Ledger(MemoryS3(), "s3://w/ledger", "wiki_changes")  # type: ignore[arg-type]
        self.rewrites: list[Rewrite] = []
        self.asked: list[Any] = []
        submit = self.submit
        monkeypatch.setattr(SparkSubmitOperator, "execute", lambda operator, context: submit(operator))
        monkeypatch.setattr(BaseHook, "get_connection", lambda conn_id: None)
        monkeypatch.setattr(rewriting, "since", self.since)

    def submit(self, operator: Any) -> None:
        self.submitted.append([operator.application, *operator.application_args])
        self.head = 78
        if self.failure:
            raise AirflowException(f"Cannot execute: spark-submit. Error code is: 1.\n{self.failure}\n")

    def since(self, table: Any, snapshot_id: int | None) -> list[Rewrite]:
        self.asked.append(snapshot_id)
        return self.rewrites

    def table(self, name: str) -> Any:
        assert name == "raw.wiki_changes"
        head = SimpleNamespace(snapshot_id=self.head) if self.head else None
        return SimpleNamespace(current_snapshot=lambda: head)

    def run(self, kind: Any, before: str | None = None, at: datetime = AT) -> dict[str, Any]:
        made = kind(task_id="step", stream="wiki_changes")
        made.__dict__ |= {"platform_hook": SimpleNamespace(lake=self), "ledger": self.ledger}
        given: Any = {"run_id": "r", "params": {"before": before}, "dag_run": SimpleNamespace(run_after=at)}
        found: dict[str, Any] = made.execute(given)
        return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "2026-11-20"),
        ("", "2026-11-20"),
        ("2026-11-21", "2026-11-21"),
        ("2020-02-29", "2020-02-29"),
    ],
)
def test_which_dates_are_closed(given: str | None, expected: str) -> None:
    assert closed_before(given, AT) == date.fromisoformat(expected)


@pytest.mark.parametrize(
    ("given", "words"), [("2026-11-22", "is later than 2026-11-21"), ("soon", "is no date; write it as")]
)
def test_which_are_not(given: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        closed_before(given, AT)


def test_the_day_is_that_of_utc() -> None:
    late = datetime.fromisoformat("2026-11-21T00:30:00+02:00")
    assert closed_before(None, late) == date(2026, 11, 19)


def test_the_job_is_told_the_stream_and_the_date(world: World) -> None:
    assert world.run(CompactOperator) == {"before": "2026-11-20", "snapshot_id": 77}
    assert world.submitted == [[str(SCRIPT), "--stream", "wiki_changes", "--before", "2026-11-20"]]
    assert SCRIPT.parent == Path(stream.STREAMS) / "common"


def test_a_retry_on_another_day_means_the_same_and_checks_from_where_the_first_began(world: World) -> None:
    world.failure = "spark_jobs.common.ownership.Unproved: raw.wiki_changes: not exact: 1 gaps"
    with pytest.raises(
        AirflowException, match=r"^the compaction of stream 'wiki_changes' failed: .*Unproved"
    ) as caught:
        world.run(CompactOperator)
    assert not isinstance(caught.value, AirflowFailException)
    world.failure = None
    assert world.run(CompactOperator, at=datetime(2026, 12, 1, tzinfo=UTC))["snapshot_id"] == 77
    assert [told[-1] for told in world.submitted] == ["2026-11-20"] * 2


def test_dates_that_still_grow_are_refused_before_anything_is_pinned(world: World) -> None:
    with pytest.raises(AirflowFailException, match="the stream still writes to that date"):
        world.run(CompactOperator, before="2026-11-22")
    assert world.submitted == []
    assert world.ledger.get(keys.run_key("r", "compaction")) is None


def test_without_spark_the_connection_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(conn_id: str) -> None:
        raise AirflowNotFoundException(conn_id)

    monkeypatch.setattr(BaseHook, "get_connection", unknown)
    with pytest.raises(AirflowFailException, match="connection 'sluice_spark' does not exist"):
        world.run(CompactOperator)


GOOD = Rewrite(5, "replace", 100, 100, Held(9, 40, 7), Held(2, 40, 7))


def test_the_check_begins_where_the_run_did(world: World) -> None:
    world.run(CompactOperator)
    world.rewrites = [GOOD, GOOD]
    assert world.run(CheckCompactionOperator) == {
        "before": "2026-11-20", "rewrites": 2, "files_before": 18, "files_after": 4, "rows": 80,
    }  # fmt: skip
    assert world.asked == [77]


def test_nothing_to_rewrite_is_well(world: World) -> None:
    world.head = None
    world.run(CompactOperator)
    assert world.run(CheckCompactionOperator)["rewrites"] == 0


def test_other_rows_are_red_with_the_snapshot_to_go_back_to(world: World) -> None:
    world.run(CompactOperator)
    world.rewrites = [GOOD, Rewrite(6, "replace", 100, 99, Held(9, 40, 7), Held(2, 39, 8))]
    with pytest.raises(
        AirflowFailException,
        match=r"^raw.wiki_changes is not as it was: snapshot 6: the table had 100 rows and has 99; .*; "
        r"stop the stream, and roll main back to snapshot 77$",
    ):
        world.run(CheckCompactionOperator)


def test_without_a_compaction_there_is_nothing_to_check(world: World) -> None:
    with pytest.raises(AirflowFailException, match=r"compaction\.json; clear the compact task"):
        world.run(CheckCompactionOperator)
