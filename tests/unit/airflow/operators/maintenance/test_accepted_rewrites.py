"""A verified rewrite is accepted by the digest of its files' names; every other file is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from sluice.clients.lake.commits import ancestors
from sluice.clients.lake.reading.files import OFFSET
from sluice.clients.lake.snapshots import rewrites, table_diff
from sluice.core.findings import FindingName
from sluice.core.json_record import Document
from sluice.core.tables.rewrites import id_of_foreign, said_digest, verified_document
from sluice.ledger.keys import rewrite_key
from sluice.ledger.verified_rewrites import VerifiedRewrites
from sluice.maintenance.reconciliation import portions
from tests.support import foreign
from tests.support import lake as lakes
from tests.support.reconciliation import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two batches of four records, verified; the catalog maintains the tables."""
    made = World(tmp_path)
    made.is_managed = True
    made.batch()
    made.batch()
    made.record()
    made.run()
    return made


def rewrite(
    world: World, change: Callable[[pa.Table], pa.Table] = lambda rows: rows, where: str = "true"
) -> int:
    table = world.lake.catalog.load_table(lakes.TABLE)
    return foreign.rewrite(table, change(table.scan(where).to_arrow()), where=where)


def confirm(world: World, number: int, alter: Callable[[Document], Any] = lambda document: None) -> None:
    """As a rewrite's verification does."""
    table = world.lake.catalog.load_table(lakes.TABLE)
    snapshot = table.snapshot_by_id(number)
    assert snapshot is not None
    names = rewrites.compared(table, snapshot, rewrites.OFFSETS).names
    document = verified_document(lakes.TABLE, "c", {number: names}, "now")
    alter(document)
    VerifiedRewrites(world.history).confirm(id_of_foreign(number), document)


def test_the_files_of_a_verified_rewrite_are_not_read_again(world: World) -> None:
    confirm(world, rewrite(world))
    found = world.run()
    assert (found["files"], found["read"]) == (3, 0)
    assert "8 offsets, each once" in found["result"]
    # All of the table is read if that is asked for.
    assert world.run(full=True)["read"] == 1


def test_the_ledger_is_asked_about_rewrites_and_not_about_batches(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = rewrite(world)
    for reject in (None, 1, 2):
        world.batch(reject=reject)
    asked = list[str]()
    document = VerifiedRewrites.document

    def recorded(self: VerifiedRewrites, rewrite: str) -> Document | None:
        asked.append(rewrite)
        return document(self, rewrite)

    monkeypatch.setattr(VerifiedRewrites, "document", recorded)
    world.run()
    assert set(asked) == {id_of_foreign(number)}


def test_a_rewrite_that_this_run_has_compared_is_not_read_once_more(world: World) -> None:
    number = rewrite(world)
    assert world.run()["read"] == 0
    assert said_digest(world.history.get(rewrite_key(id_of_foreign(number))), number)


@pytest.mark.parametrize(
    "alter",
    [
        lambda document: document.pop("files"),
        lambda document: document["files"].update(dict.fromkeys(document["files"], "0" * 64)),
        lambda document: document["files"].clear(),
    ],
    ids=["of a version without digests", "of other files", "of no snapshot"],
)
def test_a_document_without_the_digest_of_these_files_accepts_none(
    world: World, alter: Callable[[Document], Any]
) -> None:
    confirm(world, rewrite(world), alter)
    assert world.run()["read"] == 1


def test_files_that_came_and_went_between_two_runs_are_not_accepted(world: World) -> None:
    """The rewrite removed a batch's file that no run has seen: its rows are nowhere verified."""
    world.batch()
    confirm(world, rewrite(world))
    found = world.run()
    assert (found["files"], found["read"]) == (3, 1)


def test_a_rewrite_that_was_rewritten_again_is_not_accepted(world: World) -> None:
    confirm(world, rewrite(world))
    confirm(world, rewrite(world, where=f"{OFFSET} >= 0"))
    assert world.run()["read"] == 1


def test_a_rewrite_whose_parent_has_expired_is_accepted_only_by_what_its_manifests_say(world: World) -> None:
    table = world.lake.catalog.load_table(lakes.TABLE)
    parent = next(ancestors(table)).snapshot_id
    confirm(world, rewrite(world))
    world.batch()
    world.lake.catalog.load_table(lakes.TABLE).maintenance.expire_snapshots().by_id(parent).commit()
    assert "12 offsets, each once" in world.run()["result"]


def test_what_else_was_lost_is_found_beside_an_accepted_rewrite(world: World) -> None:
    confirm(world, rewrite(world, where=f"{OFFSET} < 4"))
    number = rewrite(
        world, lambda rows: rows.filter(pa.compute.not_equal(rows[OFFSET], 5)), where=f"{OFFSET} >= 4"
    )
    confirm(world, number, lambda document: document["files"].clear())
    assert "0=[5,6)" in world.finds(FindingName.OFFSETS_MISSING)


def test_rows_of_one_file_in_place_of_it_twice_are_found(world: World) -> None:
    """The files of two rewrites stand for the same removed ones: the second is read."""
    before = world.lake.catalog.load_table(lakes.TABLE).scan().to_arrow()
    first = rewrite(world)
    confirm(world, first)
    table = world.lake.catalog.load_table(lakes.TABLE)
    table.append(before, snapshot_properties=lakes.summary("batch", 1, {0: 8}, {0: 0}, {0: (0, 8)}))
    assert "0=[0,8)" in world.finds(FindingName.OFFSETS_DUPLICATED)


def test_a_full_run_that_was_killed_goes_on_and_the_next_one_reads_everything(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In portions of a file each."""
    read = killed_after_a_file(world, monkeypatch)
    with pytest.raises(Exception, match="killed"):
        world.run(full=True, run_id="one")
    assert "8 offsets, each once" in world.run(full=True, run_id="one")["result"]
    of_table = [name for name in read if "quarantine" not in name]
    assert len(of_table) == len(set(of_table)), "each once, and the killing"
    known = len(of_table)
    world.run(full=True, run_id="two")
    assert len([name for name in read if "quarantine" not in name]) == 2 * known - 1


def test_a_run_that_lost_its_base_and_was_killed_is_gone_on_with_by_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = world.manifest_list()
    read = killed_after_a_file(world, monkeypatch)
    base.unlink()
    with pytest.raises(Exception, match="killed"):
        world.run(run_id="one")
    assert "8 offsets, each once" in world.run(run_id="two")["result"]
    of_table = [name for name in read if "quarantine" not in name]
    assert len(of_table) == len(set(of_table)) == 3, "each once, and the killing"


def killed_after_a_file(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that were read, and of the end of the first task; each file is a portion."""
    rewrite(world, where=f"{OFFSET} < 4")
    rewrite(world, where=f"{OFFSET} >= 4")
    read, count = list[str](), table_diff.count_offsets

    def until_killed(table: Table, data_files: Iterable[DataFile], *rows: Any) -> Any:
        named = [one.file_path for one in data_files]
        if len(read) == 1:
            read.append("killed")
            raise RuntimeError("killed")
        read.extend(named)
        return count(table, data_files, *rows)

    monkeypatch.setattr(portions, "PORTION_ROWS", 3)
    monkeypatch.setattr(table_diff, "count_offsets", until_killed)
    return read
