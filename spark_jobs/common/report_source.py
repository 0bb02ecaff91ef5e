"""Which of a table's snapshots a report has not counted yet, and which batch a row is of. Pure.

A report counts rows that were appended. A row's coordinates say which batch it is of: neither compaction nor
how many batches are counted at once changes that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.common.iceberg import Snapshot


@dataclass(frozen=True)
class Batch:
    """A batch of the stream: partition -> the offsets [from, until) that it carries, and where the stream's
    ends are with it."""

    snapshot_id: int
    ranges: Mapping[int, tuple[int, int]]
    ends: Mapping[int, int]


@dataclass(frozen=True)
class News:
    """What is to be counted. ``head`` is the newest snapshot of it, as its summary says so much is read then.

    ``after`` is the snapshot that was counted last, and ``batches`` are those since, the oldest first. Where
    ``rebuild`` says why, everything that is in the table at ``head`` is counted anew, and ``batches`` are all
    that are kept.
    """

    head: Snapshot
    after: int | None
    batches: tuple[Batch, ...]
    rebuild: str | None = None

    @property
    def ends(self) -> Mapping[int, int]:
        """Partition -> the offset after the newest that is counted; empty where no batch is kept."""
        return self.batches[-1].ends if self.batches else {}


def news(snapshots: Iterable[Snapshot], counted: int | None) -> News | None:
    """What came after ``counted`` (the snapshot that was counted last; None: nothing yet), if anything did.

    ``snapshots``: of ``main``, the newest first; it is read as far as is needed. Compaction and snapshots
    without rows are no news; a batch is, even where all of it went to quarantine. Rows that were removed or
    replaced, rows that are of no batch, and a counted snapshot that is gone ask for counting all anew.
    """
    since: list[Snapshot] = []
    earlier: list[Snapshot] = []
    rest = iter(snapshots)
    reason = "nothing was counted yet" if counted is None else f"snapshot {counted} is gone from main"
    for snapshot in rest:
        if snapshot.id == counted:
            reason = next((why for why in map(_unaccounted, reversed(since)) if why), "")
            earlier.append(snapshot)
            break
        since.append(snapshot)
    changes = [snapshot for snapshot in since if _is_change(snapshot)]
    if not changes:
        return None
    if not reason:
        return News(changes[0], counted, _batches(since))
    return News(changes[0], None, _batches([*since, *earlier, *rest]), reason)


def _is_change(snapshot: Snapshot) -> bool:
    return _is_batch(snapshot) or (snapshot.operation != "replace" and not _is_empty(snapshot))


def _is_batch(snapshot: Snapshot) -> bool:
    return snapshot.summary.get("sluice.kind") == "batch"


def _is_empty(snapshot: Snapshot) -> bool:
    return snapshot.operation == "append" and int(snapshot.summary.get("added-records", "0")) == 0


def _unaccounted(snapshot: Snapshot) -> str | None:
    """Why the report cannot go on from what it has over this snapshot, if it cannot."""
    if not _is_change(snapshot) or (_is_batch(snapshot) and snapshot.operation == "append"):
        return None
    done = "appended rows that are of no batch" if snapshot.operation == "append" else "took rows away"
    return f"snapshot {snapshot.id} ({snapshot.operation}) {done}"


def _batches(snapshots: Sequence[Snapshot]) -> tuple[Batch, ...]:
    return tuple(
        Batch(
            snapshot.id,
            {p: (start, until) for p, (start, until) in _per_partition(snapshot, "ranges")},
            dict(_per_partition(snapshot, "ends")),
        )
        for snapshot in reversed(snapshots)
        if _is_batch(snapshot)
    )


def _per_partition(snapshot: Snapshot, key: str) -> list[tuple[int, Any]]:
    return [
        (int(partition), value) for partition, value in json.loads(snapshot.summary[f"sluice.{key}"]).items()
    ]


@dataclass(frozen=True)
class Edge:
    """That the offsets [start, until) of a partition that lie in ``bucket`` are of batch number ``batch``."""

    partition: int
    bucket: int
    start: int
    until: int
    batch: int


def edges(batches: Sequence[Batch]) -> tuple[int, list[Edge]]:
    """The batches' ranges cut at whole buckets, so that rows find their batch by an equality.

    Returns how many bits an offset is shifted right to get its bucket, and the pieces. A bucket is about as
    wide as a range, so there are about twice as many pieces as ranges.
    """
    ranges = [
        (partition, start, until, number)
        for number, batch in enumerate(batches)
        for partition, (start, until) in batch.ranges.items()
        if until > start
    ]
    width = sum(until - start for _, start, until, _ in ranges) // max(len(ranges), 1)
    bits = max(width, 1).bit_length()
    return bits, [
        Edge(partition, bucket, start, until, number)
        for partition, start, until, number in ranges
        for bucket in range(start >> bits, ((until - 1) >> bits) + 1)
    ]
