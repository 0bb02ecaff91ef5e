"""The steps of a compaction: what is pinned, what the job is told, and what its check finds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from pyiceberg.types import BinaryType, LongType, StringType

from sluice.airflow.operators.maintenance.compaction import CompactOperator, VerifyCompactionOperator
from sluice.airflow.operators.maintenance.removal import RemoveFilesOperator
from sluice.clients.lake.commits import Head
from sluice.clients.lake.snapshots import rewrites as compaction
from sluice.config import streams
from sluice.config.stream import ENTRY_POINT
from sluice.config.tables import lake_tables
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.tables.rewrites import MAX_NAMED, REWRITES, Rewrites, id_of_change
from sluice.core.tables.storage import FileSetDigest, Rewrite
from sluice.ledger import keys
from sluice.ledger.history import History
from sluice.ledger.verified_rewrites import VerifiedRewrites
from sluice.maintenance.compaction import closed_before
from sluice.maintenance.removal import FileRemoval
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import NewTables, given, ledger

Step = TypeVar("Step", bound=CompactOperator | VerifyCompactionOperator | RemoveFilesOperator)
HEAD = {"snapshot_id": 77, "sequence_number": 9, "writer": "w1_a"}
COLUMNS = {"query": StringType(), "batch": LongType(), "value": BinaryType()}
AT = datetime(2026, 11, 21, 0, 30, tzinfo=UTC)


class World:
    """Tables of which that of the stream has its main at ``head``, and the queries' one at 5; and a Spark
    that remembers what it was told."""

    def __init__(self) -> None:
        self.head: int | None = 77
        self.is_managed = False
        self.submitted: list[list[str]] = []
        self.failure: str | None = None
        memory = self.memory = MemoryS3()
        self.ledger = ledger("wiki_changes", memory)
        self.history = History(memory.as_client(), "s3://w/ledger", "wiki_changes")
        self.rewrites: list[Rewrite] = []
        self.named: dict[str, Rewrites] = {}
        self.asked_for = set[str]()
        self.rewritten = "raw.wiki_changes"
        self.requested: list[tuple[str, int | None, tuple[str, ...]]] = []

    def submit(self, operator: CompactOperator) -> None:
        self.submitted.append([str(operator.application), *(operator.application_args or [])])
        self.head = 78
        if self.failure:
            raise AirflowException(f"Cannot execute: spark-submit. Error code is: 1.\n{self.failure}\n")

    def heads(self, *names: str) -> dict[str, Head]:
        assert names == ("raw.wiki_changes", "raw.wiki_changes_quarantine", "queries.wiki_changes")
        return {names[0]: Head(self.head, 9, "w1_a"), names[2]: Head(5, 5, "w1_b")} if self.head else {}

    def name(self, table: str, *rewrites: str) -> None:
        """As the commits of these rewrites do."""
        for rewrite in rewrites:
            self.named[table] = self.named.get(table, Rewrites()).more(rewrite)

    def table(self, name: str) -> Any:
        fields = [SimpleNamespace(name=column, field_type=kind) for column, kind in COLUMNS.items()]
        properties = {REWRITES: self.named.get(name, Rewrites()).to_json()}
        schema = SimpleNamespace(fields=fields)
        return SimpleNamespace(name=name, schema=lambda: schema, properties=properties)

    def compact(
        self, before: str | None = None, at: datetime = AT, run: str = "r", kind: str = "scheduled"
    ) -> dict[str, Any]:
        made = self._with_clients(CompactOperator(task_id="step", stream="wiki_changes"))
        of_run = SimpleNamespace(run_type=kind, run_after=at)
        values = {"params": {"compact_before": before}, "dag_run": of_run}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SparkSubmitOperator, "execute", lambda operator, context: self.submit(operator))
            return made.execute(given(run_id=run, **values))

    def check(self, run: str = "r") -> dict[str, Any]:
        made = self._with_clients(VerifyCompactionOperator(task_id="step", stream="wiki_changes"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compaction, "since", self.since)
            found: dict[str, Any] = made.execute(given(run_id=run))
        return found

    def since(
        self, table: Any, head: Head | None, columns: Sequence[str], also: Collection[str]
    ) -> list[Rewrite]:
        self.asked_for |= set(also)
        self.requested.append((table.name, head.snapshot_id if head else None, tuple(columns)))
        return self.rewrites if table.name == self.rewritten else []

    def _with_clients(self, made: Step) -> Step:
        platform = SimpleNamespace(
            lake=SimpleNamespace(is_maintained_by_catalog=self.is_managed), kubernetes=None
        )
        hook = SimpleNamespace(lake=self, history=lambda stream: self.history, platform=platform)
        made.__dict__ |= {"world": self, "tables": NewTables(), "platform_hook": hook, "ledger": self.ledger}
        return made

    def begin(self, run: str) -> None:
        """As task record_metadata does."""
        tables = {name: f"s3://{run}/{name}" for name in ("raw.wiki_changes", "queries.wiki_changes")}
        self.history.record_metadata(tables, datetime.now(UTC), run)

    def remove(self, run: str) -> dict[str, Any]:
        made = RemoveFilesOperator(task_id="step", stream="wiki_changes")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FileRemoval, "remove", lambda removal, now: {"raw.wiki_changes": 3})
            removed: dict[str, Any] = self._with_clients(made).execute(given(run_id=run))
        return removed


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("AIRFLOW_CONN_SLUICE_SPARK", "spark://local")
    return World()


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (None, "2026-11-20"),
        ("", "2026-11-20"),
        ("2026-11-21", "2026-11-21"),
        ("2020-02-29", "2020-02-29"),
    ],
)
def test_which_dates_are_closed(before: str | None, expected: str) -> None:
    assert closed_before(before, AT) == date.fromisoformat(expected)


@pytest.mark.parametrize(
    ("before", "data"), [("2026-11-22", ("2026-11-22", "2026-11-21")), ("soon", ("'soon'",))]
)
def test_which_are_not(before: str, data: tuple[str, ...]) -> None:
    with raising(Refused, *data):
        closed_before(before, AT)


def test_the_day_is_that_of_utc() -> None:
    late = datetime.fromisoformat("2026-11-21T00:30:00+02:00")
    assert closed_before(None, late) == date(2026, 11, 19)


def test_the_job_is_told_the_stream_and_the_date(world: World) -> None:
    states = {"snapshot_id": 5, "sequence_number": 5, "writer": "w1_b"}
    heads = {"raw.wiki_changes": HEAD, "queries.wiki_changes": states}
    assert world.compact() == {"before": "2026-11-20", "main": heads}
    assert world.submitted == [[str(ENTRY_POINT), "compact", "wiki_changes", "--before", "2026-11-20"]]
    assert ENTRY_POINT.is_file()


def test_a_retry_on_another_day_means_the_same_and_checks_from_where_the_first_began(world: World) -> None:
    failed = "VerificationFailed: raw.wiki_changes: not exact: 1 gaps"
    world.failure = f"spark_jobs.common.consumer.writer.{failed}"
    with raising(AirflowException, "'wiki_changes'", failed) as caught:
        world.compact()
    assert not isinstance(caught.value, AirflowFailException)
    world.failure = None
    again = world.compact(at=datetime(2026, 12, 1, tzinfo=UTC))
    assert again["main"]["raw.wiki_changes"] == HEAD
    assert [told[-1] for told in world.submitted] == ["2026-11-20"] * 2


def test_a_run_id_that_is_used_again_with_another_date_is_refused(world: World) -> None:
    world.compact(before="2026-11-01")
    with raising(AirflowFailException, "SLU-306", "'r'", "2026-11-01", "2026-11-20"):
        world.compact(before="2026-11-20")
    assert len(world.submitted) == 1
    for same in ("2026-11-01", "20261101"):
        assert world.compact(before=same)["before"] == "2026-11-01"


def test_a_run_id_of_a_run_that_airflow_deleted_compacts_no_date_of_then(world: World) -> None:
    world.compact()
    with raising(AirflowFailException, "SLU-306", "run id 'r'", "another run id"):
        world.compact(at=datetime.now(UTC) + timedelta(days=31), kind="manual")
    # A cleared task of a scheduled run.
    world.compact(at=datetime.now(UTC) + timedelta(days=31))
    assert len(world.submitted) == 2


def test_dates_that_still_grow_are_refused_before_anything_is_pinned(world: World) -> None:
    with raising(AirflowFailException, "2026-11-22"):
        world.compact(before="2026-11-22")
    assert world.submitted == []
    assert world.ledger.get(keys.run_key("r", "compaction")) is None


def test_without_spark_the_connection_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SLUICE_SPARK")
    with raising(AirflowFailException, "'sluice_spark'"):
        world.compact()
    assert world.submitted == []


GOOD = Rewrite(5, "replace", 100, 100, FileSetDigest(9, 40, 7), FileSetDigest(2, 40, 7))
NOTHING = FileSetDigest(0, 0, 0)


def test_the_check_begins_where_the_run_did(world: World) -> None:
    world.compact()
    world.rewrites = [GOOD, GOOD, Rewrite(6, "replace", 100, 100, NOTHING, NOTHING)]
    nothing = {"rewrites": 0, "files_before": 0, "files_after": 0, "rows": 0}
    done = {"rewrites": 2, "files_before": 18, "files_after": 4, "rows": 80}
    tables = {"raw.wiki_changes": done, "queries.wiki_changes": nothing}
    assert world.check() == {"before": "2026-11-20", "tables": tables}
    assert sorted(world.requested) == [
        ("queries.wiki_changes", 5, ("query", "batch")),
        ("raw.wiki_changes", 77, ("_kafka_partition", "_kafka_offset")),
    ], "the quarantine has no snapshot, and bytes are not compared"


def test_nothing_to_rewrite_is_well(world: World) -> None:
    world.compact()
    assert {found["rewrites"] for found in world.check()["tables"].values()} == {0}


def test_a_stream_that_never_started_needs_no_spark(world: World) -> None:
    world.head = None
    assert world.compact()["main"] == {}
    assert world.submitted == []
    assert world.check()["tables"] == {}


BAD = Rewrite(6, "replace", 100, 99, FileSetDigest(9, 40, 7), FileSetDigest(2, 39, 8))


def test_other_rows_are_red_with_the_metadata_file_to_go_back_to(world: World) -> None:
    world.begin("earlier")
    world.begin("r")
    world.compact()
    world.begin("later")
    world.rewrites = [GOOD, BAD]
    reason = (
        "raw.wiki_changes",
        "snapshot 6",
        "100",
        "99",
        "register raw.wiki_changes at s3://r/raw.wiki_changes",
    )
    with raising(AirflowFailException, *reason) as caught:
        world.check()
    assert "queries.wiki_changes at" not in str(caught.value)


def test_a_table_that_fails_stops_no_other(world: World) -> None:
    world.begin("r")
    world.compact()
    world.rewrites, world.rewritten = [BAD], "queries.wiki_changes"
    with raising(AirflowFailException, "SLU-407", "queries.wiki_changes changed"):
        world.check()
    assert [name for name, *_ in world.requested] == ["raw.wiki_changes", "queries.wiki_changes"]
    systems: Any = SimpleNamespace(lake=world, history=lambda stream: world.history)
    removing = FileRemoval(systems, streams.load("wiki_changes"))
    removed: list[str] = []

    def remove_of(name: str, records: Any) -> int:
        removed.append(name)
        if name == "raw.wiki_changes":
            raise Refused(name, ErrorCode.S3_PERMISSION)
        return 1

    removing._remove_of = remove_of  # type: ignore[method-assign]
    with raising(Refused, "raw.wiki_changes"):
        removing.remove(datetime.now(UTC))
    assert removed == lake_tables(removing.spec)
    assert len(removed) > 2


def test_a_table_of_the_queries_is_restored_with_the_others(world: World) -> None:
    world.begin("r")
    world.compact()
    world.rewrites, world.rewritten = [BAD], "queries.wiki_changes"
    with raising(
        AirflowFailException,
        *(f"{name} at s3://r/{name}" for name in ("raw.wiki_changes", "queries.wiki_changes")),
    ):
        world.check()


def test_nothing_is_deleted_until_every_rewrite_is_verified(world: World) -> None:
    world.begin("r")
    world.compact()
    world.rewrites = [replace(GOOD, id="good")]
    world.name("raw.wiki_changes", "good")
    world.check()
    assert world.remove("r") == {"raw.wiki_changes": 3}
    world.compact(run="bad")
    world.rewrites = [replace(BAD, id="bad")]
    world.name("raw.wiki_changes", "bad")
    with raising(AirflowFailException, "SLU-407"):
        world.check("bad")
    world.compact(run="next")
    world.rewrites.append(replace(GOOD, snapshot_id=9, id="next"))
    world.name("raw.wiki_changes", "next")
    with raising(AirflowFailException, "SLU-407", "snapshot 6"):
        world.check("next")
    missing = "s3://w/ledger/wiki_changes/rewrites/bad.json"
    with raising(AirflowFailException, "SLU-407", "raw.wiki_changes", missing) as caught:
        world.remove("next")
    assert "next.json" not in str(caught.value)
    # As a person does, who has compared the rows: docs/operating.md.
    world.ledger.put(keys.rewrite_key("bad"), {"who": "ada", "reason": "compared"})
    assert world.remove("next") == {"raw.wiki_changes": 3}


def test_a_rewrite_without_a_snapshot_is_not_verified_by_that(world: World) -> None:
    """It was published when its run had ended, and has expired before the next one."""
    world.compact()
    world.rewrites = []
    world.name("raw.wiki_changes", "late")
    with raising(AirflowFailException, "SLU-407", "rewrite late", "expired before it was verified"):
        world.check()
    with raising(AirflowFailException, "rewrites/late.json"):
        world.remove("r")


def test_a_rewrite_that_publishes_after_its_run_is_verified_by_the_next(world: World) -> None:
    world.compact()
    world.check()
    # A job that was killed, and whose JVM lived on.
    world.rewrites = [replace(GOOD, id="late")]
    world.name("raw.wiki_changes", "late")
    with raising(AirflowFailException, "rewrites/late.json", "clear verify_compaction"):
        world.remove("r")
    world.compact(run="next")
    world.check("next")
    assert world.asked_for == {"late"}
    assert world.remove("next") == {"raw.wiki_changes": 3}


def test_of_a_table_that_was_created_since_the_run_began_rewrites_are_verified_too(world: World) -> None:
    world.head = None
    world.compact()
    world.head = 78
    world.rewrites = [replace(GOOD, id="first")]
    world.name("raw.wiki_changes", "first")
    world.check()
    assert world.remove("r") == {"raw.wiki_changes": 3}


def test_a_change_that_is_not_verified_yet_is_waited_for(world: World) -> None:
    """Its own run verifies it, which may be at work."""
    world.compact()
    world.name("raw.wiki_changes", id_of_change("abc", "1"))
    world.check()
    with raising(AirflowException, "SLU-407", "rewrites/change-abc-1.json", "verify_change") as caught:
        world.remove("r")
    assert not isinstance(caught.value, AirflowFailException)
    VerifiedRewrites(world.ledger).confirm("change-abc-1", {"run_id": "c"})
    world.remove("r")


def test_more_rewrites_than_the_table_names_are_not_taken_for_verified(world: World) -> None:
    world.compact()
    ids = [f"r{number}" for number in range(MAX_NAMED + 1)]
    world.name("raw.wiki_changes", *ids)
    for rewrite in ids:
        VerifiedRewrites(world.ledger).confirm(rewrite, {})
    with raising(AirflowFailException, "of 1 rewrites before its newest 64", "not known"):
        world.remove("r")


def test_what_was_verified_costs_one_question(world: World) -> None:
    world.compact()
    world.rewrites = [replace(GOOD, id=f"r{number}") for number in range(50)]
    world.name("raw.wiki_changes", *(one.id for one in world.rewrites))
    world.check()
    world.remove("r")
    before = world.memory.requests["GET"]
    world.remove("r")
    assert world.memory.requests["GET"] == before + 1


def test_without_a_compaction_there_is_nothing_to_check(world: World) -> None:
    with raising(AirflowFailException, "compaction.json", "compact task"):
        world.check()


@pytest.mark.parametrize("step", ["compact", "check", "remove"])
def test_what_a_managed_catalog_does_by_itself_is_skipped_with_the_reason(world: World, step: str) -> None:
    world.is_managed = True
    steps: dict[str, Callable[[], object]] = {
        "compact": world.compact,
        "check": world.check,
        "remove": lambda: world.remove("r"),
    }
    with raising(AirflowSkipException, "the catalog", 'maintenance = "catalog"', "changes_reconciliation"):
        steps[step]()
    assert not world.submitted
    assert not world.memory.objects, "nothing is pinned or recorded"
