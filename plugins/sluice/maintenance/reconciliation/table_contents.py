"""What a stream's two tables hold, from what an earlier run verified and the files that changed since."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.findings import Finding, FindingName
from sluice.core.json_record import Document
from sluice.core.offsets.quarantine import CONSUMER_STAGE
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.verify import EMPTY
from sluice.core.tables.continuity import covers
from sluice.core.tables.rewrites import Rewrites
from sluice.ledger.verified_rewrites import VerifiedRewrites
from sluice.maintenance.reconciliation.foreign_commits import ForeignCommitCheck
from sluice.maintenance.reconciliation.foreign_files import ForeignFiles
from sluice.maintenance.reconciliation.incremental import (
    BatchFile,
    Contents,
    Expected,
    advance,
    content_findings,
    inside,
    range_findings,
)
from sluice.maintenance.reconciliation.on_purpose import Exchanged, ask_for_plans
from sluice.maintenance.reconciliation.portions import Portions
from sluice.maintenance.reconciliation.report import no_position
from sluice.maintenance.reconciliation.verified_table import OnPurpose, Verified

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.clients.lake.catalog import Lake
    from sluice.clients.lake.snapshots.accepted_rewrites import Unaccepted
    from sluice.clients.lake.snapshots.table_diff import TableDiff
    from sluice.ledger.batches import BatchLog
    from sluice.ledger.documents import Ledger

log = logging.getLogger(__name__)
B = TypeVar("B")
T = TypeVar("T")

DAMAGED = frozenset({ErrorCode.CORRUPT_OBJECT, ErrorCode.LAKE_FILE_MISSING})


def kept(table: Table, manifest_list: str | None) -> str | None:
    """The manifest list, if the bucket still has it: once it is deleted it is no base."""
    if manifest_list is None or not table.io.new_input(manifest_list).exists():
        return None
    return manifest_list


def on_top_of(base: B | None, look: Callable[[B | None], T], instead: str) -> T:
    """What ``look`` finds from ``base`` or, if a file is gone, without it, which the log says as ``instead``:
    who maintains the table deletes one by one the files that the base has and the table has not."""
    try:
        return look(base)
    except Refused as error:
        if base is None or error.code is not ErrorCode.LAKE_FILE_MISSING:
            raise
        log.warning("%s, since a file is gone: %s", instead, error)
        return look(None)


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
        scope: str = "",
    ) -> None:
        """``batch_log``: of a table; ``is_by_catalog``: whether the catalog maintains the tables; ``scope``:
        the run, within which files are read once also if all of them are."""
        self.lake, self.table, self.quarantine, self.ledger = lake, table, quarantine, ledger
        self._batch_log, self._scope = batch_log, scope
        files = ForeignFiles(ledger, lambda: batch_log(table))
        self._foreign = ForeignCommitCheck(ledger, files, is_by_catalog)
        # What the newest verification followed, or could not show: a line each.
        self.notes: Sequence[str] = ()

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
        self, before: Verified | None, earlier: Verified | None
    ) -> tuple[list[Finding], Verified | None]:
        """The findings, and the state now unless metadata or files could not be read. ``before``: the base of
        the contents; ``earlier``: of the history, also if all contents are verified."""
        try:
            instead = f"{self.table}: the whole tables are verified"
            return on_top_of(before, lambda base: self._verify(base, earlier), instead)
        except Refused as error:
            if error.code not in DAMAGED:
                raise
            return [Finding(FindingName.METADATA_DAMAGED, str(error))], None

    def _verify(
        self, before: Verified | None, earlier: Verified | None
    ) -> tuple[list[Finding], Verified | None]:
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
        found = self._history(table, earlier, at.ends)
        if {one.name for one in found} & {FindingName.TABLE_RESTORED, FindingName.MAIN_MOVED}:
            before = None
        quarantine, on_purpose, quarantine_list, changed = self._quarantined(before)
        diff = table_diff.diff(table, before.manifest_list if before else None)
        if diff is None:
            raise RuntimeError(f"{self.table}: no snapshot, and it had one")
        foreign = self._foreign.of_table(table, diff, earlier)
        if has_quarantine:
            foreign = foreign.more(self._foreign.of_quarantine(self.lake.table(self.quarantine), earlier))
        found += foreign.findings
        self.notes = foreign.notes
        contents, read = self._contents(table, diff, before, quarantine.present, found)
        if any(end < at.starts.get(partition, 0) for partition, end in at.ends.items()):
            message = f"{self.table}: main says it starts at {at.starts} and ends at {at.ends}"
            return [*found, Finding(FindingName.RANGE_WRONG, message)], None
        known = before.without_record if before else EMPTY
        expected = Expected(at.starts, at.ends, self._removed(table), known)
        # The batches are asked only if there are gaps.
        if missing := expected.missing(contents, quarantine):
            recorded = self._batch_log(self.table).without_record(missing)
            expected = replace(expected, without_record=known.union(recorded.offsets))
        found += content_findings(expected, contents, quarantine)
        now = Verified(
            self.table,
            str(table.metadata.table_uuid),
            snapshot.snapshot_id,
            snapshot.sequence_number or 0,
            snapshot.timestamp_ms,
            Rewrites.of(table.properties).count,
            diff.manifest_list,
            quarantine_list,
            dict(at.ends),
            contents.present,
            quarantine.present,
            len(diff.added) + len(diff.removed),
            read + changed,
            diff.manifests,
            at.malformed,
            on_purpose,
            without_record=expected.without_record,
        )
        return found, now

    def _history(self, table: Table, earlier: Verified | None, ends: dict[int, int]) -> list[Finding]:
        from sluice.clients.lake.snapshots import table_diff

        found = []
        if earlier is not None and not covers(ends, earlier.ends):
            message = f"{self.table} ends at {ends}, and the last run verified it to {earlier.ends}"
            found.append(Finding(FindingName.TABLE_RESTORED, message))
        elif earlier is not None and table_diff.is_off_main(table, earlier.snapshot_id):
            message = f"snapshot {earlier.snapshot_id}, which the last run verified, is no ancestor of main"
            found.append(Finding(FindingName.MAIN_MOVED, message))
        return found

    def _contents(
        self,
        table: Table,
        diff: TableDiff,
        before: Verified | None,
        quarantined: OffsetRanges,
        found: list[Finding],
    ) -> tuple[Contents, int]:
        """The table's offsets, and how many files were read."""
        from sluice.clients.lake.snapshots import table_diff
        from sluice.core.offsets.counts import Counts, add_offsets

        verified = before.present if before else EMPTY
        rest = self._unaccepted(table, diff, before)
        removed, to_read = Counts[int](), []
        for file, stats in zip(rest.removed, table_diff.stats_of(table, rest.removed), strict=True):
            known = inside(stats, verified)
            if known is None:
                to_read.append(file)
            else:
                add_offsets(removed, known)
        portions = self._portions(before)
        removed.add_counts(portions.count(table, to_read))

        said = table_diff.batch_ranges(table, [one.snapshot_id for one in rest.added])
        added = table_diff.stats_of(table, [one.file for one in rest.added])
        # Only a batch's file is without repetitions for sure: a rewrite's is read.
        conclusive = [
            stats.is_conclusive(quarantined) and one.snapshot_id in said
            for one, stats in zip(rest.added, added, strict=True)
        ]
        unknown = [one.file for one, is_known in zip(rest.added, conclusive, strict=True) if not is_known]
        by_metadata = [stats for stats, is_known in zip(added, conclusive, strict=True) if is_known]
        of_batches = [
            BatchFile(stats, one.snapshot_id, OffsetRanges.of_batch(said[one.snapshot_id]))
            for one, stats in zip(rest.added, added, strict=True)
            if one.snapshot_id is not None and one.snapshot_id in said
        ]
        found += range_findings(of_batches)
        come = portions.count(table, unknown)
        for stats in by_metadata:
            stats.count(come, quarantined)
        return advance(verified, removed, come), len(to_read) + len(unknown)

    def _unaccepted(self, table: Table, diff: TableDiff, before: Verified | None) -> Unaccepted:
        """The files that are to be looked at: without a base that was verified all of them."""
        from sluice.clients.lake.snapshots.accepted_rewrites import Unaccepted, without_accepted

        if before is None:
            return Unaccepted(diff.removed, diff.added)
        return without_accepted(table, diff, VerifiedRewrites(self.ledger).document)

    def _portions(self, before: Verified | None) -> Portions:
        return Portions(self.ledger, before.manifest_list if before else f"all by {self._scope}")

    def _quarantined(self, before: Verified | None) -> tuple[Contents, OnPurpose, str | None, int]:
        """The rejected records' offsets, those of them that are there on purpose, the manifest list, and how
        many files were read."""
        from pyiceberg.expressions import EqualTo

        from sluice.clients.lake.snapshots import table_diff

        if self.lake.location(self.quarantine) is None:
            return Contents(), OnPurpose(), None, 0
        table = self.lake.table(self.quarantine)
        diff = table_diff.diff(table, before.quarantine_list if before else None)
        if diff is None:
            return Contents(), OnPurpose(), None, 0
        rows = EqualTo("stage", CONSUMER_STAGE)
        # A base without the quarantine's list has none of its offsets.
        base = before if before and before.quarantine_list else None
        rest = self._unaccepted(table, diff, base)
        added = [one.file for one in rest.added]
        portions = self._portions(base)
        gone, come = portions.count(table, rest.removed, rows), portions.count(table, added, rows)
        verified = base.quarantined if base else EMPTY
        contents = advance(verified, gone, come)
        exchanged = Exchanged.of(table, rest.removed, added, verified)
        on_purpose = ask_for_plans(base.on_purpose if base else OnPurpose(), self.ledger, exchanged)
        return contents, on_purpose, diff.manifest_list, len(rest.removed) + len(rest.added)

    def _removed(self, table: Table) -> OffsetRanges:
        """The offsets that changes took out on purpose; one GET if there are any."""
        from sluice.clients.lake.changes import published_changes, removed_by

        # From the state whose files are compared: a change may be published meanwhile.
        return removed_by(self.ledger.client, published_changes(table)).removed
