"""Reconciliation of a lake whose objects are really damaged, each with a name of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException
from pyiceberg.table import Table

from sluice.airflow import hook as platform_hook
from sluice.airflow.operators.maintenance.reconciliation import (
    CheckFilesOperator,
    ObserveOffsetsOperator,
    VerifyTableOperator,
)
from sluice.changes.plan import pin
from sluice.clients.lake.commits import ancestors
from sluice.clients.s3.objects import Entry
from sluice.core.changes.plan import change_id
from sluice.core.changes.published import Changes
from sluice.core.errors import Missing
from sluice.core.findings import FindingName
from sluice.core.schema_versions.followed import PROPERTY
from sluice.core.tables.known_tables import CREATED_AT
from sluice.ledger.batch_log import FOLDER
from sluice.ledger.keys import PROOF, VERIFIED_TABLE, history_key, rewrite_key, run_key
from sluice.ledger.known_tables import KnownTables
from sluice.ledger.marks import LedgerMarks
from sluice.ledger.verified_rewrites import VerifiedRewrites
from sluice.maintenance.reconciliation import contents
from sluice.maintenance.reconciliation.verified_table import Verified
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.reconciliation import BATCH, World
from tests.support.variables import Variables


@pytest.fixture(scope="module")
def two_batches(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, lakes.Image]:
    made = World(tmp_path_factory.mktemp("world"))
    made.batch()
    made.batch(reject=1)
    made.lake.close()
    return made, lakes.Image(made.folder)


@pytest.fixture
def world(two_batches: tuple[World, lakes.Image]) -> World:
    """As it was after two batches, whatever the test before did to its files."""
    before, image = two_batches
    made = World(before.folder, image.again())
    made.end = before.end
    return made


STEPS = (ObserveOffsetsOperator, VerifyTableOperator, CheckFilesOperator)


@pytest.mark.parametrize("kind", STEPS)
def test_a_stream_that_never_loaded_passes_and_says_so(kind: Any, tmp_path: Path) -> None:
    made = World(tmp_path)
    assert "nothing" in str(made.run(kind)) or made.run(kind) == {
        "checked": {lakes.TABLE: 0, lakes.QUARANTINE: 0}
    }


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("has_tables", [True, False])
def test_a_stack_whose_stream_never_ran_passes(kind: Any, has_tables: bool, tmp_path: Path) -> None:
    """It has no topic either: the consumer may have made the tables before the first load."""
    made = World(tmp_path)
    if not has_tables:
        made.lake = lakes.empty(tmp_path / "empty")

    def describe(topic: str) -> Any:
        raise Missing(f"topic {topic} does not exist")

    made.kafka.describe = describe
    assert "nothing" in str(made.run(kind)) or made.run(kind) == {
        "checked": {lakes.TABLE: 0, lakes.QUARANTINE: 0}
    }


def test_a_stream_that_is_well_passes(world: World) -> None:
    assert [world.run(kind) for kind in STEPS]
    assert world.waited == []


def test_a_run_reads_what_is_new(world: World) -> None:
    assert world.run()["files"] == 2
    assert world.run() == {**world.run(), "files": 0, "read": 0}
    world.batch()
    found = world.run()
    assert (found["files"], found["read"]) == (1, 0)
    assert world.run(full=True)["files"] == 3


def test_a_compaction_is_verified_by_its_own_file_alone(world: World) -> None:
    world.run()
    world.compact([0, 1, 2, 3, 4, 6, 7])
    found = world.run()
    # The two old files by the offsets that were verified, the new one by its columns.
    assert (found["files"], found["read"]) == (3, 1)


def test_a_compaction_that_exchanges_rows_is_found(world: World) -> None:
    world.run()
    world.compact([0, 1, 1, 3, 4, 6, 7])
    names = (FindingName.OFFSETS_MISSING, FindingName.OFFSETS_DUPLICATED)
    assert "0=[2,3)" in world.finds(*names)
    # It is not taken as verified: the next run finds it again.
    world.finds(*names)


def test_a_lost_record_and_one_in_both_tables_do_not_cancel_out(world: World) -> None:
    """Beside a rejected record the batch's file has as many rows as it should."""
    start, world.end = world.end, world.end + BATCH
    said = lakes.summary("batch", 1, {0: world.end}, {0: 0}, {0: (start, world.end)})
    lakes.append(world.lake, [(0, start), (0, start + 2), (0, start + 3)], said)
    row = {**dict.fromkeys(lakes.BAD_ROWS.names), "stage": "consumer", "reason": "r", "_kafka_partition": 0}
    lakes.quarantine(world.lake, [{**row, "_kafka_offset": start + 2}])
    text = world.finds(FindingName.OFFSETS_MISSING, FindingName.OFFSETS_IN_BOTH)
    assert f"0=[{start + 1},{start + 2})" in text


