"""Batches from the snapshots of ``main``."""

from __future__ import annotations

import json
from typing import Any

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import Batch, Snapshot, batches_of
from sluice.core.tables.without_record import WithoutRecord
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


def test_offsets_without_a_record_are_not_rejected() -> None:
    """Markers of transactions, and records of aborted ones."""
    said = WithoutRecord(OffsetRanges.of({0: [(9, 10)]}), OffsetRanges.of({0: [(0, 3)]}))
    summary = {
        "sluice.kind": "batch",
        "sluice.epoch": "2",
        "sluice.offset-ranges": '{"0":[0,10]}',
        "sluice.end-offsets": '{"0":10}',
        "sluice.started-at": str(NOON),
        "added-records": "5",
    }
    found = Batch.of_snapshot(Snapshot(1, NOON, {**summary, **said.properties()}), NOON)
    assert found is not None
    assert (found.without_record, found.rejected) == (said, 1)
    document = found.to_json()
    assert document["rejected"] == 1
    assert document["without_record"] == {"control": {"0": [[9, 10]]}, "aborted": {"0": [[0, 3]]}}
    document = json.loads(json.dumps(document))
    assert Batch.from_json(document) == found
    # As batches were recorded before there were any.
    del document["without_record"]
    before = Batch.from_json(document)
    assert (before.without_record, before.rejected) == (WithoutRecord(), 5)
