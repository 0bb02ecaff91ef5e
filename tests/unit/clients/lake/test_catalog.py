"""One role's catalog: its tables, and what it asks PostgreSQL and S3 for."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from sluice.clients.lake import catalog
from sluice.clients.lake import position as positions
from sluice.clients.lake.catalog import Lake
from sluice.core.errors import Missing, Unreachable
from tests.support import lake as lakes
from tests.support.raising import raising


def test_before_the_consumers_first_start_there_is_nothing_published(tmp_path: Path) -> None:
    lake = lakes.empty(tmp_path)
    assert lake.position(lakes.TABLE) is None
    with raising(Missing, lakes.TABLE, "consumer"):
        lake.table(lakes.TABLE)


def test_a_catalog_without_its_own_tables_holds_no_table(tmp_path: Path) -> None:
    lake = Lake({"type": "sql", "uri": f"sqlite:///{tmp_path / 'x.db'}", "init_catalog_tables": "false"})
    assert lake.location(lakes.TABLE) is None


def test_a_catalog_that_does_not_answer_is_unreachable(tmp_path: Path) -> None:
    with raising(Unreachable, "open database"):
        Lake({"type": "sql", "uri": f"sqlite:///{tmp_path / 'none' / 'x.db'}"}).location(lakes.TABLE)


def test_s3_is_read_only_when_the_catalog_points_elsewhere(tmp_path: Path) -> None:
    lake, other = lakes.make(tmp_path), lakes.empty(tmp_path)
    files = tmp_path / "warehouse"
    for end in (1, 2):
        lakes.append(other, [(0, end)], lakes.summary("batch", 1, {0: end}))
        state = lake.position(lakes.TABLE)
        assert state is not None
        assert state.ends == {0: end}
        away = files.rename(tmp_path / "away")
        assert lake.position(lakes.TABLE) == state, "without any file"
        away.rename(files)


def test_a_position_is_read_once_while_the_table_does_not_change(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.batches(lake, range(2))
    with patch.object(catalog, "position_of", wraps=positions.position_of) as read:
        assert lake.position(lakes.TABLE) == lake.position(lakes.TABLE)
        lakes.batches(lake, range(2, 3))
        state = lake.position(lakes.TABLE)
    assert read.call_count == 2
    with patch.object(lake._pointers, "find", wraps=lake._pointers.find) as asked:
        assert lake.position(lakes.TABLE) == state
        assert lake.found(lakes.TABLE) is not None
    assert asked.call_count == 2, "one question to the catalog each"
    assert state is not None
    assert state.ends == {0: 3}


def test_columns(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [(0, 0)])
    table = lake.table(lakes.TABLE)
    assert catalog.columns(table)["_kafka_offset"] == "long"
