"""Compare a load's offsets, rows and events with the table and the quarantine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.model.spec.config import ConfigError
from sluice.model.verification.offsets import OffsetVerification, needs_read, verify
from sluice.model.verification.ranges import IntervalSet, OffsetRanges
from sluice.model.verification.sources import Reconciliation, reconcile_events, reconcile_rows

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.hooks.platform import PlatformHook
    from sluice.model.spec.ledger import Document
    from sluice.model.spec.stream import StreamSpec
    from sluice.model.verification.offsets import FileStats
    from sluice.model.verification.ranges import OffsetRanges


@dataclass(frozen=True)
class OffsetCheck:
    """``quarantined``: of the load's offsets; ``files``: number of data files that may hold any of them,
    ``read`` of which had no conclusive metadata."""

    verification: OffsetVerification
    quarantined: OffsetRanges
    files: int
    read: int

    def message(self) -> str:
        return (
            f"{self.files} data files may hold the load's offsets, {self.read} had to be read; "
            f"{self.quarantined.count} offsets are in quarantine"
        )


def check_offsets(table: Table, quarantine: Table, expected: OffsetRanges) -> OffsetCheck:
    """Verify ``expected`` by file metadata, and by two columns of the files that it does not decide."""
    from sluice.clients.lake import files

    tasks = files.plan(table, files.overlapping(expected))
    stats = files.file_stats(table, tasks)
    # A file may hold offsets outside the load's, and gaps there.
    quarantined_near = _quarantined(quarantine, expected.union(file_bounds(stats)))
    inconclusive = {file.path for file in needs_read(expected, stats, quarantined_near)}
    offsets = files.read_offsets(table, tasks, inconclusive) if inconclusive else {}
    verification = verify(expected, stats, offsets, quarantined=quarantined_near, allow_outside=True)
    return OffsetCheck(verification, quarantined_near.intersect(expected), len(stats), len(inconclusive))


def file_bounds(stats: Sequence[FileStats]) -> OffsetRanges:
    """The offsets between the bounds of each file whose metadata has both, and one partition."""
    total: dict[int, list[tuple[int, int]]] = {}
    for file in stats:
        if (
            file.partition_lower is not None
            and file.partition_lower == file.partition_upper
            and file.offset_lower is not None
            and file.offset_upper is not None
        ):
            total.setdefault(file.partition_lower, []).append((file.offset_lower, file.offset_upper + 1))
    return OffsetRanges.of(total)


def _quarantined(quarantine: Table, ranges: OffsetRanges) -> OffsetRanges:
    from pyiceberg.expressions import And, EqualTo

    from sluice.clients.lake import files

    offsets: dict[int, list[int]] = {}
    rows = And(EqualTo("stage", "consumer"), files.overlapping(ranges))
    for row in files.quarantined(quarantine, rows):
        offsets.setdefault(row[files.PARTITION], []).append(row[files.OFFSET])
    return OffsetRanges(
        {partition: IntervalSet.of_values(values) for partition, values in sorted(offsets.items())}
    )


def check_feed_events(
    spec: StreamSpec, table: Table, expected: OffsetRanges, quarantined: OffsetRanges
) -> Reconciliation:
    """Whether rows with these offsets and quarantined offsets add up to ``expected``, and each of the rows'
    event ids is in the table once. A feed cannot be read again, so the topic's offsets stand for its events.
    Raises ConfigError if the stream declares no feed."""
    from sluice.clients.lake import files
    from sluice.clients.lake.event_ids import count_event_ids

    if spec.feed is None:
        raise ConfigError(f"stream {spec.name!r} declares no [feed], but its load's plan is of a feed")
    found = count_event_ids(table, files.overlapping(expected), spec.feed.event_id, spec.partition_by)
    return reconcile_events(
        total=expected.count,
        published=found.rows,
        quarantined=quarantined.intersect(expected).count,
        missing_id=found.missing_id,
        duplicates=found.duplicates,
    )


# Begins the quarantine reason of a record whose row is published already; it counts as no row.
DUPLICATE = "duplicate:"


def check_source_rows(table: Table, quarantine: Table, source: Document, rows: int) -> Reconciliation:
    """Whether each of the source's ``rows`` rows is published once or quarantined."""
    from pyiceberg.expressions import EqualTo

    from sluice.clients.lake import files

    quarantined = (
        row[files.ROW]
        for row in files.quarantined(quarantine, EqualTo(files.SOURCE, source["source_id"]))
        if not row["reason"].startswith(DUPLICATE)
    )
    return reconcile_rows(rows, files.source_rows(table, source["source_id"]), quarantined)


def check_object_rows(
    hook: PlatformHook, table: Table, quarantine: Table, source: Document
) -> Reconciliation:
    """Whether each row of the pinned version is published once or quarantined."""
    from sluice.clients.objects import ObjectVersion

    names = ("bucket", "key", "version_id", "etag", "size")
    version = ObjectVersion(**{name: source[name] for name in names})
    return check_source_rows(table, quarantine, source, hook.bucket(version.bucket).data_rows(version))
