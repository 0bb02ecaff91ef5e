"""A stream's state on ``main``, in the summaries of its newest snapshots.

A batch's summary is written before its rows, so it carries the state before the batch; the reader adds the
batch. All but the loaded rows is in the newest summary. Those of a batch are in the next one, until the
writer records the rows of many batches in the LoadedRowsStore: older snapshots may expire.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, dropwhile, islice
from typing import TYPE_CHECKING

from sluice.clients.s3.requests import read_change
from sluice.core.changes.published import CHANGE, NO_CHANGES, Changes, changes_in
from sluice.core.offsets.counts import present_offsets
from sluice.core.offsets.deduplication import LoadedRows, loaded_from
from sluice.core.offsets.quarantine import NO_REJECTIONS, Rejections, rejected_by
from sluice.core.offsets.ranges import OffsetRanges, offsets_from_json
from sluice.core.tables.batches import Snapshot
from sluice.core.tables.summary import (
    CHANGE_DOCUMENT,
    CHANGE_OFFSETS,
    EPOCH,
    KIND,
    LEADER_EPOCHS,
    LOADED_ROWS,
    OFFSET_RANGES,
    StreamPart,
)
from spark_jobs.common.lake import state_property
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.lake.loaded_rows import BatchRows
from spark_jobs.common.lake.written.read_offsets import OffsetReader
from spark_jobs.common.lake.written.written_batch import WrittenBatch
from spark_jobs.common.spark.failures import Unrecoverable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# A query that is behind by more begins again, with all rows. By number too: each snapshot that is kept costs
# 1.7 kB of metadata in every commit, so queries that are stopped would slow the stream down.
READER_HORIZON_MS = 7 * 24 * 3_600_000
READER_SNAPSHOTS = 5_000
# The kinds with rows. What a change brought is in its document: its files hold other rows too.
_WITH_ROWS = ("batch", CHANGE)
# In a change's document: the rows that it brought.
ROWS = "rows"


@dataclass
class StreamState:
    """Published offsets are ``[starts, ends)``, of the topic with Kafka's ``topic_id`` (None: not recorded).

    ``epoch``: of the newest writer, 0 before the first. ``leader_epochs``: partition -> Kafka's, of the
    newest record, as far as known. ``rejected``, ``changes``: until now. ``recorded``: number of batches
    whose rows are in the store; ``unrecorded``: those after them, oldest first.
    """

    epoch: int = 0
    topic_id: str | None = None
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    rejected: Rejections = NO_REJECTIONS
    recorded: int = 0
    unrecorded: list[BatchRows] = field(default_factory=list)
    changes: Changes = NO_CHANGES
    leader_epochs: dict[int, int] = field(default_factory=dict)

    def unrecorded_rows(self, source: str) -> OffsetRanges:
        """The rows of a source in ``unrecorded``."""
        rows = OffsetRanges()
        for batch in self.unrecorded:
            rows = rows.union(batch.rows[source])
        return rows

    def summary(self, ends: Mapping[int, int] | None = None) -> dict[str, str]:
        """The state as entries of a summary, without the writer's. ``ends``: those after a batch."""
        newest = self.unrecorded[-1].rows if self.unrecorded else LoadedRows()
        part = StreamPart(
            topic_id=self.topic_id,
            starts=self.starts,
            ends=self.ends if ends is None else ends,
            loaded_rows=newest.to_json(),
            recorded=self.recorded,
            unrecorded=len(self.unrecorded),
        )
        epochs = {LEADER_EPOCHS: json.dumps(self.leader_epochs)} if self.leader_epochs else {}
        return {**part.properties(), **epochs, **self.rejected.properties(), **self.changes.properties()}


def needed_from(snapshots: Iterable[Snapshot], unrecorded: int, now: int) -> int:
    """When the oldest of ``snapshots`` (of ``main``, newest first) was committed that :func:`read` needs for
    that many ``unrecorded`` batches, in ms since 1970; ``now`` without any.

    Failovers and compactions between the batches may be many: one of each with every batch of a stream that
    has one a day.
    """
    needed = now
    for snapshot in snapshots:
        if not unrecorded:
            break
        # Not the oldest's time alone: the clock may have been set back.
        needed = min(needed, snapshot.at_ms)
        unrecorded -= snapshot.summary.get(KIND) in _WITH_ROWS
    return needed


def reader_horizon(snapshots: Iterable[Snapshot], oldest: int, now: int) -> int:
    """Since when ``snapshots`` (of ``main``, newest first) are kept for queries, in ms since 1970.

    ``oldest``: when the oldest of those was committed that a query read last.
    """
    beyond = next(islice(snapshots, READER_SNAPSHOTS, None), None)
    return max(oldest, now - READER_HORIZON_MS, 0 if beyond is None else beyond.at_ms + 1)


