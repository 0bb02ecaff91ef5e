"""The snapshots of ``main``: who published each, and what it says.

A consumer's carry ``sluice.*`` in their summary, those of maintenance do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluice.core.offsets.ranges import offsets_from_json
from sluice.core.tables.summary import (
    ACQUIRED_AT,
    END_OFFSETS,
    EPOCH,
    KIND,
    OFFSET_RANGES,
    PREFIX,
    STARTED_AT,
    WRITER,
)
from sluice.core.tables.without_record import record_count

if TYPE_CHECKING:
    # It takes a second to import, and a DAG file reaches this.
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

MAIN = "main"


@dataclass(frozen=True)
class Commit:
    """One snapshot of ``main``."""

    snapshot_id: int
    """Iceberg's."""
    at: float
    """When it was committed, in seconds since 1970."""
    kind: str = ""
    """epoch-start, batch or change; "" for maintenance, which has no epoch, ends and records."""
    epoch: int = 0
    """Number of its writer's lease."""
    ends: dict[int, int] = field(default_factory=dict)
    """Partition -> the offset up to which everything is published."""
    records: int = 0
    """Number of the batch's, quarantined ones included."""
    began: float | None = None
    """Seconds since 1970; None unless a batch recorded it."""
    summary: dict[str, str] = field(default_factory=dict, repr=False)
    """All that it says."""

    @property
    def is_of_stream(self) -> bool:
        """Whether it says the stream's position."""
        return END_OFFSETS in self.summary

    @property
    def acquired_at(self) -> float | None:
        """When its writer acquired the lease; None for a snapshot of maintenance."""
        found = self.summary.get(ACQUIRED_AT)
        return int(found) / 1000 if found else None

    @property
    def seconds(self) -> float | None:
        """How long a batch took to read and write."""
        return None if self.began is None else max(self.at - self.began, 0.0)


@dataclass(frozen=True)
class Head:
    """The newest snapshot of ``main``; ``writer``: who published it, "" if it was no writer of a stream."""

    snapshot_id: int
    sequence_number: int
    writer: str


def ancestors(table: Table) -> Iterator[Snapshot]:
    """The kept snapshots of ``main``, newest first."""
    # Not snapshot_by_id for each: it scans all of them.
    kept = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    snapshot = table.snapshot_by_name(MAIN)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = kept.get(parent) if parent is not None else None


def sequence_since(table: Table, heads: Iterable[Head | None]) -> int:
    """The lowest sequence number of ``heads``: files that were committed after all of them have a higher one.

    0 (every file has) unless each head is part of ``main``'s history: a restored catalog gives numbers out
    again. A head whose snapshot has expired is part of it if its writer published ``main``'s newest batch: a
    writer publishes on top of its own last snapshot only.
    """
    kept = {snapshot.snapshot_id for snapshot in ancestors(table)}
    writer = next((w for s in ancestors(table) if (w := summary_of(s).get(WRITER))), None)
    found = [
        head.sequence_number if head and (head.snapshot_id in kept or head.writer == writer) else 0
        for head in heads
    ]
    return min(found, default=0)


def is_of_sluice(snapshot: Snapshot) -> bool:
    """Whether the summary has a property of Sluice; that of maintenance has none."""
    return any(key.startswith(PREFIX) for key in summary_of(snapshot))


def summary_of(snapshot: Snapshot) -> dict[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary else {}


def commits(table: Table, since: int | None = None) -> Iterator[Commit]:
    """The kept snapshots of ``main``, newest first, down to the one after snapshot ``since``."""
    for snapshot in ancestors(table):
        if snapshot.snapshot_id == since:
            return
        yield _commit(snapshot)


def _commit(snapshot: Snapshot) -> Commit:
    summary = summary_of(snapshot)
    began = summary.get(STARTED_AT)
    return Commit(
        snapshot_id=snapshot.snapshot_id,
        at=snapshot.timestamp_ms / 1000,
        kind=summary.get(KIND, ""),
        epoch=int(summary.get(EPOCH) or 0),
        ends=offsets_from_json(summary.get(END_OFFSETS, "{}")),
        records=record_count(summary) if OFFSET_RANGES in summary else 0,
        began=int(began) / 1000 if began else None,
        summary=summary,
    )


def metadata_log(table: Table) -> list[tuple[int, str]]:
    """(written at, in ms since 1970; address) of the table's metadata files, oldest first, as far as
    logged."""
    log = [(entry.timestamp_ms, entry.metadata_file) for entry in table.metadata.metadata_log]
    return [*log, (table.metadata.last_updated_ms, table.metadata_location)]
