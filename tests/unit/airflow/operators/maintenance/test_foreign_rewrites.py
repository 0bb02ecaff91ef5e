"""Rewrites of another program, as a managed catalog's compaction: followed if they hold the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary

from sluice.airflow.operators.maintenance.reconciliation import (
    CheckFilesOperator,
    ReconciliationOperator,
    VerifyTableOperator,
)
from sluice.clients.lake.commits import ancestors
from sluice.clients.lake.reading.files import OFFSET
from sluice.clients.lake.snapshots import exchanged_offsets
from sluice.core.findings import FindingName
from sluice.core.offsets.counts import Counts
from sluice.core.tables.rewrites import id_of_foreign
from sluice.ledger.keys import rewrite_key
from tests.support import foreign
from tests.support import lake as lakes
from tests.support.reconciliation import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three batches of four records, the second with a rejected one, all verified; the catalog maintains the
    tables."""
    made = World(tmp_path)
    made.is_managed = True
    made.batch()
    made.batch(reject=1)
    made.batch()
    made.record()
    made.run()
    return made


def rewrite(world: World, change: Callable[[pa.Table], pa.Table] = lambda rows: rows, **how: Any) -> int:
    table = world.lake.catalog.load_table(lakes.TABLE)
    return foreign.rewrite(table, change(table.scan(how.get("where", "true")).to_arrow()), **how)


def test_a_rewrite_with_the_same_offsets_is_followed(world: World) -> None:
    number = rewrite(world)
    result = world.run()
    (note,) = result["notes"]
    assert f"snapshot {number} (replace) of raw.nyc_taxi" in note
    assert "3 files into 1" in note
    assert "verified to hold the same 11 offsets, each once; other values were not compared" in note
    assert world.history.get(rewrite_key(id_of_foreign(number)))
    assert "notes" not in world.run()


def test_of_a_rewrite_only_the_files_that_it_exchanged_are_read_and_the_stream_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[str]()
    count = exchanged_offsets.count_offsets

    def noted(table: Table, files: Iterable[DataFile]) -> Counts[int]:
        named = list(files)
        read.extend(one.file_path for one in named)
        return count(table, named)

    monkeypatch.setattr(exchanged_offsets, "count_offsets", noted)
    rewrite(world, where=f"{OFFSET} >= 8")
    rewrite(world, where=f"{OFFSET} >= 8")
    world.batch()
    result = world.run()
    assert len(result["notes"]) == 2
    assert len(read) == 4
    # The two that were exchanged, and the batch's.
    assert result["files"] == 3


def without_fares(rows: pa.Table) -> pa.Table:
    fare = rows.schema.get_field_index("fare_amount")
    return rows.set_column(fare, rows.schema.field(fare), [pa.nulls(rows.num_rows, pa.float64())])


def test_without_the_declaration_a_rewrite_with_the_same_offsets_is_a_finding_once(world: World) -> None:
    world.is_managed = False
    number = rewrite(world, without_fares)
    text = world.finds(FindingName.FOREIGN_COMMIT)
    assert f"snapshot {number} (replace)" in text
    assert "with the same offsets; its other values are not compared" in text
    assert '[lake] maintenance = "catalog"' in text
    assert world.history.get(rewrite_key(id_of_foreign(number))) is None
    assert "notes" not in world.run()


def leave_out(world: World, name: str, manifest: int) -> int:
    """A replace whose manifest list leaves one out, with the summary of its parent's rows; it lists no file
    as removed."""
    table = world.lake.catalog.load_table(name)
    with table.transaction() as change, change.update_snapshot({}).fast_append() as update:
        summary, manifests = update._summary, update._existing_manifests

        def said(given: dict[str, str]) -> Summary:
            return Summary(Operation.REPLACE, **summary(dict(given)).additional_properties)

        def fewer() -> list[ManifestFile]:
            return [one for number, one in enumerate(manifests()) if number != manifest]

        update._summary = said  # type: ignore[method-assign, assignment]
        update._existing_manifests = fewer  # type: ignore[method-assign]
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


@pytest.mark.parametrize("name", [lakes.TABLE, lakes.QUARANTINE])
def test_a_rewrite_that_leaves_a_manifest_out_removes_its_files(world: World, name: str) -> None:
    reject_at_producer(world)
    world.run()
    number = leave_out(world, name, 0)
    with pytest.raises(Exception, match="foreign-commit") as failure:
        world.run()
    assert f"snapshot {number} (replace) of {name} is a rewrite of another program with other rows" in str(
        failure.value
    )
    assert world.history.get(rewrite_key(id_of_foreign(number))) is None