def test_an_offset_twice_in_quarantine_is_found_by_each_run_also_before_it_is_published(world: World) -> None:
    world.run()
    row = {**dict.fromkeys(lakes.BAD_ROWS.names), "stage": "consumer", "reason": "r", "_kafka_partition": 0}
    lakes.quarantine(world.lake, [{**row, "_kafka_offset": world.end + 1}] * 2)
    assert f"0=[{world.end + 1},{world.end + 2})" in world.finds(FindingName.OFFSETS_DUPLICATED)
    start, world.end = world.end, world.end + BATCH
    said = lakes.summary("batch", 1, {0: world.end}, {0: 0}, {0: (start, world.end)})
    lakes.append(world.lake, [(0, start), (0, start + 2), (0, start + 3)], said)
    world.finds(FindingName.OFFSETS_DUPLICATED)


def test_the_result_says_how_many_offsets_are_in_quarantine(world: World) -> None:
    assert (
        "8 offsets, each once; 1 of them in quarantine, 1 since the last run that passed"
        in (world.run()["result"])
    )
    assert "1 of them in quarantine, 0 since the last run" in world.run()["result"]


def test_recorded_offsets_without_a_record_are_not_missing(world: World) -> None:
    world.batch(marker=BATCH - 1)
    assert "; 1 more have no record; " in world.run()["result"]
    world.batch(marker=0)
    world.record()
    world.expire()
    assert "; 2 more have no record; " in world.run()["result"]
    known = Verified.from_document(world.history.latest(VERIFIED_TABLE) or {})
    assert known.without_record.count == 2
    # All of the table is verified again, and no snapshot says it any more.
    assert "; 2 more have no record; " in world.run(full=True)["result"]


def test_an_offset_that_no_batch_recorded_is_missing_beside_those(world: World) -> None:
    world.batch(marker=1)
    world.batch(marker=2)
    gone = f"_kafka_offset = {world.end - 1}"
    world.lake.catalog.load_table(lakes.TABLE).delete(gone)
    assert f"1 offsets are in neither table: 0=[{world.end - 1},{world.end})" in world.finds(
        FindingName.OFFSETS_MISSING, FindingName.FOREIGN_COMMIT
    )


def test_malformed_records_above_the_streams_limit_are_found_once(world: World) -> None:
    """They are accounted for, so the next run starts from them; but no run is green over them unsaid."""
    world.run()
    world.rejecting(4)
    assert "5 of them in quarantine, 4 since the last run that passed" in world.run()["result"]
    world.rejecting(5)
    world.batch()
    text = world.finds(FindingName.RECORDS_REJECTED, run_id="r")
    assert "5 of the last 9 records (55.6 %)" in text
    assert "max_rejected_percent is 5" in text
    assert lakes.QUARANTINE in text
    assert world.finds(FindingName.RECORDS_REJECTED, run_id="r") == text
    assert "10 of them in quarantine, 0 since" in world.run()["result"]


def test_malformed_records_of_which_no_run_has_enough_add_up(world: World) -> None:
    world.run()
    world.rejecting(4)
    world.run()
    world.rejecting(4)
    text = world.finds(FindingName.RECORDS_REJECTED, run_id="r")
    assert "8 of the last 8 records (100.0 %)" in text
    # Judged once: they begin again.
    world.rejecting(4)
    world.run()
    # Many records before do not hide a run that has enough by itself.
    world.batch(records=400)
    world.rejecting(5)
    for _ in range(3):
        world.batch()
    world.rejecting(1)
    world.run()
    world.rejecting(5)
    assert "5 of the last 5 records" in world.finds(FindingName.RECORDS_REJECTED)


