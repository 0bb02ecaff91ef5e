"""Offsets, rows, events of a load against the table.

The coordinates of a load: is every offset of its range set in the table or the quarantine, once?

What a feed gave during a load, against what became of it.

The numbered rows of a source against what became of them.

The rows of a source object, streamed again, against what became of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.model.spec.config import ConfigError
from sluice.model.verification.offsets import Proof, needs_read, verify
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
    """``quarantined``: the offsets of the range set that are in quarantine; ``files``: data files that may
    hold any of them, ``read`` of which metadata could not settle."""

    proof: Proof
    quarantined: OffsetRanges
    files: int
    read: int

    def message(self) -> str:
        """One line for the log."""
        return (
            f"{self.files} data files may hold the load's offsets, {self.read} had to be read; "
            f"{self.quarantined.count} offsets are in quarantine"
        )


def check_offsets(table: Table, quarantine: Table, expected: OffsetRanges) -> OffsetCheck:
    """Prove ``expected`` from file metadata, and from two columns of the files that it cannot settle."""
    from sluice.clients.lake import files

    tasks = files.plan(table, files.overlapping(expected))
    facts = files.facts(table, tasks)
    # A file may reach beyond the load's range, so its holes may lie there too.
    explained = _explained(quarantine, expected.union(file_bounds(facts)))
    unsettled = {fact.path for fact in needs_read(expected, facts, explained)}
    offsets = files.coordinates(table, tasks, unsettled) if unsettled else {}
    proof = verify(expected, facts, offsets, quarantined=explained, allow_outside=True)
    return OffsetCheck(proof, explained.intersect(expected), len(facts), len(unsettled))


def file_bounds(facts: Sequence[FileStats]) -> OffsetRanges:
    """The offsets between each file's bounds, where metadata gives its one partition and both bounds."""
    total: dict[int, list[tuple[int, int]]] = {}
    for fact in facts:
        if (
            fact.partition_lower is not None
            and fact.partition_lower == fact.partition_upper
            and fact.offset_lower is not None
            and fact.offset_upper is not None
        ):
            total.setdefault(fact.partition_lower, []).append((fact.offset_lower, fact.offset_upper + 1))
    return OffsetRanges.of(total)


def _explained(quarantine: Table, within: OffsetRanges) -> OffsetRanges:
    from pyiceberg.expressions import And, EqualTo

    from sluice.clients.lake import files

    offsets: dict[int, list[int]] = {}
    rows = And(EqualTo("stage", "consumer"), files.overlapping(within))
    for row in files.quarantined(quarantine, rows):
        offsets.setdefault(row[files.PARTITION], []).append(row[files.OFFSET])
    return OffsetRanges(
        {partition: IntervalSet.of_values(values) for partition, values in sorted(offsets.items())}
    )


def check_feed_events(
    spec: StreamSpec, table: Table, expected: OffsetRanges, quarantined: OffsetRanges
) -> Reconciliation:
    """Whether the offsets of ``expected`` are as many as rows of the table with one of them and offsets in
    quarantine together, and each of these rows' event ids is in the table once. A feed cannot be asked again,
    so the topic's offsets stand for what it gave. Raises ConfigError where the stream declares no feed."""
    from sluice.clients.lake import files
    from sluice.clients.lake.event_ids import count_event_ids

    if spec.feed is None:
        raise ConfigError(f"stream {spec.name!r} declares no [feed], and its load's plan is of one")
    found = count_event_ids(table, files.overlapping(expected), spec.feed.event_id, spec.partition_by)
    return reconcile_events(
        total=expected.count,
        published=found.rows,
        quarantined=quarantined.intersect(expected).count,
        missing_id=found.nameless,
        duplicates=found.twice,
    )


# Begins the quarantine reason of a record whose row is published already; it stands for no row of its own.
DUPLICATE = "duplicate:"


def check_generated_rows(table: Table, quarantine: Table, source: Document, rows: int) -> Reconciliation:
    """Whether each of the source's ``rows`` rows is published once or quarantined."""
    from pyiceberg.expressions import EqualTo

    from sluice.clients.lake import files

    aside = (
        row[files.ROW]
        for row in files.quarantined(quarantine, EqualTo(files.SOURCE, source["source_id"]))
        if not row["reason"].startswith(DUPLICATE)
    )
    return reconcile_rows(rows, files.source_rows(table, source["source_id"]), aside)


def check_object_rows(
    hook: PlatformHook, table: Table, quarantine: Table, source: Document
) -> Reconciliation:
    """Whether each row of the pinned version is published once or quarantined."""
    from sluice.clients.objects import ObjectVersion

    names = ("bucket", "key", "version_id", "etag", "size")
    version = ObjectVersion(**{name: source[name] for name in names})
    return check_generated_rows(table, quarantine, source, hook.bucket(version.bucket).data_rows(version))
