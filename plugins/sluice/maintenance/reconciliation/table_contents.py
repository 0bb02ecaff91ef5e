"""What a stream's two tables hold, from what an earlier run verified and the files that changed since."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.findings import Finding, FindingName
from sluice.core.json_record import Document
from sluice.core.offsets.offset_set import OffsetSet
from sluice.core.offsets.quarantine import CONSUMER_STAGE
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.rewrites import Rewrites
from sluice.ledger.verified_rewrites import VerifiedRewrites
from sluice.loads.known.verified import VerifiedSources
from sluice.maintenance.reconciliation.history.foreign_commits import ForeignCommitCheck
from sluice.maintenance.reconciliation.history.foreign_files import ForeignFiles
from sluice.maintenance.reconciliation.history.main import ANOTHER, foreign_since, history_findings
from sluice.maintenance.reconciliation.incremental import (
    BatchFile,
    Contents,
    Expected,
    advance,
    content_findings,
    inside,
    range_findings,
    repeated_findings,
)
from sluice.maintenance.reconciliation.on_purpose import Exchanged, ask_for_plans
from sluice.maintenance.reconciliation.portions import Portions, UsedPortions
from sluice.maintenance.reconciliation.report import DAMAGED, kept, no_position, on_top_of
from sluice.maintenance.reconciliation.verified_table import OnPurpose, Verified

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.clients.lake.catalog import Lake
    from sluice.clients.lake.snapshots.accepted_rewrites import Unaccepted
    from sluice.clients.lake.snapshots.table_diff import TableDiff
    from sluice.ledger.batches import BatchLog
    from sluice.ledger.documents import Ledger

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Quarantined:
    """The quarantine as it is now."""

    contents: Contents = field(default_factory=Contents)
    """The offsets that the consumer rejected."""
    on_purpose: OnPurpose = field(default_factory=OnPurpose)
    """Which of their records are there on purpose."""
    table: Table | None = None
    """None without a snapshot."""
    diff: TableDiff | None = None
    """From the state that an earlier run verified."""
    read: int = 0
    """Number of files that were read."""

    def findings(self, name: str) -> list[Finding]:
        return repeated_findings(name, self.diff.repeated) if self.diff else []


class TableContents:
    """The stream's ``table`` and its ``quarantine`` as they are at each :meth:`verify`."""

    def __init__(
        self,
        lake: Lake,
        table: str,
        quarantine: str,
        ledger: Ledger,
        batch_log: Callable[[str], BatchLog],
        *,
        is_by_catalog: bool = False,
    ) -> None:
        """``batch_log``: of a table; ``is_by_catalog``: whether the catalog maintains the tables."""
        self.lake, self.table, self.quarantine, self.ledger = lake, table, quarantine, ledger
        self._batch_log = batch_log
        self._files = ForeignFiles(ledger, lambda: batch_log(table))
        self._foreign = ForeignCommitCheck(ledger, self._files, is_by_catalog)
        # What the newest verification followed, or could not show: a line each.
        self.notes: Sequence[str] = ()
        self.sources = lambda: VerifiedSources(ledger, lake, table)
        # Portions of all of these verifications.
        self.used = UsedPortions()

    def earlier(self, document: Document | None, warn: Callable[..., Any]) -> Verified | None:
        """An earlier run's state, which the history of ``main`` is compared with; None if it is of another
        table: the stream was given a new one."""
        if document is None:
            return None
        earlier = Verified.from_document(document)
        if earlier.table_uuid != self.lake.table_uuid(self.table):
            warn("%s is another table than the last run verified; all of it is verified", self.table)
            return None
        return earlier

    def usable(self, before: Verified, warn: Callable[..., Any]) -> Verified | None:
        """An earlier run's state as the base of the contents; None if the whole tables have to be
        verified."""
        lists = [(self.table, before.manifest_list)]
        lists += [(self.quarantine, before.quarantine_list)] if before.quarantine_list else []
        for name, location in lists:
            if self.lake.location(name) is None or kept(self.lake.table(name), location) is None:
                warn("%s: %s is gone; the whole tables are verified", name, location)
                return None
        return before

    def verify(
        self, before: Verified | None, earlier: Verified | None, again_by: str = ""
    ) -> tuple[list[Finding], Verified | None]:
        """The findings, and the state now unless metadata or files could not be read. ``before``: the base of
        the contents; ``earlier``: of the history, also if all contents are verified; ``again_by``: the run
        that verifies all of them once more, on request: it reads what it has not read itself."""
        since = f"since {earlier.manifest_list}" if earlier else "for the first time"
        scope = f"all by {again_by}" if again_by else f"all {since}"
        try:
            instead = f"{self.table}: the whole tables are verified"
            return on_top_of(before, lambda base: self._verify(base, earlier, scope), instead)
        except Refused as error:
            if error.code is ErrorCode.ROWS_UNPLACED:
                return [Finding(FindingName.OFFSETS_UNEXPECTED, str(error))], None
            if error.code not in DAMAGED:
                raise
            return [Finding(FindingName.METADATA_DAMAGED, str(error))], None

    def _verify(
        self, before: Verified | None, earlier: Verified | None, scope: str
    ) -> tuple[list[Finding], Verified | None]:
        """``scope``: of portions, if all is verified."""
        from sluice.clients.lake.commits import MAIN
        from sluice.clients.lake.position import position
        from sluice.clients.lake.snapshots import table_diff

        # The table before the quarantine: a batch is published there first.
        table = self.lake.table(self.table)
        has_quarantine = self.lake.location(self.quarantine) is not None
        at = position(table, self.lake.table(self.quarantine) if has_quarantine else None)
        snapshot = table.snapshot_by_name(MAIN)
        if at is None or snapshot is None:
            return [no_position(self.table)], None
        if any(end < at.starts.get(partition, 0) for partition, end in at.ends.items()):
            message = f"{self.table}: main says it starts at {at.starts} and ends at {at.ends}"
            return [Finding(FindingName.RANGE_WRONG, message)], None
        found = history_findings(table, earlier, at, lambda: self._batch_log(self.table))
        is_another = bool({one.name for one in found} & ANOTHER)
        before = None if is_another else before
        rejected = self._quarantined(before, scope)
        quarantine = rejected.contents
        diff = table_diff.diff(table, before.manifest_list if before else None)
        if diff is None:
            raise RuntimeError(f"{self.table}: no snapshot, and it had one")
        found += [*repeated_findings(self.table, diff.repeated), *rejected.findings(self.quarantine)]
        since = foreign_since(table, diff, earlier) if is_another and earlier else (diff, earlier)
        foreign = self._foreign.of_table(table, *since)
        if rejected.table is not None and rejected.diff is not None:
            foreign = foreign.more(self._foreign.of_quarantine(rejected.table, rejected.diff, earlier))
        found += foreign.findings
        self.notes = foreign.notes
        portions = self._portions(before, scope)
        contents, read = self._contents(table, diff, before, portions, found)
        known = before.without_record if before else OffsetSet()
        expected = Expected(at.starts, at.ends, self._removed(table), known)
        # The batches are asked only if there are gaps.
        if missing := expected.missing(contents, quarantine):
            expected = replace(expected, without_record=known.union(self._without_record(missing)))
        found += content_findings(expected, contents, quarantine)
        newest = rejected.table.snapshot_by_name(MAIN) if rejected.table else None
        now = Verified(
            self.table,
            str(table.metadata.table_uuid),
            snapshot.snapshot_id,
            snapshot.sequence_number or 0,
            snapshot.timestamp_ms,
            Rewrites.of(table.properties).count,
            diff.manifest_list,
            rejected.diff.manifest_list if rejected.diff else None,
            dict(at.starts),
            dict(at.ends),
            contents.present,
            quarantine.present,
            len(diff.added) + len(diff.removed),
            read + rejected.read,
            diff.manifests,
            at.malformed,
            rejected.on_purpose,
            without_record=expected.without_record,
            quarantine_snapshot_id=newest.snapshot_id if newest else None,
            quarantine_sequence_number=(newest.sequence_number or 0) if newest else 0,
        )
        return found, now

    def _contents(
        self,
        table: Table,
        diff: TableDiff,
        before: Verified | None,
        portions: Portions,
        found: list[Finding],
    ) -> tuple[Contents, int]:
        """The table's offsets, and how many files were read."""
        from sluice.clients.lake.snapshots import table_diff
        from sluice.core.offsets.counts import Counts, add_offsets

        verified = before.present if before else OffsetSet()
        rest = self._unaccepted(table, diff, before)
        removed, to_read = Counts[int](), []
        for file, stats in zip(rest.removed, table_diff.stats_of(table, rest.removed), strict=True):
            known = inside(stats, verified)
            if known is None:
                to_read.append(file)
            else:
                add_offsets(removed, known)
        removed.add_counts(portions.count(table, to_read))

        by_summary = table_diff.batch_ranges(table, [one.snapshot_id for one in rest.added])
        # The log says it of batches that have expired, as far as it was asked about them.
        batches = by_summary.keys() | self._files.batches.keys()
        added = table_diff.stats_of(table, [one.file for one in rest.added])
        # Only a batch's file is without repetitions for sure: a rewrite's is read, and one with gaps.
        conclusive = [
            stats.is_conclusive and one.snapshot_id in batches
            for one, stats in zip(rest.added, added, strict=True)
        ]
        unknown = [one.file for one, is_known in zip(rest.added, conclusive, strict=True) if not is_known]
        by_metadata = [stats for stats, is_known in zip(added, conclusive, strict=True) if is_known]
        of_batches = [
            BatchFile(stats, one.snapshot_id)
            for one, stats in zip(rest.added, added, strict=True)
            if one.snapshot_id is not None and one.snapshot_id in batches
        ]

        def said(snapshot_id: int) -> OffsetRanges:
            text = by_summary.get(snapshot_id)
            return self._files.batches[snapshot_id] if text is None else OffsetRanges.of_batch(text)

        found += range_findings(of_batches, said)
        come = portions.count(table, unknown)
        for stats in by_metadata:
            stats.count(come)
        return advance(verified, removed, come), len(to_read) + len(unknown)

    def _unaccepted(self, table: Table, diff: TableDiff, before: Verified | None) -> Unaccepted:
        """The files that are to be looked at: without a base that was verified all of them."""
        from sluice.clients.lake.snapshots import table_diff
        from sluice.clients.lake.snapshots.accepted_rewrites import Unaccepted, without_accepted

        if before is None:
            found = Unaccepted(diff.removed, diff.added)
        else:
            found = without_accepted(table, diff, VerifiedRewrites(self.ledger).document)
        # Files of deleted rows are a finding by themselves, and have no offsets.
        return Unaccepted(
            [one for one in found.removed if table_diff.is_data(one)],
            [one for one in found.added if table_diff.is_data(one.file)],
        )

    def _portions(self, before: Verified | None, scope: str) -> Portions:
        return Portions(self.ledger, before.manifest_list if before else scope, self.used)

    def _quarantined(self, before: Verified | None, scope: str) -> Quarantined:
        from pyiceberg.expressions import EqualTo

        from sluice.clients.lake.snapshots import table_diff

        if self.lake.location(self.quarantine) is None:
            return Quarantined()
        table = self.lake.table(self.quarantine)
        diff = table_diff.diff(table, before.quarantine_list if before else None)
        if diff is None:
            return Quarantined()
        rows = EqualTo("stage", CONSUMER_STAGE)
        # A base without the quarantine's list has none of its offsets.
        base = before if before and before.quarantine_list else None
        rest = self._unaccepted(table, diff, base)
        added = [one.file for one in rest.added]
        portions = self._portions(base, scope)
        gone, come = portions.count(table, rest.removed, rows), portions.count(table, added, rows)
        verified = base.quarantined if base else OffsetSet()
        contents = advance(verified, gone, come)
        exchanged = Exchanged.of(table, rest.removed, added, verified)
        known = base.on_purpose if base else OnPurpose()
        on_purpose = ask_for_plans(known, self.ledger, exchanged, self.sources)
        return Quarantined(contents, on_purpose, table, diff, len(rest.removed) + len(rest.added))

    def _without_record(self, missing: OffsetSet) -> OffsetSet:
        """Those of the missing offsets that batches recorded as without a record."""
        log, found = self._batch_log(self.table), OffsetSet()
        for piece in missing.pieces():
            found = found.union(OffsetSet.of(log.without_record(piece).offsets))
        return found

    def _removed(self, table: Table) -> OffsetRanges:
        """The offsets that changes took out on purpose; one GET if there are any."""
        from sluice.clients.lake.changes import published_changes, removed_by

        # From the state whose files are compared: a change may be published meanwhile.
        return removed_by(self.ledger.client, published_changes(table)).removed
