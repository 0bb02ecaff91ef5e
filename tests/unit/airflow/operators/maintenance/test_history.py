"""The step that deletes documents of old batches: reconciliation finds what it found before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sluice.airflow import database
from sluice.airflow.operators.maintenance.removal import RemoveHistoryOperator
from sluice.core.findings import FindingName
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.batch_log import PUBLISHED, ROLLED_UP, document_of, published_key
from sluice.ledger.keys import METADATA, history_prefix
from tests.support import lake as lakes
from tests.support.reconciliation import BATCH, World
from tests.support.steps import given

DAYS = 100
# The newest document before the horizon stays.
LEFT = 1


def record_as_of(world: World, days: int) -> None:
    """The batches that the table keeps, as the writer recorded them so many days ago."""
    log = world.batch_log(lakes.TABLE)
    age = timedelta(days=days) // timedelta(milliseconds=1)
    known = {one.batch.snapshot_id for one in log.newest(1000)} - set(log.on_main)
    found = [replace(one, published_at=one.published_at - age) for one in list(log.on_main.values())[::-1]]
    found = [one for one in found if one.snapshot_id not in known]
    log.documents.put(published_key(found), document_of(found))
    world.expire()


def note_metadata(world: World, days: int = DAYS) -> None:
    """As maintenance has done, once a day."""
    location = world.lake.location(lakes.TABLE)
    assert location is not None
    for ago in range(days, 0, -1):
        at = datetime.now(UTC) - timedelta(days=ago)
        world.history.record_metadata({lakes.TABLE: location}, at, "maintained")
        key = next(world.history.keys(history_prefix(METADATA), limit=1))
        world.memory.modified["w", f"ledger/nyc_taxi/{key}"] = at


def remove(world: World, **more: Any) -> dict[str, Any]:
    made: Any = RemoveHistoryOperator(task_id="step", stream="nyc_taxi")
    made.__dict__ |= world.systems()
    made.spec.queries = {}
    found: dict[str, Any] = made.execute(given(run_id="r", **more))
    return found


def documents(world: World, kind: str) -> list[str]:
    return list(world.batch_log(lakes.TABLE).documents.keys(kind))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Four documents of two batches, the first of each with an offset without a record."""
    world = World(tmp_path)
    for number in range(4):
        world.batch(marker=1)
        world.batch()
        record_as_of(world, 98 - number)
        # PyIceberg keeps the newest snapshot: it is the next document's.
        world.batch()
    world.run()
    note_metadata(world)
    world.memory.modified.update(
        {
            place: datetime.now(UTC) - timedelta(days=95)
            for place in world.memory.objects
            if PUBLISHED in place[1]
        }
    )
    return world


def test_after_the_removal_a_full_verification_is_green(world: World) -> None:
    before = len(documents(world, PUBLISHED))
    result = remove(world)
    assert (result["removed"], len(documents(world, PUBLISHED))) == (before - LEFT, LEFT)
    assert len(documents(world, ROLLED_UP)) == 1
    assert world.run(full=True)["result"].startswith(f"{world.end - 4} offsets, each once")
    assert "4 more have no record" in world.run(full=True)["result"]


def test_what_the_documents_said_is_missed_without_the_roll_up(world: World) -> None:
    remove(world)
    for key in documents(world, ROLLED_UP):
        log = world.batch_log(lakes.TABLE).documents
        del world.memory.objects[log.bucket, f"{log.prefix}/{key}"]
    text = world.finds(FindingName.OFFSETS_MISSING, full=True)
    assert "3 offsets are in neither table" in text


def test_a_lost_row_of_an_old_batch_is_still_found(world: World) -> None:
    remove(world)
    lost, markers = 3, {number * 3 * BATCH + 1 for number in range(4)}
    world.compact([offset for offset in range(world.end) if offset not in {lost, *markers}])
    text = world.finds(FindingName.OFFSETS_MISSING, full=True)
    assert "1 offsets are in neither table: 0=[3,4)" in text


def test_a_catalog_that_is_restored_within_the_horizon_is_verified(world: World) -> None:
    kept = world.lake.location(lakes.TABLE)
    assert kept is not None
    end = world.end
    world.batch(marker=2)
    world.run()
    assert remove(world)["removed"] > 0
    lakes.restore_catalog(world.lake, {lakes.TABLE: kept})
    world.end = end
    world.finds(FindingName.TABLE_RESTORED)
    assert "4 more have no record" in world.run(full=True)["result"]
    world.batch()
    assert "4 more have no record" in world.run()["result"]


def test_where_the_catalog_maintains_the_tables_it_is_done_too(world: World) -> None:
    world.is_managed = True
    assert remove(world)["removed"] > 0
    assert "4 more have no record" in world.run(full=True)["result"]


def test_a_run_that_airflow_keeps_for_longer_keeps_its_batches(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(database.DAYS_VARIABLE, "3650")
    assert "do not cover 3650 days" in remove(world)["result"]


def test_without_a_table_nothing_is_removed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.lake.catalog.drop_table(lakes.TABLE)
    assert "does not have the table" in remove(world)["result"]


def test_the_offsets_are_said_by_range(world: World) -> None:
    remove(world)
    asked = OffsetRanges.of({0: [(0, 2), (5, 13)]})
    assert world.batch_log(lakes.TABLE).without_record(asked).control == OffsetRanges.of({0: [(1, 2)]})
