"""What a catalog that was restored, or another program, changed without a trace in the numbers of offsets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import DataFile

from sluice.clients.lake.commits import ancestors
from sluice.clients.lake.reading import files
from sluice.core.findings import FindingName
from sluice.core.tables.batches import time_of
from sluice.core.tables.storage import REWRITE_ID
from sluice.ledger.batch_log import Restore, restored_key
from sluice.ledger.keys import VERIFIED_TABLE
from tests.support import foreign
from tests.support import lake as lakes
from tests.support.reconciliation import World

OWN = {"sluice.kind": "producer"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two batches of four records, the second with a rejected one."""
    made = World(tmp_path)
    made.batch()
    made.batch(reject=1)
    return made


def files_of(world: World, name: str = lakes.TABLE) -> list[DataFile]:
    return [task.file for task in files.committed_since(world.lake.table(name), 0)]


@pytest.mark.parametrize("name", [lakes.TABLE, lakes.QUARANTINE])
@pytest.mark.parametrize("is_full", [False, True])
def test_a_file_that_two_manifests_list_is_there_twice(world: World, name: str, is_full: bool) -> None:
    (file, *_) = files_of(world, name)
    said = lakes.summary("batch", 1, {0: 8}, {0: 0}, {0: (0, 8)}) if name == lakes.TABLE else OWN
    if not is_full:
        world.run()
    foreign.list_again(world.lake.catalog.load_table(name), [file], said)
    text = world.finds(FindingName.OFFSETS_DUPLICATED, full=is_full)
    if is_full:
        assert f"{name} lists 1 data files more than once" in text
        assert file.file_path in text
    world.finds(FindingName.OFFSETS_DUPLICATED)


def test_a_file_that_one_commit_lists_twice_is_there_twice(world: World) -> None:
    world.run()
    (file, *_) = files_of(world)
    said = lakes.summary("batch", 1, {0: 8}, {0: 0}, {0: (0, 8)})
    foreign.list_again(world.lake.catalog.load_table(lakes.TABLE), [file, file], said)
    assert file.file_path in world.finds(FindingName.OFFSETS_DUPLICATED)


