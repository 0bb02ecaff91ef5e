"""Batches from the snapshots of ``main``."""

from __future__ import annotations

from typing import Any

from sluice.core.tables.batches import Snapshot, batches_of
from tests.support.batches import NOON


def test_batches_are_among_other_snapshots_the_newest_first() -> None:
    def snapshot(number: int, kind: str) -> Snapshot:
        summary: dict[str, Any] = {
            "sluice.kind": kind,
            "sluice.epoch": "2",
            "sluice.offset-ranges": f'{{"0":[{number},{number + 2}]}}',
            "sluice.end-offsets": f'{{"0":{number + 2}}}',
            "sluice.started-at": str(NOON),
            "added-records": "1",
        }
        return Snapshot(number, NOON + 100, summary if kind else {"operation": "replace"})

    kinds = ("batch", "", "batch", "epoch-start", "batch", "batch")
    line = [snapshot(20 - n, kind) for n, kind in enumerate(kinds)]
    found = list(batches_of(line, {20: NOON + 2000, 18: NOON + 1500}))[:3]
    assert [one.snapshot_id for one in found] == [20, 18, 16]
    assert [one.seconds for one in found] == [2.0, 1.5, 0.1], "of the time when main moved, if it is logged"
    assert [(one.rows, one.rejected, one.files) for one in found] == [(1, 1, 0)] * 3
