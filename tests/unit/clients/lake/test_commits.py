"""Snapshots of ``main``: batches, the metadata log, heads."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from sluice.clients.lake import commits
from tests.support import lake as lakes


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
    found = commits.commits(lake.table(lakes.TABLE))
    newest, clock, oldest = (one for one in found if one.kind == "batch")
    assert (newest.records, newest.began, newest.epoch) == (1, 1.0, 2)
    assert newest.seconds == newest.at - 1.0
    assert (clock.records, clock.seconds) == (12, 0.0)
    assert (oldest.records, oldest.began, oldest.epoch) == (4, 2.0, 1)


def test_the_metadata_log_reaches_to_now(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [(0, 0)])
    table = lake.table(lakes.TABLE)
    log = commits.metadata_log(table)
    assert len(log) == 2
    assert log == sorted(log)
    assert log[-1][1] == table.metadata_location


def test_files_are_newer_than_a_head_of_the_same_history(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    assert lake.heads(lakes.TABLE, "raw.none") == {}
    lakes.batches(lake, range(3), {"writer": "w1_aa"})
    head = lake.heads(lakes.TABLE)[lakes.TABLE]
    assert (head.sequence_number, head.writer) == (3, "w1_aa")
    lakes.batches(lake, range(3, 5), {"writer": "w2_bb"})
    table = lake.table(lakes.TABLE)
    later = lake.heads(lakes.TABLE)[lakes.TABLE]
    assert commits.sequence_since(table, [later, head]) == 3
    # A source that was planned before there was a table, or by an earlier version.
    assert commits.sequence_since(table, [later, None]) == 0
    # A commit of a history that a restored catalog does not have, though its number is given out again.
    lost = replace(head, snapshot_id=1)
    assert commits.sequence_since(table, [later, lost]) == 0
    # Expired, and its writer publishes still.
    assert commits.sequence_since(table, [later, replace(lost, writer="w2_bb")]) == 3
    assert commits.sequence_since(table, []) == 0
