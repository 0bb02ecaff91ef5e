"""What a stream has reached, read from the table's snapshots."""

from __future__ import annotations

import time
from pathlib import Path
from unittest.mock import patch

import pytest

from sluice.clients.lake import commits
from sluice.clients.lake import position as positions
from sluice.clients.lake.catalog import Lake
from sluice.core.offsets.rejection import Counters
from sluice.core.tables.position import Position
from tests.support import lake as lakes


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
    assert [commit.kind for commit in commits.commits(table)] == ["", "batch", "epoch-start"]
    first = list(commits.commits(table))[-1]
    assert [c.kind for c in commits.commits(table, first.snapshot_id)] == ["", "batch"]


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
    newest, before, *_ = [c for c in commits.commits(lake.table(lakes.TABLE)) if c.kind]
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


def test_a_position_looks_at_few_snapshots(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [], lakes.summary("epoch-start", 1, {0: 0}))
    lakes.batches(lake, range(2 * positions.BATCHES), {"acquired-at": "1500"})
    table = lake.table(lakes.TABLE)
    with patch.object(commits, "summary_of", wraps=commits.summary_of) as looked_at:
        state = positions.position(table)
    assert state is not None
    assert looked_at.call_count == positions.BATCHES
    assert state.acquired_at == 1.5