def reject_at_producer(world: World, rows: int = 3) -> None:
    row = dict.fromkeys(lakes.BAD_ROWS.names) | {"stage": "producer", "reason": "bad", "_source_id": "s"}
    lakes.quarantine(world.lake, [{**row, "_source_row": number} for number in range(rows)])


@pytest.mark.parametrize("is_managed", [True, False])
def test_rows_that_producers_rejected_and_another_program_deletes_are_a_finding(
    world: World, is_managed: bool
) -> None:
    world.is_managed = is_managed
    reject_at_producer(world)
    assert "notes" not in world.run()
    world.lake.catalog.load_table(lakes.QUARANTINE).delete("stage = 'producer'")
    text = world.finds(FindingName.FOREIGN_COMMIT)
    assert "of raw.nyc_taxi_quarantine is neither the stream's nor maintenance's" in text


def test_of_a_quarantine_that_was_empty_all_commits_are_looked_at(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.batch()
    world.run()
    reject_at_producer(world)
    world.lake.catalog.load_table(lakes.QUARANTINE).delete("stage = 'producer'")
    world.batch(reject=1)
    assert "is neither the stream's" in world.finds(FindingName.FOREIGN_COMMIT)


def test_it_is_said_that_rows_of_producers_cannot_be_compared_behind_expired_commits(world: World) -> None:
    reject_at_producer(world)
    world.run()
    table = world.lake.catalog.load_table(lakes.QUARANTINE)
    rows = table.scan().to_arrow()
    foreign.rewrite(table, rows.filter(pa.compute.equal(rows["stage"], "consumer")))
    world.batch(reject=2)
    world.record()
    table = world.lake.catalog.load_table(lakes.QUARANTINE)
    older = [snapshot.snapshot_id for snapshot in ancestors(table)][1:]
    table.maintenance.expire_snapshots().by_ids(older).commit()
    (note,) = world.run()["notes"]
    assert "raw.nyc_taxi_quarantine: commits since the last run have expired" in note
    assert "rows that producers rejected cannot be compared" in note
    assert "notes" not in world.run()


@pytest.mark.parametrize("name", [lakes.TABLE, lakes.QUARANTINE])
def test_a_rewrite_whose_parent_has_expired_is_not_taken_for_verified(world: World, name: str) -> None:
    reject_at_producer(world)
    world.run()
    table = world.lake.catalog.load_table(name)
    parent, number = next(ancestors(table)).snapshot_id, foreign.rewrite(table)
    world.batch(reject=2)
    world.lake.catalog.load_table(name).maintenance.expire_snapshots().by_id(parent).commit()
    note, *others = world.run()["notes"]
    assert f"snapshot {number}" in note
    assert "the snapshot before it has expired: its rows cannot be compared" in note
    assert ("rows that producers rejected are not" in note) is (name == lakes.QUARANTINE)
    assert len(others) == (name == lakes.QUARANTINE)
    assert world.history.get(rewrite_key(id_of_foreign(number))) is None


def without(offset: int) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: rows.filter(pa.compute.not_equal(rows[OFFSET], offset))


def twice(offset: int) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: pa.concat_tables([rows, rows.filter(pa.compute.equal(rows[OFFSET], offset))])


def moved(offset: int, to: int) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        values = [to if value == offset else value for value in rows[OFFSET].to_pylist()]
        return rows.set_column(
            rows.schema.get_field_index(OFFSET), rows.schema.field(OFFSET), [pa.array(values, pa.int64())]
        )

    return change


@pytest.mark.parametrize(
    ("change", "words", "name"),
    [
        (without(9), ["lost 1 offsets: 0=[9,10), of "], FindingName.OFFSETS_MISSING),
        (twice(9), ["repeats 1 offsets: 0=[9,10), of "], FindingName.OFFSETS_DUPLICATED),
        # As many rows as before, between the same bounds.
        (moved(9, 10), ["lost 1 offsets: 0=[9,10)", "repeats 1 offsets: 0=[10,11)"], None),
        (moved(9, 70), ["lost 1 offsets: 0=[9,10)", "added 1 offsets: 0=[70,71)"], None),
    ],
)
def test_a_rewrite_with_other_offsets_is_named_with_its_file_until_the_rows_are_back(
    world: World, change: Callable[[pa.Table], pa.Table], words: list[str], name: FindingName | None
) -> None:
    file = world.data_files()[2].name
    number = rewrite(world, change, where=f"{OFFSET} >= 8")
    with pytest.raises(Exception, match="foreign-commit") as failure:
        world.run()
    text = str(failure.value)
    assert f"snapshot {number} (replace) of raw.nyc_taxi is a rewrite of another program" in text
    assert all(word in text for word in words), text
    assert ".parquet" in text
    assert file in text or "lost" not in words[0]
    if name:
        assert f"{name}: " in text
    # Red for as long as the rows are not as published, and never taken for verified.
    with pytest.raises(Exception, match="offsets-"):
        world.run()
    assert world.history.get(rewrite_key(id_of_foreign(number))) is None


@pytest.mark.parametrize("operation", ["append", "overwrite", "delete"])
def test_what_is_no_rewrite_stays_refused(world: World, operation: str) -> None:
    world.is_managed = True
    table = world.lake.catalog.load_table(lakes.TABLE)
    match operation:
        case "append":
            table.append(pa.Table.from_pylist([], schema=lakes.ROWS))
        case "overwrite":
            table.overwrite(table.scan().to_arrow())
        case "delete":
            table.delete(f"{OFFSET} = 9")
    with pytest.raises(Exception, match="neither the stream's nor maintenance's"):
        world.run()


def test_a_rewrite_that_was_verified_is_known_after_it_has_expired(world: World) -> None:
    number = rewrite(world)
    world.run()
    verified = world.manifest_list()
    world.batch()
    world.record()
    world.expire()
    # Nothing that was verified can be the base any more.
    verified.unlink()
    assert "notes" not in world.run(full=True)
    assert rewrite_key(id_of_foreign(number)) in " ".join(key for _, key in world.memory.objects)


@pytest.mark.parametrize("is_managed", [True, False])
def test_a_rewrite_that_expired_before_anybody_looked_is_said_and_the_contents_verified_once(
    world: World, is_managed: bool
) -> None:
    world.is_managed = is_managed
    number = rewrite(world)
    world.batch()
    world.record()
    world.expire()
    if not is_managed:
        assert f"snapshot {number}" in world.finds(FindingName.FOREIGN_COMMIT)
        return
    (note,) = world.run()["notes"]
    assert f"snapshot {number}" in note
    assert "the offsets that the table holds now are verified instead" in note
    assert "it may have been no rewrite: replay what you doubt" in note
    assert "notes" not in world.run()


def test_rows_that_a_rewrite_lost_are_found_after_it_has_expired(world: World) -> None:
    world.is_managed = True
    rewrite(world, without(9))
    world.batch()
    world.record()
    world.expire()
    assert "0=[9,10)" in world.finds(FindingName.OFFSETS_MISSING)


def test_files_that_the_catalog_has_deleted_do_not_stop_the_verification(world: World) -> None:
    """The removed files are gone, and with them what the incremental verification would read: the table is
    verified as a whole."""
    world.is_managed = True
    before = world.data_files()
    # A file of several partitions' or with gaps is not conclusive.
    rewrite(world)
    world.run()
    rewrite(world, where="true")
    for path in (*before, world.data_files()[-2]):
        path.unlink()
    (note,) = world.run()["notes"]
    assert "files that it removed are gone" in note


def test_a_rewrite_of_the_quarantine_is_compared_by_all_columns(world: World) -> None:
    table = world.lake.catalog.load_table(lakes.QUARANTINE)
    number = foreign.rewrite(table)
    (note,) = world.run()["notes"]
    assert f"snapshot {number} (replace) of raw.nyc_taxi_quarantine" in note
    assert "verified to hold the same 1 rows but for bytes" in note
    world.batch(reject=2)
    world.run()
    other = table.refresh().scan().to_arrow()
    reason = other.schema.get_field_index("reason")
    changed = other.set_column(reason, other.schema.field(reason), [pa.array(["other"] * other.num_rows)])
    foreign.rewrite(table, changed)
    assert "differ from those" in world.finds(FindingName.FOREIGN_COMMIT)


@pytest.mark.parametrize("kind", [VerifyTableOperator, CheckFilesOperator])
def test_manifests_of_what_was_verified_that_are_deleted_make_the_whole_table_verified(
    world: World, kind: type[ReconciliationOperator]
) -> None:
    """A catalog that expires snapshots deletes manifests and their list one after another."""
    world.run(kind)
    older = world.manifests()
    rewrite(world)
    world.batch()
    world.record()
    world.expire()
    for path in older:
        path.unlink()
    world.is_managed = True
    world.run(kind)


def test_of_a_bucket_that_is_not_listed_the_files_that_the_table_names_are_checked(world: World) -> None:
    world.bucket_lists = False
    result = world.run(CheckFilesOperator)
    assert result["checked"][lakes.TABLE] == 3
    assert "not listed by declaration" in result["notes"][0]
    world.data_files()[0].unlink()
    world.finds(FindingName.FILE_DAMAGED, kind=CheckFilesOperator, full=True)
