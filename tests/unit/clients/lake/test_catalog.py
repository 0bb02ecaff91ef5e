"""What a stream has reached, read from the table's snapshots."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sluice.clients.lake import catalog as tables
from sluice.clients.lake.catalog import Lake
from sluice.core.errors import Missing, Unreachable
from sluice.core.offsets.rejection import Counters
from sluice.core.tables.position import Position
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


def test_the_newest_snapshot_that_says_something_counts_even_below_maintenance(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    assert lake.position(lakes.TABLE) is None
    lakes.append(lake, [], lakes.summary("epoch-start", 7, {0: 0, 1: 5}, {0: 0, 1: 5}))
    lakes.append(lake, [(0, 0), (1, 5)], lakes.summary("batch", 7, {0: 1, 1: 6}, {0: 0, 1: 5}))
    lakes.append(lake, [(0, 99)])
    state = lake.position(lakes.TABLE)
    assert state is not None
    assert (state.epoch, state.starts, state.ends) == (7, {0: 0, 1: 5}, {0: 1, 1: 6})
    assert state.acquired_at is not None
    assert state.acquired_at < state.at
    table = lake.table(lakes.TABLE)
    assert [commit.kind for commit in tables.commits(table)] == ["", "batch", "epoch-start"]
    first = list(tables.commits(table))[-1]
    assert [c.kind for c in tables.commits(table, first.snapshot_id)] == ["", "batch"]


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


def test_a_position_is_put_together_from_the_newest_snapshots_of_each_kind(tmp_path: Path) -> None:
    assert lakes.empty(tmp_path).position(lakes.TABLE) is None
    lake = lakes.make(tmp_path)
    assert lake.position(lakes.TABLE) is None
    lakes.append(
        lake, [], lakes.summary("epoch-start", 7, {0: 0}, more={"topic-id": "T", "acquired-at": "1500"})
    )
    fresh = lake.position(lakes.TABLE)
    assert fresh is not None
    assert (fresh.epoch, fresh.acquired_at, fresh.batch_at, fresh.longest_batch) == (7, 1.5, None, None)
    lakes.append(
        lake, [(0, 0)], lakes.summary("batch", 7, {0: 1}, ranges={0: (0, 1)}, more={"topic-id": "T"})
    )
    lakes.append(lake, [(0, 9)])
    lakes.append(
        lake,
        [],
        lakes.summary(
            "epoch-start", 8, {0: 1, 1: 5}, {0: 0, 1: 5}, more={"topic-id": "U", "acquired-at": "2500"}
        ),
    )
    lakes.append(lake, [(0, 99)])
    state = lake.position(lakes.TABLE)
    newest, before, *_ = [c for c in tables.commits(lake.table(lakes.TABLE)) if c.kind]
    assert state == Position(
        epoch=8,
        at=newest.at,
        acquired_at=2.5,
        starts={0: 0, 1: 5},
        ends={0: 1, 1: 5},
        topic_id="U",
        longest_batch=before.seconds,
        batch_at=before.at,
        counters=(Counters(before.at, 0, 0), Counters(before.at, 1, 0)),
    )
    assert state.records == 1
    more = {"acquired-at": "2500"}
    lakes.append(lake, [], lakes.summary("batch", 8, {0: 2, 1: 5}, {0: 0, 1: 5}, {0: (1, 2)}, more))
    later = lake.position(lakes.TABLE)
    assert later is not None
    assert (later.batch_at, later.acquired_at, later.topic_id) == (later.at, state.acquired_at, None)
    assert later.at > state.at


def test_the_longest_of_the_last_20_batches_counts(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)

    def batch(offset: int, seconds: float) -> None:
        began = str(int((time.time() - seconds) * 1000))
        ranges = {0: (offset, offset + 1)}
        lakes.append(
            lake, [], lakes.summary("batch", 3, {0: offset + 1}, ranges=ranges, more={"started-at": began})
        )

    batch(0, 9000)
    batch(1, 500)
    for offset in range(2, 20):
        batch(offset, 10)
    lakes.append(lake, [], lakes.summary("epoch-start", 4, {0: 20}))
    assert _longest(lake) == pytest.approx(9000, abs=5)
    batch(20, 10)
    assert _longest(lake) == pytest.approx(500, abs=5)


def _longest(lake: Lake) -> float | None:
    state = lake.position(lakes.TABLE)
    return state.longest_batch if state else None


def test_batches_are_newest_first_with_records_and_durations(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    began = {"started-at": "2000"}
    lakes.append(lake, [], lakes.summary("batch", 1, {0: 4}, ranges={0: (0, 4)}, more=began))
    lakes.append(lake, [], lakes.summary("epoch-start", 2, {0: 4}))
    # The clock was put back while the batch ran.
    future = str(int(time.time() * 1000) + 60_000)
    ranges = {0: (4, 7), 1: (0, 9)}
    lakes.append(
        lake, [], lakes.summary("batch", 2, {0: 7, 1: 9}, ranges=ranges, more={"started-at": future})
    )
    lakes.append(lake, [(0, 5)])
    lakes.append(lake, [], lakes.summary("batch", 2, {0: 8}, ranges={0: (7, 8)}, more={"started-at": "1000"}))
    found = tables.commits(lake.table(lakes.TABLE))
    newest, clock, oldest = (commit for commit in found if commit.kind == "batch")
    assert (newest.records, newest.began, newest.epoch) == (1, 1.0, 2)
    assert newest.seconds == newest.at - 1.0
    assert (clock.records, clock.seconds) == (12, 0.0)
    assert (oldest.records, oldest.began, oldest.epoch) == (4, 2.0, 1)


def test_a_catalog_whose_connections_all_hang_is_unreachable() -> None:
    with raising(Unreachable, "table x", "catalog"), tables.asking("table x"):
        raise PoolTimeout("QueuePool limit of size 5 overflow 10 reached")


def test_the_metadata_log_reaches_to_now(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [(0, 0)])
    table = lake.table(lakes.TABLE)
    log = tables.metadata_log(table)
    assert len(log) == 2
    assert log == sorted(log)
    assert log[-1][1] == table.metadata_location


def batches(lake: Lake, numbers: range, more: dict[str, str] | None = None) -> None:
    for number in numbers:
        lakes.append(lake, [], lakes.summary("batch", 1, {0: number + 1}, more=more))


def test_a_position_looks_at_few_snapshots(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [], lakes.summary("epoch-start", 1, {0: 0}))
    batches(lake, range(2 * tables.BATCHES), {"acquired-at": "1500"})
    table = lake.table(lakes.TABLE)
    with patch.object(tables, "sluice_properties", wraps=tables.sluice_properties) as looked_at:
        state = tables.position(table)
    assert state is not None
    assert looked_at.call_count == tables.BATCHES
    assert state.acquired_at == 1.5


def test_a_position_is_read_once_while_the_table_does_not_change(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    batches(lake, range(2))
    with patch.object(tables, "position_of", wraps=tables.position_of) as read:
        assert lake.position(lakes.TABLE) == lake.position(lakes.TABLE)
        batches(lake, range(2, 3))
        state = lake.position(lakes.TABLE)
    assert read.call_count == 2
    with patch.object(lake, "location", wraps=lake.location) as asked:
        assert lake.position(lakes.TABLE) == state
        assert lake.found(lakes.TABLE) is not None
    assert asked.call_count == 2, "one question to PostgreSQL each"
    assert state is not None
    assert state.ends == {0: 3}


def test_files_are_newer_than_a_head_of_the_same_history(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    assert lake.heads(lakes.TABLE, "raw.none") == {}
    batches(lake, range(3), {"writer": "w1_aa"})
    head = lake.heads(lakes.TABLE)[lakes.TABLE]
    assert (head.sequence_number, head.writer) == (3, "w1_aa")
    batches(lake, range(3, 5), {"writer": "w2_bb"})
    table = lake.table(lakes.TABLE)
    later = lake.heads(lakes.TABLE)[lakes.TABLE]
    assert tables.sequence_since(table, [later, head]) == 3
    # A source that was planned before there was a table, or by an earlier version.
    assert tables.sequence_since(table, [later, None]) == 0
    # A commit of a history that a restored catalog does not have, though its number is given out again.
    lost = replace(head, snapshot_id=1)
    assert tables.sequence_since(table, [later, lost]) == 0
    # Expired, and its writer publishes still.
    assert tables.sequence_since(table, [later, replace(lost, writer="w2_bb")]) == 3
    assert tables.sequence_since(table, []) == 0


def test_columns(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [(0, 0)])
    table = lake.table(lakes.TABLE)
    assert tables.columns(table)["_kafka_offset"] == "long"
