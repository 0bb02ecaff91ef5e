"""Published batches: what each read and published.

A batch is described by the summary of its snapshot on ``main``. Snapshots expire, so the writer records their
batches beside the table, :mod:`sluice.ledger.batch_log`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from sluice.core.offsets.ranges import OffsetRanges, offsets_from_json
from sluice.core.tables.storage import metadata_files
from sluice.core.tables.summary import BATCH_ID, END_OFFSETS, EPOCH, KIND, OFFSET_RANGES, STARTED_AT, WRITER
from sluice.core.tables.without_record import WithoutRecord

BATCH = "batch"


@dataclass(frozen=True)
class Snapshot:
    """``at_ms``: since 1970. ``summary``: with Iceberg's ``operation``. ``manifest_list``: its address."""

    id: int
    at_ms: int
    summary: Mapping[str, str]
    manifest_list: str = ""


@dataclass(frozen=True)
class Batch:
    """One published batch. Times in ms since 1970: ``started_at``, before it was read, and ``published_at``.

    ``snapshot_id``: of the table; ``files``: number of the data files that it added.
    ``batch_id``: its number in the streaming query of ``writer``, which has ``epoch``. ``ranges``: what it
    read, of which ``rows`` are in the table and ``rejected`` in the quarantine. ``ends``: partition -> the
    offset up to which everything is published, by this batch and those before it. ``manifest_list``: its
    address; ``metadata_files``: how many its commits wrote, None if the table's log did not tell any more.
    ``without_record``: offsets of ``ranges`` that have no record, and why.
    """

    snapshot_id: int
    batch_id: int
    writer: str
    epoch: int
    ranges: OffsetRanges
    ends: Mapping[int, int]
    rows: int
    files: int
    started_at: int
    published_at: int
    manifest_list: str = ""
    metadata_files: int | None = None
    without_record: WithoutRecord = field(default_factory=WithoutRecord)

    @property
    def rejected(self) -> int:
        return self.ranges.count - self.without_record.count - self.rows

    @property
    def seconds(self) -> float:
        """From its start to its publication."""
        return max(self.published_at - self.started_at, 0) / 1000

    @property
    def published(self) -> datetime:
        return time_of(self.published_at)

    @classmethod
    def of_snapshot(
        cls, snapshot: Snapshot, published_at: int, metadata_files: int | None = None
    ) -> Batch | None:
        """None if the snapshot is no batch's. ``published_at``: when ``main`` moved to it."""
        summary = snapshot.summary
        if summary.get(KIND) != BATCH:
            return None
        return cls(
            snapshot_id=snapshot.id,
            batch_id=int(summary.get(BATCH_ID, -1)),
            writer=summary.get(WRITER, ""),
            epoch=int(summary[EPOCH]),
            ranges=OffsetRanges.of_batch(summary[OFFSET_RANGES]),
            ends=offsets_from_json(summary[END_OFFSETS]),
            # Iceberg leaves these out if they are 0.
            rows=int(summary.get("added-records", 0)),
            files=int(summary.get("added-data-files", 0)),
            started_at=int(summary[STARTED_AT]),
            published_at=published_at,
            manifest_list=snapshot.manifest_list,
            metadata_files=metadata_files,
            without_record=WithoutRecord.of(summary),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "snapshot_id": self.snapshot_id,
            "batch_id": self.batch_id,
            "writer": self.writer,
            "epoch": self.epoch,
            "ranges": json.loads(self.ranges.to_json()),
            "end_offsets": {str(partition): end for partition, end in sorted(self.ends.items())},
            "rows": self.rows,
            "rejected": self.rejected,
            "files": self.files,
            "started_at": self.started_at,
            "published_at": self.published_at,
            "manifest_list": self.manifest_list,
            "metadata_files": self.metadata_files,
            "without_record": self.without_record.to_document(),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Batch:
        return cls(
            snapshot_id=document["snapshot_id"],
            batch_id=document["batch_id"],
            writer=document["writer"],
            epoch=document["epoch"],
            ranges=OffsetRanges.of(document["ranges"]),
            ends={int(partition): end for partition, end in document["end_offsets"].items()},
            rows=document["rows"],
            files=document["files"],
            started_at=document["started_at"],
            published_at=document["published_at"],
            manifest_list=document.get("manifest_list", ""),
            metadata_files=document.get("metadata_files"),
            without_record=WithoutRecord.from_document(document.get("without_record", {})),
        )


def batches_of(
    snapshots: Iterable[Snapshot], published_at: Mapping[int, int], metadata_log: Sequence[int] = ()
) -> Iterator[Batch]:
    """The batches among the snapshots of ``main``, newest first. ``published_at``: snapshot -> when ``main``
    moved to it, as far as logged; ``metadata_log``: when the table's metadata files were written, which says
    how many a batch wrote."""
    until: int | None = None
    for one in snapshots:
        files = metadata_files(metadata_log, one.at_ms, until)
        batch = Batch.of_snapshot(one, published_at.get(one.id, one.at_ms), files)
        if batch is not None:
            yield batch
        until = one.at_ms


def time_of(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def by_writer(batches: Iterable[Batch]) -> list[list[Batch]]:
    """The batches, oldest first, in one group per writer: the batches of two writers are never mixed."""
    return [list(group) for _, group in groupby(batches, lambda batch: batch.writer)]