def test_a_rewrite_that_lists_its_file_twice_has_not_the_same_rows(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.is_managed = True
    world.run()
    table = world.lake.catalog.load_table(lakes.TABLE)
    foreign.rewrite(table, is_listed_twice=True)
    world.finds(FindingName.FOREIGN_COMMIT, FindingName.OFFSETS_DUPLICATED)
    assert "repeats 7 offsets: 0=[0,5),[6,8)" in caplog.text


@pytest.mark.parametrize("name", [lakes.TABLE, lakes.QUARANTINE])
@pytest.mark.parametrize("is_full", [False, True])
def test_deleted_rows_are_found_in_both_tables(world: World, name: str, is_full: bool) -> None:
    world.run()
    (file, *_) = files_of(world, name)
    foreign.delete_rows(world.lake.catalog.load_table(name), file.file_path, [0], {REWRITE_ID: "r"})
    text = world.finds(FindingName.FOREIGN_COMMIT, full=is_full)
    assert f"{name} has files of deleted rows" in text


def without_starts(world: World) -> None:
    """As an earlier version recorded the state."""
    for key in list(world.memory.objects):
        if VERIFIED_TABLE in key[1]:
            found = world.history.latest(VERIFIED_TABLE) or {}
            del found["starts"]
            world.history.record_run(VERIFIED_TABLE, found, datetime.now(UTC) + timedelta(seconds=1))
            return


@pytest.mark.parametrize("before", [lambda world: None, without_starts])
def test_a_first_offset_that_went_up_is_found(world: World, before: Callable[[World], None]) -> None:
    """With the rows before it gone, nothing else is missing."""
    world.run()
    before(world)
    world.compact([4, 6, 7])
    said = lakes.summary("batch", 1, {0: 8}, {0: 4}, {0: (0, 8)})
    lakes.append(world.lake, [], said)
    assert "verified 4 offsets before that: 0=[0,4)" in world.finds(FindingName.RANGE_WRONG)


class Restored:
    """A catalog that was restored to before the batch that a run verified, and has gone on to the same
    offsets, with the same sequence numbers."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.record()
        self.backup = {lakes.TABLE: world.lake.location(lakes.TABLE) or ""}
        self.kept = time_of(self.newest)
        world.batch()
        world.record()
        world.run()
        world.end -= 4
        lakes.restore_catalog(world.lake, self.backup)

    @property
    def newest(self) -> int:
        return next(ancestors(self.world.lake.table(lakes.TABLE))).timestamp_ms

    def goes_on(self) -> None:
        self.world.batch()
        self.world.batch()

    def is_noted(self) -> None:
        """As the writer that finds it does."""
        restore = Restore(datetime.now(UTC), self.kept)
        log = self.world.batch_log(lakes.TABLE)
        log.documents.put(restored_key(restore, "w"), {"writer": "w", "at": restore.at.isoformat()})


def reject(world: World, *rows: int) -> None:
    """As producers do: without offsets."""
    row = {**dict.fromkeys(lakes.BAD_ROWS.names), "stage": "producer", "reason": "r", "_source_id": "a" * 16}
    lakes.quarantine(world.lake, [{**row, "_source_row": number} for number in rows], OWN)


def without_snapshot(world: World) -> None:
    """As an earlier version recorded the state."""
    found = world.history.latest(VERIFIED_TABLE) or {}
    for name in ("quarantine_snapshot_id", "quarantine_sequence_number"):
        del found[name]
    world.history.record_run(VERIFIED_TABLE, found, datetime.now(UTC))


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_quarantine_that_was_put_back_is_found_without_an_offset_less(
    world: World, is_full: bool, goes_on: bool
) -> None:
    backup = {lakes.QUARANTINE: world.lake.location(lakes.QUARANTINE) or ""}
    reject(world, 8, 9, 10)
    world.run()
    newest = world.lake.heads(lakes.QUARANTINE)[lakes.QUARANTINE].snapshot_id
    lakes.restore_catalog(world.lake, backup)
    if goes_on:
        reject(world, 11)
    text = world.finds(FindingName.TABLE_RESTORED, full=is_full)
    assert f"snapshot {newest} of {lakes.QUARANTINE}, which the last run verified, is no ancestor" in text
    assert "have expired" not in text
    assert "notes" not in world.run()


def test_the_main_of_a_quarantine_that_was_moved_is_found(world: World) -> None:
    before = world.lake.heads(lakes.QUARANTINE)[lakes.QUARANTINE].snapshot_id
    reject(world, 8)
    world.run()
    table = world.lake.catalog.load_table(lakes.QUARANTINE)
    table.manage_snapshots().rollback_to_snapshot(before).commit()
    assert lakes.QUARANTINE in world.finds(FindingName.MAIN_MOVED)


def test_the_state_of_an_earlier_version_has_no_snapshot_of_the_quarantine(world: World) -> None:
    backup = {lakes.QUARANTINE: world.lake.location(lakes.QUARANTINE) or ""}
    reject(world, 8)
    world.run()
    without_snapshot(world)
    reject(world, 9)
    assert "notes" not in world.run(), "the next one knows it"
    lakes.restore_catalog(world.lake, backup)
    world.finds(FindingName.TABLE_RESTORED)


def test_a_restored_catalog_that_has_caught_up_is_found_by_the_history_that_it_keeps(world: World) -> None:
    made = Restored(world)
    made.goes_on()
    assert "no ancestor of main, which was restored" in world.finds(FindingName.TABLE_RESTORED)
    world.run()


def test_it_is_found_by_what_its_writer_noted_if_its_history_has_expired(world: World) -> None:
    made = Restored(world)
    made.is_noted()
    made.goes_on()
    world.record()
    world.expire()
    world.finds(FindingName.TABLE_RESTORED)
    world.batch()
    world.record()
    world.expire()
    world.run()


def test_what_another_program_added_by_numbers_that_were_given_out_again_is_found(world: World) -> None:
    made = Restored(world)
    world.rewrite([0, 1, 2, 3, 4, 6, 7], {}, fare=9.0)
    number = world.snapshot_id()
    made.goes_on()
    world.record()
    world.expire()
    made.is_noted()
    text = world.finds(FindingName.TABLE_RESTORED, FindingName.FOREIGN_COMMIT)
    assert f"snapshot {number}" in text


def test_a_busy_stream_whose_verified_snapshot_has_expired_is_as_it_was(world: World) -> None:
    """Also one that a rewrite keeps, while the history behind it is gone."""
    world.record()
    world.run()
    table = world.lake.catalog.load_table(lakes.TABLE)
    verified = world.snapshot_id()
    table.manage_snapshots().create_tag(verified, "kept").commit()
    for _ in range(3):
        world.batch()
        world.record()
    between = [one.snapshot_id for one in ancestors(world.lake.table(lakes.TABLE))][1:3]
    world.lake.catalog.load_table(lakes.TABLE).maintenance.expire_snapshots().by_ids(between).commit()
    assert "20 offsets, each once" in world.run()["result"]


@pytest.mark.parametrize(
    ("row", "column"),
    [((0, None), "_kafka_offset"), ((None, 9), "_kafka_partition")],
    ids=["offset", "partition"],
)
@pytest.mark.parametrize("is_full", [False, True])
def test_rows_without_a_place_are_found_with_their_file(
    world: World, row: tuple[Any, Any], column: str, is_full: bool
) -> None:
    """The second file has as many rows as offsets between its bounds."""
    world.run()
    said = lakes.summary("batch", 1, {0: 11}, {0: 0}, {0: (8, 11)})
    lakes.append(world.lake, [(0, 8), row, (0, 10)], said)
    text = world.finds(FindingName.OFFSETS_UNEXPECTED, full=is_full)
    assert f"1 rows have no {column}: 1 in {world.data_files()[-1].as_uri()}" in text
    assert "Fix: end the program" in text


def test_rejected_rows_without_an_offset_are_found_with_their_file(world: World) -> None:
    row = {**dict.fromkeys(lakes.BAD_ROWS.names), "reason": "r"}
    # A producer's has none.
    lakes.quarantine(world.lake, [{**row, "stage": "consumer"}, {**row, "stage": "producer"}])
    assert "1 rows have no _kafka_partition: 1 in" in world.finds(FindingName.OFFSETS_UNEXPECTED)
