"""The step that deletes files late, over a lake of files: what it checks also when it deletes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow.operators.maintenance.removal import RecordMetadataOperator, RemoveFilesOperator
from sluice.core.tables.file_removal import StoredFile
from sluice.ledger.history import History
from sluice.ledger.keys import METADATA, history_key
from sluice.ledger.known_tables import KnownTables
from sluice.maintenance import held
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import given

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


class Bucket:
    """The objects of a lake in a folder: their addresses begin with ``file://``."""

    def files(self, prefix: str) -> Iterator[StoredFile]:
        path = Path("/", prefix.lstrip("/"))
        for found in sorted(path.rglob("*") if path.is_dir() else [path] if path.exists() else []):
            if found.is_file():
                yield StoredFile(f"file://{found}", found.stat().st_size, NOW)


class World:
    """A stream with two batches."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lake = folder, lakes.make(folder)
        for number in range(2):
            lakes.append(self.lake, [(0, number)], lakes.summary("batch", 1, {0: number + 1}))
        self.history = History(MemoryS3().as_client(), "s3://w/ledger", "nyc_taxi")
        self.removed: list[str] = []

    def record(self, days_ago: float) -> datetime:
        location = self.lake.location(lakes.TABLE)
        assert location is not None
        at = NOW - days_ago * DAY
        self.history.record_metadata({lakes.TABLE: location}, at, "maintained")
        return at

    def remove(self) -> Any:
        hook = SimpleNamespace(
            lake=self.lake,
            platform=SimpleNamespace(lake=SimpleNamespace(is_maintained_by_catalog=False)),
            history=lambda name: self.history,
            bucket=lambda name: Bucket(),
            remove_objects=lambda bucket, keys: self.removed.extend(keys),
        )
        made = RemoveFilesOperator(task_id="step", stream="nyc_taxi")
        tables = KnownTables(self.lake, self.history)
        made.__dict__ |= {"platform_hook": hook, "tables": tables, "ledger": self.history}
        return made.execute(given(run_id="r"))

    def note(self, *, is_managed: bool) -> dict[str, Any]:
        """The first step of maintenance."""
        declared = SimpleNamespace(is_maintained_by_catalog=is_managed)
        hook = SimpleNamespace(
            lake=self.lake, platform=SimpleNamespace(lake=declared), history=lambda name: self.history
        )
        made = RecordMetadataOperator(task_id="step", stream="nyc_taxi")
        tables = KnownTables(self.lake, self.history)
        made.__dict__ |= {"platform_hook": hook, "tables": tables, "ledger": self.history}
        return dict(made.execute(given(run_id="r")))

    def lose_a_data_file(self) -> str:
        path = next(iter(self.folder.glob("warehouse/raw*/nyc_taxi/data/*.parquet")))
        path.unlink()
        return path.name


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("is_managed", [True, False])
def test_the_first_step_says_what_each_table_holds_and_that_a_catalog_expires_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, is_managed: bool
) -> None:
    result = world.note(is_managed=is_managed)
    assert result["held"][lakes.TABLE] == {"snapshots": 2, "data_files": 2}
    assert "notes" not in result
    monkeypatch.setattr(held, "MANY_SNAPSHOTS", 1)
    monkeypatch.setattr(held, "OLD", timedelta(0))
    notes = world.note(is_managed=is_managed).get("notes", [])
    assert [note.partition(":")[0] for note in notes] == [lakes.TABLE] * is_managed


def test_a_table_whose_files_are_there_is_left_alone_while_records_do_not_cover_the_horizon(
    world: World,
) -> None:
    world.record(1)
    assert "do not cover 7 days" in world.remove()[lakes.TABLE]
    assert world.removed == []


@pytest.mark.parametrize("days_ago", [(), (1,), (-1,), (8, 6, 4, 2, -1)])
def test_a_file_that_is_gone_is_found_whatever_the_records(world: World, days_ago: tuple[int, ...]) -> None:
    """A new stream has no records for days, and a clock that was ahead has left one."""
    for days in days_ago:
        world.record(days)
    name = world.lose_a_data_file()
    with raising(AirflowFailException, "SLU-224", name, "is missing"):
        world.remove()
    assert world.removed == []


def test_a_record_from_the_future_fails_the_step_with_its_name_and_a_fix(world: World) -> None:
    for days in (8, 6, 4, 2):
        world.record(days)
    at = world.record(-1)
    key = world.history.uri(history_key(METADATA, at, "tables"))
    with raising(AirflowFailException, "SLU-510", key, at.isoformat(timespec="seconds"), "Fix: ", "clock"):
        world.remove()
    assert world.removed == []
