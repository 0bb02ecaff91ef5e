"""What a stream has reached, read from the table's snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.clients import table as tables
from sluice.clients.errors import Missing, Unreachable
from sluice.clients.table import Lake
from tests.support import lake as lakes


def test_before_the_consumers_first_start_there_is_nothing_published(tmp_path: Path) -> None:
    lake = lakes.empty(tmp_path)
    assert lake.published(lakes.TABLE) is None
    with pytest.raises(Missing, match=r"raw\.nyc_taxi does not exist; the stream's consumer makes it"):
        lake.table(lakes.TABLE)


def test_a_catalog_without_its_own_tables_holds_no_table(tmp_path: Path) -> None:
    lake = Lake({"type": "sql", "uri": f"sqlite:///{tmp_path / 'x.db'}", "init_catalog_tables": "false"})
    assert lake.location(lakes.TABLE) is None


def test_a_catalog_that_does_not_answer_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="unable to open database"):
        Lake({"type": "sql", "uri": f"sqlite:///{tmp_path / 'none' / 'x.db'}"}).location(lakes.TABLE)


def test_the_newest_snapshot_that_says_something_counts_even_below_maintenance(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    assert lake.published(lakes.TABLE) is None
    lakes.append(lake, [], lakes.summary("takeover", 7, {0: 0, 1: 5}, {0: 0, 1: 5}))
    lakes.append(lake, [(0, 0), (1, 5)], lakes.summary("batch", 7, {0: 1, 1: 6}, {0: 0, 1: 5}))
    lakes.append(lake, [(0, 99)])
    state = lake.published(lakes.TABLE)
    assert state is not None
    assert (state.kind, state.token, state.ends) == ("batch", 7, {0: 1, 1: 6})
    assert str(state.ranges) == "partition 0: [0, 1); partition 1: [5, 6)"
    table = lake.table(lakes.TABLE)
    taken = tables.taken_over_at(table)
    assert taken is not None
    assert taken < state.at
    kinds = [commit.kind for commit in tables.commits_since(table, None)]
    assert kinds == ["takeover", "batch", ""]
    first = tables.commits_since(table, None)[0]
    assert [c.kind for c in tables.commits_since(table, first.snapshot_id)] == ["batch", ""]


def test_s3_is_read_only_when_the_catalog_points_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lakes.make(tmp_path)
    reads: list[str] = []
    load = lake.catalog.load_table

    def counted(name: str) -> object:
        reads.append(name)
        return load(name)

    lakes.append(lake, [(0, 0)], lakes.summary("batch", 1, {0: 1}))
    monkeypatch.setattr(lake.catalog, "load_table", counted)
    for _ in range(3):
        lake.published(lakes.TABLE)
    assert len(reads) == 1
    other = lakes.empty(tmp_path)
    lakes.append(other, [(0, 1)], lakes.summary("batch", 1, {0: 2}))
    state = lake.published(lakes.TABLE)
    assert state is not None
    assert state.ends == {0: 2}
    assert len(reads) == 2


def test_metadata_times_reach_from_the_log_to_now(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [(0, 0)])
    times = tables.metadata_times(lake.table(lakes.TABLE))
    assert len(times) == 2
    assert times == sorted(times)


def test_columns_and_heads(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [(0, 0)])
    table = lake.table(lakes.TABLE)
    assert tables.columns(table)["_kafka_offset"] == "long"
    assert list(tables.heads(table)) == ["main"]
