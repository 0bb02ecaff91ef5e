"""Published batches: those in snapshots of ``main``, and before them those in the table's batch log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from pyiceberg.table import Table

from sluice.clients.lake.commits import ancestors, metadata_log, summary_of
from sluice.clients.s3.requests import read_change
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from sluice.core.tables.batches import Batch, Snapshot, batches_of, time_of
from sluice.core.tables.storage import documents_place
from sluice.core.tables.without_record import WithoutRecord
from sluice.ledger.batch_log import (
    FOLDER,
    PUBLISHED,
    RESTORED,
    Line,
    Restore,
    batches_in,
    published_until,
    restore_of,
    span_of,
)
from sluice.ledger.documents import Ledger
from sluice.ledger.rolled_up import RolledUpReader

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Documents begin at batches' times, which are in ms.
_STEP = timedelta(milliseconds=1)
_EARLIEST = time_of(0)
# How far behind a record's own time its batch is looked for first, and how that grows.
_FIRST_STEP, _GROWTH, _LONGEST_STEP = timedelta(seconds=10), 8, timedelta(days=365)


@dataclass(frozen=True)
class ListedBatch:
    """``is_lost``: ``main`` was set back behind this batch, and its records were read again."""

    batch: Batch
    is_lost: bool = False


class BatchLog:
    """The batches of a table as it is now. ``documents``: of the folder ``batches`` in the table's."""

    def __init__(self, table: Table, documents: Ledger) -> None:
        self.table, self.documents = table, documents

    @classmethod
    def open(cls, client: S3Client, table: Table) -> Self:
        return cls(table, Ledger(client, documents_place(table.location(), table.properties), FOLDER))

    @cached_property
    def on_main(self) -> dict[int, Batch]:
        """Snapshot -> batch of those that ``main`` keeps, newest first. No request."""
        moved = {entry.snapshot_id: entry.timestamp_ms for entry in self.table.metadata.snapshot_log}
        written = [at for at, _ in metadata_log(self.table)]
        snapshots = (
            Snapshot(
                one.snapshot_id,
                one.timestamp_ms,
                summary_of(one),
                one.manifest_list,
            )
            for one in ancestors(self.table)
        )
        return {batch.snapshot_id: batch for batch in batches_of(snapshots, moved, written)}

    @property
    def table_uuid(self) -> str:
        return str(self.table.metadata.table_uuid)

    @cached_property
    def _rolled_up(self) -> RolledUpReader:
        return RolledUpReader(self.documents, self.table_uuid)

    @cached_property
    def restores(self) -> list[Restore]:
        """One LIST."""
        return [restore for key in self.documents.keys(RESTORED) if (restore := restore_of(key))]

    def has_lost(self, at: datetime) -> bool:
        """Whether a writer found that the catalog was restored to before what was committed then."""
        return any(restore.newest < at < restore.at for restore in self.restores)

    @cached_property
    def line(self) -> Line:
        return Line.of(self.restores, self._newest_time)

    @property
    def _newest_time(self) -> datetime:
        if self.on_main:
            return max(batch.published for batch in self.on_main.values())
        # Those that have expired were published before what is kept.
        kept = [one.timestamp_ms for one in ancestors(self.table)]
        return time_of(min(kept, default=0))

    def newest(
        self, limit: int, since: datetime | None = None, until: datetime | None = None
    ) -> list[ListedBatch]:
        """The newest ``limit`` batches that were published from ``since`` to ``until``, newest first.

        Costs, for batches that are in no snapshot any more, a LIST of their time and one GET for ten of them.
        """
        found = {
            number: ListedBatch(batch)
            for number, batch in self.on_main.items()
            if _is_within(batch, since, until)
        }
        if len(found) < limit:
            # Newer ones than of ``main`` came after the table was read, or are lost to a restore that no
            # writer has found yet.
            latest = min(until or self._newest_time, self._newest_time)
            for batch in self._recorded(since, latest):
                known = found.get(batch.snapshot_id)
                # Those of a document that begins with another come twice. A record may say what a batch cost
                # when the table does not any more.
                if (known is None or known.batch.metadata_files is None) and _is_within(batch, since, latest):
                    is_lost = known.is_lost if known else batch not in self.line
                    found[batch.snapshot_id] = ListedBatch(batch, is_lost)
                    if len(found) == limit:
                        break
        return sorted(found.values(), key=lambda one: one.batch.published_at, reverse=True)[:limit]

    def recorded(self, snapshot_ids: Collection[int], since: datetime) -> dict[int, OffsetRanges]:
        """Those of the snapshots that are recorded batches, published from ``since`` on, with their offset
        ranges. A LIST of that time, and one GET for ten batches, the newest first, until all are found."""
        missing, found = set(snapshot_ids), dict[int, OffsetRanges]()
        for batch in self._recorded(since):
            if batch.snapshot_id in missing:
                missing.remove(batch.snapshot_id)
                found[batch.snapshot_id] = batch.ranges
            if not missing:
                break
        return found

    def recorded_before_kept(self, snapshot_ids: Collection[int], documents: int) -> set[int]:
        """Those of the snapshots that are recorded batches, by at most so many ``documents``: a GET each, the
        newest first from the oldest batch that ``main`` keeps, until all are found; and a LIST."""
        oldest = min((batch.published for batch in self.on_main.values()), default=None)
        missing = set(snapshot_ids)
        keys = self.documents.keys(PUBLISHED, after=published_until(oldest) if oldest else "")
        for key in islice(keys, documents):
            missing.difference_update(batch.snapshot_id for batch in self._batches(key))
            if not missing:
                break
        return set(snapshot_ids) - missing

    def _recorded(
        self, since: datetime | None, until: datetime | None = None, writer: str = ""
    ) -> Iterator[Batch]:
        """Newest first within a document; with ``writer`` its alone."""
        for key in self.documents.keys(PUBLISHED, after=published_until(until) if until else ""):
            span = span_of(key)
            if span is None:
                continue
            if since and span.newest < since:
                return
            if writer and span.writer != writer:
                continue
            yield from reversed(self._batches(key))

    def _newest_recorded(self) -> Batch | None:
        """The newest batch that is not lost, where ``main`` keeps none: after many failovers without a
        record, or as a managed catalog leaves it. All of them are recorded then."""
        found = self._recorded(None, self._newest_time)
        return next((batch for batch in found if batch in self.line), None)

    def _batches(self, key: str) -> list[Batch]:
        # Maintenance may have deleted it since it was listed.
        document = self.documents.get(key)
        return batches_in(document) if document else []

    def holding(self, partition: int, offset: int, near: datetime | None = None) -> Batch | None:
        """The batch that published an offset; None if none is recorded.

        ``near``: a time shortly before its publication, as its record's own, which saves requests. A LIST
        and a GET per step of a search by time: their number grows with the logarithm of the history.
        """
        for batch in self.on_main.values():
            if offset in batch.ranges[partition]:
                return batch
        for after, until in self.line.ranges:
            found = self._holding(partition, offset, max(after + _STEP, _EARLIEST), until, near)
            if found is not None:
                return found
        # Lost ones are among these in time, so each is looked at: a clock was ahead, which is rare.
        for writer, (after, until) in self.line.own.items():
            for batch in self._recorded(after + _STEP, until, writer):
                if batch in self.line and offset in batch.ranges[partition]:
                    return batch
        return None

    def without_record(self, offsets: OffsetRanges) -> WithoutRecord:
        """What the batches that published ``offsets`` recorded of those among them that have no record.

        Costs a GET for each document of a batch's many ranges; if ``main`` does not keep the batches, a
        search by time as of :meth:`holding`, and a GET for ten of them; for offsets that none of these
        published, a LIST and a GET of what is kept of older ones.
        """
        found, left = list[WithoutRecord](), offsets
        for batch, own in self._publishing(offsets):
            try:
                found.append(batch.without_record.read(self._read_without_record).within(own))
            except Refused as error:
                # Maintenance deletes it before the batch's own document, and keeps what it says.
                if error.code is not ErrorCode.LAKE_FILE_MISSING or not self._rolled_up.about(own).has(own):
                    raise
            else:
                left = left.minus(own)
        if left:
            kept = self._rolled_up.about(left)
            found.append(kept.of(left))
            # A batch that maintenance left among older ones is found by its own offsets.
            if (others := kept.others(left)) != left:
                found.append(self.without_record(others))
        return WithoutRecord.joined(found)

    def _read_without_record(self, address: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = read_change(self.documents.client, address, "offsets without a record")
        return found

    def _publishing(self, offsets: OffsetRanges) -> Iterator[tuple[Batch, OffsetRanges]]:
        """The batches that published any of these, newest first, and which of them."""
        newest_kept = next(iter(self.on_main.values()), None) or self._newest_recorded()
        if newest_kept is None:
            return
        # Behind its ends only lost batches have any; those before them were read again, by later ones. Then
        # each batch has lower offsets than those after it.
        below = {p: newest_kept.ends.get(p, 0) for p in offsets.partitions}

        def published(batch: Batch) -> OffsetRanges:
            found = {}
            for p, ranges in batch.ranges.partitions.items():
                if begins := [start for start, _ in ranges if start < below.get(p, 0)]:
                    own = IntervalSet.of([(begins[0], min(ranges.pairs()[-1][1], below[p]))])
                    found[p] = offsets[p].intersect(own)
                    below[p] = begins[0]
            return OffsetRanges({p: ranges for p, ranges in found.items() if ranges})

        for batch in self.on_main.values():
            if own := published(batch):
                yield batch, own
        missing = offsets.intersect(OffsetRanges.from_ends({}, below))
        last = ((p, ranges.pairs()[-1][1] - 1) for p, ranges in missing.partitions.items())
        newest = [found.published for place in last if (found := self.holding(*place)) is not None]
        firsts = {p: ranges.pairs()[0][0] for p, ranges in missing.partitions.items()}
        for batch in self._recorded(None, max(newest)) if newest else ():
            # Also behind a batch that maintenance removed, whose offsets a lost one may have.
            if batch not in self.line:
                continue
            if own := published(batch):
                yield batch, own
            # Those before it have lower offsets.
            if all(first >= min(batch.ends.get(p, 0), below[p]) for p, first in firsts.items()):
                return

    def _holding(
        self, partition: int, offset: int, low: datetime, high: datetime, near: datetime | None
    ) -> Batch | None:
        """Return the first of the batches from ``low`` to ``high`` that reaches the offset, if it has it."""
        first, last, step = low, high, _FIRST_STEP
        probe = near or high
        found, stepped = list[Batch](), False
        while low <= high:
            probe = min(max(probe, low), high)
            batches = [batch for batch in self._first_from(probe) if first <= batch.published <= last]
            if batches and batches[-1].ends.get(partition, 0) > offset:
                found, high = batches, batches[0].published - _STEP
                # Most often the document before it does not reach the offset.
                stepped = not stepped
                probe = high if stepped else low + (high - low) / 2
            else:
                low = probe + _STEP
                probe = low + (high - low) / 2 if found else low + min(step, high - low)
                step = min(step, _LONGEST_STEP) * _GROWTH
        return next((batch for batch in found if offset in batch.ranges[partition]), None)

    def _first_from(self, at: datetime) -> list[Batch]:
        """The batches of the newest document that begins at ``at`` or earlier."""
        key = next(self.documents.keys(PUBLISHED, limit=1, after=published_until(at)), None)
        return self._batches(key) if key else []


def _is_within(batch: Batch, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or batch.published >= since) and (until is None or batch.published <= until)
