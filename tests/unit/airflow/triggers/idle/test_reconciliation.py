"""A run of reconciliation takes no worker while nothing changed, and is green over nothing unseen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.airflow.operators.maintenance.reconciliation import (
    CheckFilesOperator,
    ObserveOffsetsOperator,
    VerifyTableOperator,
)
from sluice.clients.s3.errors import S3LoginRefused
from sluice.config.sections.supervision import Supervision
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable
from sluice.core.findings import FindingName
from sluice.ledger.keys import passed_kind
from sluice.ledger.marks import LedgerMarks
from sluice.maintenance.reconciliation import unchanged
from tests.support import lake as lakes
from tests.support.reconciliation import World

KINDS = (VerifyTableOperator, CheckFilesOperator)
BOTH = pytest.mark.parametrize("kind", KINDS, ids=("table", "files"))


@pytest.fixture(scope="module")
def one_batch(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, lakes.Image]:
    made = World(tmp_path_factory.mktemp("world"))
    made.batch()
    made.batch(reject=1)
    made.lake.close()
    return made, lakes.Image(made.folder)


@pytest.fixture
def world(one_batch: tuple[World, lakes.Image]) -> World:
    before, image = one_batch
    made = World(before.folder, image.again())
    made.end = before.end
    return made


@BOTH
def test_nothing_changed_since_a_run_that_passed(world: World, kind: Any) -> None:
    assert world.look(kind) == {"reason": "no run has passed yet"}
    world.run(kind)
    found = world.look(kind)
    assert found["result"].startswith("nothing changed since 20")
    assert found["tables"][lakes.TABLE] == world.lake.location(lakes.TABLE)
    assert world.look(kind) == found, "a look is no run that looked"


@BOTH
def test_what_a_run_could_not_look_at_is_said_by_each_that_it_stands_for(
    world: World, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = {CheckFilesOperator: "reconcile_files", VerifyTableOperator: "ContentsReconciliation.run"}[kind]
    done = {"result": "all is well", "notes": ["versions are not listed"]}
    monkeypatch.setattr(f"sluice.airflow.operators.maintenance.reconciliation.{of}", lambda *a, **b: done)
    assert world.run(kind)["notes"] == world.look(kind)["notes"] == done["notes"]
    _pass(world, kind)
    assert "notes" not in world.look(kind)


def test_a_record_of_an_earlier_version_stands_for_later_runs(world: World) -> None:
    world.run()
    now = datetime.now(UTC)
    seen = unchanged.seen(world.systems()["platform_hook"], world.systems()["spec"])
    world.history.record_run(passed_kind("table"), {"seen": seen}, now)
    assert "nothing changed since" in world.look()["result"]


@BOTH
def test_a_stream_that_never_loaded_takes_no_worker_either(tmp_path: Path, kind: Any) -> None:
    made = World(tmp_path)
    made.lake = lakes.empty(tmp_path / "empty")
    made.run(kind)
    assert "nothing changed" in made.look(kind)["result"]


@BOTH
def test_a_commit_of_any_kind_is_looked_at(world: World, kind: Any) -> None:
    world.run(kind)
    for change in (world.batch, lambda: world.rejecting(1), world.expire, world.compact):
        change()
        assert "changed since the newest run that passed: raw" in world.look(kind)["reason"]
        _pass(world, kind)


def _pass(world: World, kind: Any) -> None:
    """As if a run had passed on what is there now."""
    hook, now = world.systems()["platform_hook"], datetime.now(UTC)
    unchanged.passed(world.history, kind.step, unchanged.seen(hook, world.systems()["spec"]), now)


@BOTH
def test_what_a_run_found_stays_found(world: World, kind: Any) -> None:
    """A file that is lost changes no metadata, and an earlier run has passed on the same."""
    world.run(kind)
    if kind is CheckFilesOperator:
        world.data_files()[0].unlink()
        world.finds(FindingName.FILE_DAMAGED, kind=kind, full=True)
    else:
        world.batch(lie=1)
        world.finds(FindingName.RANGE_WRONG, kind=kind)
    assert world.look(kind) == {"reason": "the newest run has not passed"}


@BOTH
def test_a_run_that_was_ended_has_not_passed(
    world: World, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(kind)

    def ended(*given: Any, **named: Any) -> Any:
        raise Unreachable("S3 is away")

    with monkeypatch.context() as patch:
        patch.setattr("sluice.airflow.operators.maintenance.reconciliation.reconcile_files", ended)
        patch.setattr("sluice.maintenance.reconciliation.contents.ContentsReconciliation.run", ended)
        with pytest.raises(Unreachable):
            world.run(kind)
    assert world.look(kind) == {"reason": "the newest run has not passed"}


@BOTH
def test_a_clock_that_was_ahead_hides_no_later_run(world: World, kind: Any) -> None:
    world.run(kind)
    newest = world.history.latest(passed_kind(kind.step))
    assert newest is not None
    ahead = datetime.now(UTC) + timedelta(hours=3)
    unchanged.passed(world.history, kind.step, newest["seen"], ahead)
    assert "one does every 24 h" in world.look(kind)["reason"], "of the future"
    unchanged.begin(world.history, kind.step, datetime.now(UTC))
    assert world.look(kind) == {"reason": "the newest run has not passed"}


@BOTH
def test_once_a_day_everything_is_looked_at(world: World, kind: Any) -> None:
    world.run(kind)
    assert "result" in world.look(kind, later=timedelta(hours=23))
    assert "one does every 24 h" in world.look(kind, later=timedelta(hours=24, seconds=1))["reason"]


@BOTH
def test_a_persons_run_and_a_cleared_task_look_at_everything(world: World, kind: Any) -> None:
    world.run(kind)
    assert "run of type manual" in world.look(kind, run_type="manual")["reason"]
    assert world.look(kind, full=True)["reason"] == "a full run"
    assert "cleared" in world.look(kind, try_number=2)["reason"]


@BOTH
def test_a_table_or_a_file_that_is_gone_is_left_to_a_worker(world: World, kind: Any) -> None:
    world.run(kind)
    location = str(world.lake.location(lakes.TABLE))
    snapshot = world.lake.table(lakes.TABLE).current_snapshot()
    assert snapshot is not None
    newest = Path(snapshot.manifest_list.removeprefix("file://"))
    kept = newest.read_bytes()
    newest.unlink()
    assert "manifest list of raw.nyc_taxi is gone" in world.look(kind)["reason"]
    newest.write_bytes(kept)
    metadata = Path(location.removeprefix("file://"))
    text = metadata.read_bytes()
    metadata.unlink()
    world.lake._loaded.clear()
    assert location.rsplit("/", 1)[1] in world.look(kind)["reason"]
    metadata.write_bytes(text)
    assert "result" in world.look(kind)
    world.lake.catalog.drop_table(lakes.TABLE)
    assert "changed since" in world.look(kind)["reason"]


@BOTH
def test_a_ledger_that_forgot_and_systems_that_do_not_answer_are_left_to_a_worker(
    world: World, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(kind)
    with monkeypatch.context() as patch:
        patch.setattr(LedgerMarks, "lost", lambda self, kind: "s3://w/ledger/gone")
        assert "does not have s3://w/ledger/gone" in world.look(kind)["reason"]
    with monkeypatch.context() as patch:
        patch.setattr(world.lake, "location", raising(Unreachable("the catalog is away")))
        assert "Unreachable: the catalog is away" in world.look(kind)["reason"]
    with monkeypatch.context() as patch:
        patch.setattr(world.history, "latest", raising(S3LoginRefused("no login", ErrorCode.S3_LOGIN)))
        assert "no login" in world.look(kind)["reason"]


def raising(error: Exception) -> Any:
    def fail(*given: Any) -> Any:
        raise error

    return fail


@BOTH
def test_another_declaration_is_looked_at(world: World, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run(kind)
    declared = world.systems()
    spec = SimpleNamespace(**vars(declared["spec"]) | {"supervision": Supervision(max_rejected_percent=1)})
    monkeypatch.setattr(world, "systems", lambda: declared | {"spec": spec})
    assert world.look(kind)["reason"].endswith("max_rejected_percent")


def test_records_that_wait_are_looked_at_for_only_time_makes_them_a_finding(world: World) -> None:
    world.run()
    state = world.history.latest("reconciled_table")
    assert state is not None
    waiting = {**state, "on_purpose": {"unplanned": 0, "withheld": {"a": 1}}}
    world.history.record_run("reconciled_table", waiting, datetime.now(UTC))
    assert world.look()["reason"] == "records are withheld"


def test_positions_are_compared_each_time_without_a_worker(world: World) -> None:
    look = lambda: world.look(ObserveOffsetsOperator)  # noqa: E731
    assert "offsets agree" in look()["result"]
    world.batch()
    assert "offsets agree" in look()["result"]
    world.kafka.group_offsets = lambda *given: {0: world.end + 1}
    assert "group-ahead" in look()["reason"]
    world.finds(FindingName.GROUP_AHEAD, kind=ObserveOffsetsOperator)
    world.kafka.group_offsets = lambda *given: {0: world.end}
    world.kafka.begins = lambda *given: {0: world.end + 1}
    world.kafka.ends = lambda *given: {0: world.end + 1}
    assert "records-deleted-unread" in look()["reason"]
    world.kafka.describe = raising(Unreachable("no broker"))
    assert "no broker" in look()["reason"]


@pytest.mark.parametrize("by", ["triggerer", "worker"])
def test_a_restored_ledger_is_found_by_the_next_run_though_nothing_was_verified_since(
    world: World, by: str
) -> None:
    compare: Any = {"triggerer": world.look, "worker": world.run}[by]
    for kind in KINDS:
        world.run(kind)
    compare(ObserveOffsetsOperator)
    night = dict(world.memory.objects)
    compare(ObserveOffsetsOperator)
    assert all("nothing changed" in world.look(kind)["result"] for kind in KINDS)
    world.memory.objects = night
    # The next run compares before it looks for what the ledger lost.
    compare(ObserveOffsetsOperator)
    for kind in KINDS:
        assert "history/reconciled_offsets/" in world.look(kind)["reason"]
    assert "history/reconciled_offsets/" in world.finds(FindingName.LEDGER_LOST)
    compare(ObserveOffsetsOperator)
    world.run()
    assert "nothing changed" in world.look()["result"]