def changes_until(snapshots: Iterable[Snapshot], snapshot_id: int | None) -> Changes:
    """The changes that ``snapshot_id`` has, one of ``snapshots`` (of ``main``, newest first)."""
    until = dropwhile(lambda snapshot: snapshot.id != snapshot_id, snapshots)
    return changes_in(next((s.summary for s in until if KIND in s.summary), {}))


def rows_of(table: IcebergTable, reader: OffsetReader, client: S3Client, snapshot_id: int) -> LoadedRows:
    """The loaded rows that a batch or a change brought. A batch's are read from its files: rejected rows
    are gaps here, so one that comes again is rejected again. Of one that has expired, from the files that the
    table has by now. Raises Refused with LAKE_FILE_MISSING if a change's document is gone."""
    summary = table.summary(snapshot_id)
    if document := summary.get(CHANGE_DOCUMENT):
        return LoadedRows.from_json(read_change(client, document)[ROWS])
    if not table.is_kept(snapshot_id):
        ranges = OffsetRanges.of_batch(summary[OFFSET_RANGES])
        least = min(offsets.pairs()[0][0] for offsets in ranges.partitions.values())
        return loaded_from(WrittenBatch([*table.files_from(least)], [], reader).runs_at(ranges))
    return loaded_from(WrittenBatch(table.added_files(snapshot_id), [], reader).runs)


def of_main(table: IcebergTable, reader: OffsetReader, client: S3Client) -> StreamState:
    """The state on ``main`` of a stream's table, as of its last refresh, as :func:`read` has it.

    Where the catalog has left none of our snapshots on ``main``, the table's property says it. Raises
    Unrecoverable if the table then has rows behind that: a version of Sluice without it published them.
    """
    found = read(table.line(), partial(rows_of, table, reader, client), table.name)
    if not found.epoch or any(KIND in snapshot.summary for snapshot in table.snapshots(MAIN)):
        return found
    for file in table.files_from(min(found.ends.values(), default=0)):
        if not file.stats.may_reach(found.ends):
            continue
        offsets = present_offsets(WrittenBatch([file], [], reader).offsets([file.stats.path]))
        if later := offsets.minus(OffsetRanges.from_ends({}, found.ends)):
            raise Unrecoverable(
                f"{table.name}: no snapshot of main has the stream's state, and by its property "
                f"{state_property.PROPERTY} the stream has not published {later}, which {file.stats.path} "
                "has: an earlier version of Sluice published them. Fix: restore the catalog, or give the "
                "stream a new table"
            )
    return found


def read(snapshots: Iterable[Snapshot], rows_of: Callable[[int], LoadedRows], table: str) -> StreamState:
    """The state in ``snapshots`` of ``main``, newest first; an empty one without any.

    ``rows_of``: the loaded rows of a batch, from the files that its snapshot added. Raises Unrecoverable if
    no snapshot has a state, or one that is needed has expired.
    """
    kept = list(snapshots)
    ours = iter([snapshot for snapshot in kept if KIND in snapshot.summary])
    newest = next(ours, None)
    if newest is None:
        if kept:
            raise Unrecoverable(
                f"{table}: {len(kept)} snapshots of main, and none has the stream's state: snapshots were "
                "expired by hand, or another program made the table. Fix: restore the catalog, or give the "
                "stream a new table"
            )
        return StreamState()
    summary = newest.summary
    part = StreamPart.of(summary)
    state = StreamState(
        epoch=int(summary[EPOCH]),
        topic_id=part.topic_id,
        starts=dict(part.starts),
        ends=dict(part.ends),
        rejected=rejected_by(summary),
        recorded=part.recorded,
        changes=changes_in(summary),
        leader_epochs=offsets_from_json(summary.get(LEADER_EPOCHS, "{}")),
    )
    missing = part.unrecorded + (summary[KIND] in _WITH_ROWS)
    rows: LoadedRows | None = None
    for snapshot in chain([newest], ours):
        if len(state.unrecorded) == missing:
            break
        if snapshot.summary[KIND] == "batch":
            offsets = OffsetRanges.of_batch(snapshot.summary[OFFSET_RANGES])
            state.unrecorded.append(BatchRows(offsets, rows_of(snapshot.id) if rows is None else rows))
        elif snapshot.summary[KIND] == CHANGE:
            offsets = OffsetRanges.from_json(snapshot.summary[CHANGE_OFFSETS])
            changes = changes_in(snapshot.summary)
            state.unrecorded.append(BatchRows(offsets, rows_of(snapshot.id), changes))
        rows = LoadedRows.from_json(snapshot.summary.get(LOADED_ROWS, "{}"))
    if len(state.unrecorded) < missing:
        raise Unrecoverable(
            f"{table}: {missing} batches' loaded rows are in snapshots of main, and only "
            f"{len(state.unrecorded)} of these are kept. Fix: restore the catalog; keep at least "
            f"{missing} snapshots when expiring"
        )
    state.unrecorded.reverse()
    return state