@pytest.mark.parametrize(("hours", "is_red"), [(23, True), (25, False)])
def test_malformed_records_add_up_for_a_day(
    world: World, hours: int, is_red: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [datetime.now(UTC)]
    monkeypatch.setattr(contents, "datetime", SimpleNamespace(now=lambda zone: now[0]))
    world.run()
    world.rejecting(4)
    world.run()
    now[0] += timedelta(hours=hours)
    # A run of each hour would do the same.
    world.run()
    world.rejecting(4)
    if is_red:
        world.finds(FindingName.RECORDS_REJECTED)
    else:
        world.run()


def test_records_that_are_rejected_on_purpose_are_no_finding(world: World) -> None:
    world.run()
    world.rejecting(4, on_purpose=500)
    for _ in range(20):
        world.batch()
    assert "504 since the last run that passed" in world.run()["result"]


def test_a_first_run_finds_what_was_rejected_since_the_stream_began(tmp_path: Path) -> None:
    made = World(tmp_path)
    made.rejecting(9)
    assert "9 of the last 9 records (100.0 %)" in made.finds(FindingName.RECORDS_REJECTED)


def test_a_record_that_is_in_quarantine_a_little_later_is_no_finding(world: World) -> None:
    world.batch()
    lakes.append(world.lake, [(0, 12)], lakes.summary("batch", 1, {0: 14}, {0: 0}, {0: (12, 14)}))
    world.end = 14

    def meanwhile() -> None:
        row = dict.fromkeys(lakes.BAD_ROWS.names)
        row |= {"stage": "consumer", "reason": "r", "_kafka_partition": 0, "_kafka_offset": 13}
        lakes.quarantine(world.lake, [row])

    world.meanwhile = meanwhile
    world.run()
    assert world.waited == [5]


def test_a_record_in_both_tables_is_found(world: World) -> None:
    world.compact(list(range(8)))
    assert "0=[5,6)" in world.finds(FindingName.OFFSETS_IN_BOTH)
    assert world.waited == [5, 15, 40]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_record_in_both_tables_names_the_change_that_did_not_end(world: World, is_known: bool) -> None:
    run = "manual__2026-11-24T10:00:00+00:00"
    if is_known:
        pin(world.history, run, {}, dict)
    for number in range(3):
        world.history.put(run_key(f"load {number}", "plan"), {})
    changes = Changes().more("older", "").more(change_id(run), "")
    said = lakes.summary("change", 1, {0: 8}, {0: 0}) | changes.properties()
    world.rewrite(list(range(8)), said)
    memory: MemoryS3 = world.history.client  # type: ignore[assignment]
    memory.listed.clear()
    text = world.finds(FindingName.OFFSETS_IN_BOTH)
    assert not [given for given in memory.listed if given["Prefix"].endswith("/runs/")], "all runs"
    assert f"the newest change is {change_id(run)}" in text
    assert (f"of run {run!r}" in text) is is_known
    assert "clear its apply_change" in text


def test_a_summary_that_lies_is_found(world: World) -> None:
    world.batch(lie=1)
    world.finds(FindingName.RANGE_WRONG)


def test_a_deleted_and_a_truncated_data_file_are_found_if_they_are_new(world: World) -> None:
    assert world.run(CheckFilesOperator) == {"checked": {lakes.TABLE: 2, lakes.QUARANTINE: 1}}
    assert world.run(CheckFilesOperator) == {"checked": {lakes.TABLE: 0, lakes.QUARANTINE: 0}}
    world.batch()
    (newest,) = world.data_files()[2:]
    body = newest.read_bytes()
    newest.write_bytes(body[:-1])
    assert "bytes" in world.finds(FindingName.FILE_DAMAGED, kind=CheckFilesOperator)
    newest.unlink()
    assert "is missing" in world.finds(FindingName.FILE_DAMAGED, kind=CheckFilesOperator)
    newest.write_bytes(body)
    assert world.run(CheckFilesOperator)["checked"][lakes.TABLE] == 1
    world.data_files()[0].unlink()
    assert world.run(CheckFilesOperator)["checked"][lakes.TABLE] == 0
    assert "is missing" in world.finds(FindingName.FILE_DAMAGED, kind=CheckFilesOperator, full=True)


def test_a_document_that_the_table_names_is_found_by_each_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(CheckFilesOperator)
    table = world.lake.catalog.load_table(lakes.TABLE)
    table.transaction().set_properties({PROPERTY: "d" * 64}).commit_transaction()
    monkeypatch.setattr(Table, "location", lambda self: "s3://w/lake/t")
    for _ in range(2):
        text = world.finds(FindingName.FILE_DAMAGED, kind=CheckFilesOperator)
        assert f"s3://w/lake/t/schemas/{'d' * 64}.* is missing" in text


def test_a_file_that_is_replaced_by_an_older_version_is_found(world: World) -> None:
    path = world.data_files()[0]
    one, at = path.stat().st_size, datetime(2026, 1, 1, tzinfo=UTC)
    entries = world.entries
    world.entries = lambda uri: (  # type: ignore[method-assign]
        [Entry("k", True, False, "old", one, at), Entry("k", False, False, "new", one, at)]
        if uri.endswith(path.name)
        else entries(uri)
    )
    text = world.finds(FindingName.FILE_DAMAGED, kind=CheckFilesOperator)
    assert "was overwritten with other content" in text


def manifest(world: World) -> Path:
    return world.manifests()[0]


# PyIceberg takes the last byte of a manifest list, of the marker behind the records, from beyond the file; a
# manifest has its length in the list.
@pytest.mark.parametrize(
    ("place", "cut"),
    [*product((manifest, World.manifest_list), (0, 1, 3, 16, 200)), (manifest, -1)],
)
def test_truncated_metadata_is_found(place: Callable[[World], Path], cut: int, world: World) -> None:
    path = place(world)
    path.write_bytes(path.read_bytes()[:cut])
    assert path.name in world.finds(FindingName.METADATA_DAMAGED)
    assert path.name in world.finds(FindingName.METADATA_DAMAGED, kind=CheckFilesOperator)


@pytest.mark.parametrize("place", [lambda w: w.manifests()[0], lambda w: w.manifest_list()])
def test_missing_metadata_is_found(place: Callable[[World], Path], world: World) -> None:
    path = place(world)
    path.unlink()
    assert path.name in world.finds(FindingName.METADATA_DAMAGED)


def test_a_file_whose_columns_cannot_be_read_is_found(world: World) -> None:
    world.run()
    world.compact([0, 1, 2, 3, 4, 6, 7])
    path = world.data_files()[-1]
    path.write_bytes(path.read_bytes()[:-8] + bytes(8))
    assert path.name in world.finds(FindingName.METADATA_DAMAGED)


def test_a_commit_of_another_program_is_found_once(world: World) -> None:
    world.run()
    world.rewrite([0, 1, 2, 3, 4, 6, 7], {})
    assert "neither the stream's nor maintenance's" in world.finds(FindingName.FOREIGN_COMMIT)
    world.run()


def test_a_full_run_finds_a_foreign_commit_below_the_newest_one(world: World) -> None:
    world.run()
    world.rewrite([0, 1, 2, 3, 4, 6, 7], {})
    world.batch()
    world.finds(FindingName.FOREIGN_COMMIT, full=True)


def test_a_foreign_commit_is_found_if_what_was_verified_cannot_be_the_base_any_more(world: World) -> None:
    world.run()
    verified = world.manifest_list()
    world.rewrite([0, 1, 2, 3, 4, 6, 7], {})
    world.batch()
    verified.unlink()
    world.finds(FindingName.FOREIGN_COMMIT)


def test_values_that_another_program_altered_are_found_after_its_snapshot_has_expired(world: World) -> None:
    """The rows that a batch published, with the same offsets, in a file of another program."""
    world.run()
    world.batch()
    world.record()
    world.rewrite([0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11], {}, fare=9.0)
    foreign = world.snapshot_id()
    world.batch()
    world.expire()
    text = world.finds(FindingName.FOREIGN_COMMIT)
    assert f"snapshot {foreign}" in text
    assert world.data_files()[-2].name in text
    # Once: what is there is verified.
    world.run()


@pytest.mark.parametrize("is_without_base", [False, True])
def test_expired_commits_since_the_last_run_that_passed_are_found_also_if_all_is_verified(
    world: World, is_without_base: bool
) -> None:
    world.run()
    verified = world.manifest_list()
    world.rewrite([0, 1, 2, 3, 4, 6, 7], {})
    world.batch()
    world.expire()
    if is_without_base:
        verified.unlink()
    world.finds(FindingName.FOREIGN_COMMIT, full=not is_without_base)


def test_batches_whose_snapshots_have_expired_are_known_by_the_batch_log(world: World) -> None:
    for _ in range(3):
        world.batch()
        world.record()
    world.expire()
    world.run()
    world.batch()
    world.record()
    world.batch()
    world.expire()
    world.memory.got.clear()
    assert world.run()["files"] == 2
    # Read for the new files alone, whatever the history is.
    assert sum(FOLDER in key for key in world.memory.got) == 1
    assert world.run(full=True)["files"] == 7


def test_an_unrecorded_batch_is_foreign_once_it_has_expired(world: World) -> None:
    world.run()
    world.batch()
    world.batch()
    world.expire()
    world.finds(FindingName.FOREIGN_COMMIT)


@pytest.mark.parametrize("is_verified", [True, False])
def test_a_rewrite_whose_snapshots_have_expired_is_known_by_its_verified_document(
    world: World, is_verified: bool
) -> None:
    world.name_rewrite("before")
    world.run()
    world.compact([0, 1, 2, 3, 4, 6, 7])
    world.name_rewrite("r")
    if is_verified:
        document = {"table": lakes.TABLE, "run_id": "m", "snapshot_ids": [world.snapshot_id()]}
        VerifiedRewrites(world.history).confirm("r", document)
    world.batch()
    world.expire()
    if not is_verified:
        assert "rewrite" in world.finds(FindingName.FOREIGN_COMMIT)
        return
    assert world.run()["files"] == 4
    # One that was published before the state that was verified is not asked for.
    assert rewrite_key("before") not in " ".join(world.memory.got)


def move_main_behind_a_verified_compaction(world: World) -> None:
    """To a snapshot with the same offsets."""
    second = world.lake.table(lakes.TABLE).current_snapshot()
    assert second is not None
    world.compact([0, 1, 2, 3, 4, 6, 7])
    world.run()
    table = world.lake.catalog.load_table(lakes.TABLE)
    table.manage_snapshots().set_current_snapshot(second.snapshot_id).commit()


def test_a_full_run_finds_that_main_was_moved(world: World) -> None:
    move_main_behind_a_verified_compaction(world)
    world.finds(FindingName.MAIN_MOVED, full=True)


def test_a_run_that_found_once_what_is_wrong_fails_again_if_it_is_cleared(world: World) -> None:
    world.run()
    world.rewrite([0, 1, 2, 3, 4, 6, 7], {})
    first = world.finds(FindingName.FOREIGN_COMMIT, run_id="r")
    assert world.finds(FindingName.FOREIGN_COMMIT, run_id="r") == first
    # The next run starts from what is there, and the cleared one is red whatever it verified.
    world.run()
    world.batch()
    assert world.finds(FindingName.FOREIGN_COMMIT, run_id="r") == first
    world.run()


def test_a_cleared_run_keeps_what_it_finds_beside_its_first_findings(world: World) -> None:
    world.run()
    world.rewrite([0, 1, 2, 3, 4, 6, 7], {})
    first = world.snapshot_id()
    world.finds(FindingName.FOREIGN_COMMIT, run_id="r")
    world.rewrite([0, 1, 2, 3, 4, 6, 7], {})
    second = world.snapshot_id()
    for _ in range(3):
        text = world.finds(FindingName.FOREIGN_COMMIT, run_id="r")
        assert f"snapshot {first}" in text
        assert f"snapshot {second}" in text
    world.run()


def test_a_state_from_the_future_is_refused_by_name(world: World) -> None:
    """It would stay the newest until then, whatever later runs verify."""
    world.run()
    at = datetime.now(UTC) + timedelta(hours=5)
    key = world.history.record_run(VERIFIED_TABLE, world.history.latest(VERIFIED_TABLE) or {}, at)
    with pytest.raises(AirflowFailException) as caught:
        world.run()
    assert all(text in str(caught.value) for text in ("SLU-510", key, f"at {at:%Y-%m-%dT%H:%M}", "Fix: "))
    world.memory.objects = {place: one for place, one in world.memory.objects.items() if key not in place[1]}
    world.run()


def test_a_restored_table_is_found_until_it_ends_there_again(world: World) -> None:
    first = list(ancestors(world.lake.table(lakes.TABLE)))[-1].snapshot_id
    world.run(ObserveOffsetsOperator)
    world.lake.catalog.load_table(lakes.TABLE).manage_snapshots().set_current_snapshot(first).commit()
    world.end -= BATCH
    for run in ("r", "r", "later"):
        world.finds(FindingName.TABLE_RESTORED, kind=ObserveOffsetsOperator, run_id=run)
    world.batch()
    world.run(ObserveOffsetsOperator)


def test_main_moved_back_by_hand_is_found_once(world: World) -> None:
    first = list(ancestors(world.lake.table(lakes.TABLE)))[-1].snapshot_id
    world.batch()
    world.run()
    table = world.lake.catalog.load_table(lakes.TABLE)
    table.manage_snapshots().set_current_snapshot(first).commit()
    text = world.finds(FindingName.TABLE_RESTORED)
    assert "verified it to {0: 12}" in text
    world.run()


def test_main_on_another_line_of_as_many_offsets_is_found(world: World) -> None:
    move_main_behind_a_verified_compaction(world)
    world.finds(FindingName.MAIN_MOVED)
    world.run()


def test_a_table_that_went_back_is_found_by_its_offsets(world: World) -> None:
    world.run(ObserveOffsetsOperator)
    world.kafka.ends = lambda topic: {0: 7}
    world.finds(FindingName.TOPIC_BEHIND_TABLE, kind=ObserveOffsetsOperator)


def test_a_table_that_ends_before_a_verified_load_did_is_found(world: World) -> None:
    """The newest of two loads counts."""
    for minutes, run, end in ((2, "r1", 10 * BATCH), (1, "r2", world.end)):
        at = datetime.now(UTC) - timedelta(minutes=minutes)
        world.history.put(history_key(PROOF, at, "load"), {"run_id": run, "ends": {"0": end}})
    world.run(ObserveOffsetsOperator)
    document = {"run_id": "r3", "ends": {"0": world.end + 1}}
    world.history.put(history_key(PROOF, datetime.now(UTC), "load"), document)
    text = world.finds(FindingName.TABLE_BEHIND_PROOF, kind=ObserveOffsetsOperator)
    assert f"load r3 was verified to {world.end + 1}, the table ends at {world.end}" in text


def verified(world: World) -> None:
    """As task validate records it."""
    at = datetime.now(UTC)
    about = {"table": lakes.TABLE, "table_uuid": world.lake.table_uuid(lakes.TABLE)}
    world.history.put(
        history_key(PROOF, at, "load"),
        {"run_id": "r", "ends": {"0": world.end}, "at": at.isoformat(), **about},
    )


def recorded(world: World) -> None:
    """As task record_metadata does."""
    found = {name: world.lake.found(name) for name in (lakes.TABLE, lakes.QUARANTINE)}
    locations = {name: one.location for name, one in found.items() if one}
    uuids = {name: one.uuid for name, one in found.items() if one}
    world.history.record_metadata(locations, datetime.now(UTC), "r", uuids)


def supervised(world: World) -> None:
    KnownTables(world.lake, world.history).note(lakes.TABLE, lakes.QUARANTINE)


KNOWLEDGE = {
    "proof": verified,
    "verified state": lambda world: world.run(),
    "metadata": recorded,
    "table": supervised,
}


def dropped(world: World) -> None:
    world.lake.catalog.drop_table(lakes.TABLE)


def replaced(world: World) -> None:
    """By another program, with rows of its own at the same offsets."""
    dropped(world)
    world.lake.catalog.create_table(lakes.TABLE, lakes.ROWS)
    said = lakes.summary("batch", 1, {0: world.end}, {0: 0}, {0: (0, world.end)})
    lakes.append(world.lake, [(0, offset) for offset in range(world.end)], said)


def emptied(world: World) -> None:
    """The catalog as it was before the first commit."""
    first = min(world.folder.glob("warehouse/raw*/nyc_taxi/metadata/00000-*.json"))
    lakes.restore_catalog(world.lake, {lakes.TABLE: first.as_uri()})


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_a_table_that_is_gone_is_no_new_one(world: World, knowledge: str, kind: Any) -> None:
    KNOWLEDGE[knowledge](world)
    dropped(world)
    text = world.finds(FindingName.TABLE_LOST, kind=kind)
    assert lakes.TABLE in text
    assert "Table lost by the catalog" in text


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_a_table_that_another_program_replaced_is_found_by_each_run(
    world: World, knowledge: str, kind: Any
) -> None:
    KNOWLEDGE[knowledge](world)
    before = world.lake.table_uuid(lakes.TABLE)
    replaced(world)
    for _ in range(2):
        text = world.finds(FindingName.TABLE_REPLACED, kind=kind)
        assert before in text
        assert world.lake.table_uuid(lakes.TABLE) in text


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_a_catalog_from_before_the_first_load_is_no_new_stream(
    world: World, knowledge: str, kind: Any
) -> None:
    KNOWLEDGE[knowledge](world)
    emptied(world)
    world.finds(FindingName.TABLE_LOST, kind=kind)


@pytest.mark.parametrize("kind", [VerifyTableOperator, CheckFilesOperator])
def test_a_quarantine_that_is_gone_did_not_lose_nothing(world: World, kind: Any) -> None:
    supervised(world)
    world.lake.catalog.drop_table(lakes.QUARANTINE)
    assert lakes.QUARANTINE in world.finds(FindingName.TABLE_LOST, kind=kind)


def test_a_table_that_is_registered_again_passes(world: World) -> None:
    world.run()
    location = world.lake.location(lakes.TABLE)
    assert location is not None
    dropped(world)
    world.finds(FindingName.TABLE_LOST)
    # As in docs/operating.md.
    world.lake.catalog.register_table(lakes.TABLE, location)
    assert [world.run(kind) for kind in STEPS]


@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_a_stream_that_a_person_gives_a_new_table_name_begins_again(
    world: World, knowledge: str, tmp_path: Path
) -> None:
    """Also while the old table is gone: its documents name it."""
    KNOWLEDGE[knowledge](world)
    for kind in STEPS:
        world.run(kind)
    world.names = {"table": "raw.other", "quarantine_table": "raw.other_quarantine"}
    for kind in STEPS:
        assert "nothing was loaded yet" in str(world.run(kind))
    world.lake.catalog.create_table("raw.other", lakes.ROWS)
    rows = pa.Table.from_pylist([], schema=lakes.ROWS)
    said = lakes.summary("epoch-start", 1, {0: 0}, {0: 0})
    world.lake.catalog.load_table("raw.other").append(rows, snapshot_properties=said)
    world.end = 0
    for kind in STEPS:
        world.run(kind)


def test_a_ledger_that_was_emptied_is_found_once_and_all_of_the_table_is_verified(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's database was, too. A table tells when it was created: one that has just begun is not in the
    ledger yet."""

    def empty() -> None:
        world.memory.objects.clear()
        monkeypatch.setattr(platform_hook, "Variable", Variables())

    created = {CREATED_AT: str(round(world.now * 1000))}
    with world.lake.catalog.load_table(lakes.TABLE).transaction() as transaction:
        transaction.set_properties(created)
    world.run()
    empty()
    world.run()
    empty()
    world.now += 2 * 3600
    assert "Ledger lost" in world.finds(FindingName.LEDGER_LOST, run_id="red")
    world.finds(FindingName.LEDGER_LOST, run_id="red")
    for kind in STEPS:
        world.run(kind)


def test_a_ledger_that_was_restored_is_found_once_and_all_of_the_table_is_verified(world: World) -> None:
    world.run()
    yesterday = dict(world.memory.objects)
    world.batch()
    world.run()
    assert world.run(run_id="today")["files"] == 0
    world.memory.objects = dict(yesterday)
    text = world.finds(FindingName.LEDGER_LOST, run_id="red")
    assert "history/reconciled_table/" in text
    assert "restored" in text
    # A run that is cleared stays red; the next one begins at what was verified.
    world.finds(FindingName.LEDGER_LOST, run_id="red")
    assert world.run()["files"] == 0


def test_a_ledger_without_todays_proofs_is_found_once(world: World) -> None:
    world.run()
    yesterday = dict(world.memory.objects)
    key = history_key(PROOF, datetime.now(UTC), "load")
    world.history.put(key, {"run_id": "r", "ends": {"0": world.end}})
    LedgerMarks(world.history, platform_hook.Variable).leave(PROOF, key)
    world.run()
    newest = {place: body for place, body in world.memory.objects.items() if place[1].endswith("-run.json")}
    world.memory.objects = yesterday | newest
    assert key in world.finds(FindingName.LEDGER_LOST)
    world.run()


def test_a_catalog_and_a_ledger_from_before_the_first_load_are_no_new_stream(world: World) -> None:
    world.run()
    world.memory.objects.clear()
    emptied(world)
    assert "Ledger lost" in world.finds(FindingName.LEDGER_LOST, run_id="red")
    world.finds(FindingName.LEDGER_LOST, run_id="red")
    assert "nothing was loaded yet" in str(world.run())
