"""What a stream's two tables hold, from what an earlier run verified and the files that changed since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Refused
from sluice.hooks.on_purpose import Exchanged, OnPurpose
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.ledger import Document
from sluice.model.verification.findings import Finding, FindingName
from sluice.model.verification.incremental import (
    BatchFile,
    Contents,
    Expected,
    advance,
    content_findings,
    inside,
    range_findings,
)
from sluice.model.verification.lineage import covers
from sluice.model.verification.offsets import EMPTY
from sluice.model.verification.ranges import OffsetRanges
from sluice.model.verification.rejection import MIN_MALFORMED, Share

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.clients.lake.catalog import Lake
    from sluice.clients.lake.table_diff import TableDiff
    from sluice.clients.ledger import Ledger

DAMAGED = frozenset({ErrorCode.CORRUPT_OBJECT, ErrorCode.LAKE_FILE_MISSING})


# Malformed records of runs that have too few by themselves are counted together for so long.
ADD_UP = timedelta(days=1)


@dataclass(frozen=True)
class Base:
    """What malformed records are counted from, ``at`` this time: end offsets, and number until then."""

    at: datetime
    ends: dict[int, int]
    malformed: int

    def to_json(self) -> Document:
        ends = {str(partition): end for partition, end in self.ends.items()}
        return {"at": self.at.isoformat(), "ends": ends, "malformed": self.malformed}

    @classmethod
    def from_json(cls, document: Document) -> Base:
        ends = {int(partition): end for partition, end in document["ends"].items()}
        return cls(datetime.fromisoformat(document["at"]), ends, document["malformed"])


@dataclass(frozen=True)
class Verified:
    """The state of ``table`` that a run verified: manifest lists of the tables, offsets in each. ``files``,
    ``read``, ``manifests``: what it cost. ``malformed``: number of records that were rejected so far, and not
    on purpose; of those that say that they are there ``on_purpose``, the unplanned ones are. ``base``: of the
    malformed records that no run has judged yet; None: the run before."""

    table: str
    table_uuid: str
    snapshot_id: int
    manifest_list: str
    quarantine_list: str | None
    ends: dict[int, int]
    present: OffsetRanges
    quarantined: OffsetRanges
    files: int = 0
    read: int = 0
    manifests: int = 0
    malformed: int = 0
    on_purpose: OnPurpose = field(default_factory=OnPurpose)
    base: Base | None = None

    @property
    def count(self) -> int:
        return self.present.count + self.quarantined.count

    def quarantined_since(self, earlier: Verified | Base | None) -> int:
        return self.quarantined.minus(_until(earlier)).count

    def rejected_since(self, earlier: Verified | Base | None) -> Share:
        """The malformed records that are in quarantine, of those that were published since ``earlier``."""
        malformed = self.malformed - (earlier.malformed if earlier else 0)
        # A change may have published some of them.
        malformed = max(min(malformed, self.quarantined_since(earlier)), 0)
        return Share(malformed, self.present.minus(_until(earlier)).count + malformed)

    def counted(self, earlier: Verified | None, now: datetime) -> Verified:
        """With the base of the next run: the one of ``earlier``, until enough were malformed since then to be
        judged, or a day has passed. Without any since then, later records begin at this state."""
        here = Base(now, self.ends, self.malformed)
        base = (earlier.base if earlier else None) or Base(now, {}, 0)
        malformed = self.rejected_since(base).malformed
        is_kept = 0 < malformed < MIN_MALFORMED and now - base.at < ADD_UP and covers(self.ends, base.ends)
        return replace(self, base=base if is_kept else here)

    def to_document(self) -> Document:
        values = {name: value for name, value in asdict(self).items() if name not in (*_RANGES, "base")}
        ends = {str(partition): end for partition, end in self.ends.items()}
        ranges = {name: getattr(self, name).to_json() for name in _RANGES}
        return {**values, "ends": ends, **ranges, "base": self.base and self.base.to_json()}

    @classmethod
    def from_document(cls, document: Document) -> Verified:
        return cls(
            document["table"],
            document["table_uuid"],
            document["snapshot_id"],
            document["manifest_list"],
            document["quarantine_list"],
            {int(partition): end for partition, end in document["ends"].items()},
            OffsetRanges.from_json(document["present"]),
            OffsetRanges.from_json(document["quarantined"]),
            malformed=document["malformed"],
            on_purpose=OnPurpose(**document["on_purpose"]),
            base=Base.from_json(document["base"]) if document.get("base") else None,
        )


_RANGES = ("present", "quarantined")


def _until(earlier: Verified | Base | None) -> OffsetRanges:
    return OffsetRanges.from_ends({}, earlier.ends) if earlier else EMPTY


def kept(table: Table, manifest_list: str | None) -> str | None:
    """The manifest list, if the bucket still has it: once it is deleted it is no base."""
    if manifest_list is None or not table.io.new_input(manifest_list).exists():
        return None
    return manifest_list


class TableContents:
    """The stream's ``table`` and its ``quarantine`` as they are at each :meth:`verify`."""

    def __init__(self, lake: Lake, table: str, quarantine: str, ledger: Ledger) -> None:
        self.lake, self.table, self.quarantine, self.ledger = lake, table, quarantine, ledger

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
            return self._verify(before, earlier)
        except Refused as error:
            if error.code not in DAMAGED:
                raise
            return [Finding(FindingName.METADATA_DAMAGED, str(error))], None

    def _verify(
        self, before: Verified | None, earlier: Verified | None
    ) -> tuple[list[Finding], Verified | None]:
        from sluice.clients.lake import table_diff
        from sluice.clients.lake.catalog import MAIN, position

        # The table before the quarantine: a batch is published there first.
        table = self.lake.table(self.table)
        has_quarantine = self.lake.location(self.quarantine) is not None
        at = position(table, self.lake.table(self.quarantine) if has_quarantine else None)
        snapshot = table.snapshot_by_name(MAIN)
        if at is None or snapshot is None:
            message = f"{self.table}: no snapshot of main that is kept says what it has published"
            return [Finding(FindingName.MAIN_MOVED, message)], None
        found = self._history(table, earlier, at.ends)
        if {one.name for one in found} & {FindingName.TABLE_RESTORED, FindingName.MAIN_MOVED}:
            before = None
        quarantine, on_purpose, quarantine_list, changed = self._quarantined(before)
        diff = table_diff.diff(table, before.manifest_list if before else None)
        if diff is None:
            raise RuntimeError(f"{self.table}: no snapshot, and it had one")
        if diff.has_deletes:
            message = f"{self.table} has files of deleted rows, which no stream writes"
            found.append(Finding(FindingName.FOREIGN_COMMIT, message))
        contents, read = self._contents(table, diff, before, quarantine.present, found)
        if any(end < at.starts.get(partition, 0) for partition, end in at.ends.items()):
            message = f"{self.table}: main says it starts at {at.starts} and ends at {at.ends}"
            return [*found, Finding(FindingName.RANGE_WRONG, message)], None
        expected = Expected(at.starts, at.ends, self._removed(table))
        found += content_findings(expected, contents, quarantine)
        now = Verified(
            self.table,
            str(table.metadata.table_uuid),
            snapshot.snapshot_id,
            diff.manifest_list,
            quarantine_list,
            dict(at.ends),
            contents.present,
            quarantine.present,
            len(diff.added) + len(diff.removed),
            read + changed,
            diff.manifests,
            at.malformed + on_purpose.unplanned,
            on_purpose,
        )
        return found, now

    def _history(self, table: Table, earlier: Verified | None, ends: dict[int, int]) -> list[Finding]:
        from sluice.clients.lake import table_diff

        found = []
        if earlier is not None and not covers(ends, earlier.ends):
            message = f"{self.table} ends at {ends}, and the last run verified it to {earlier.ends}"
            found.append(Finding(FindingName.TABLE_RESTORED, message))
        elif earlier is not None and table_diff.is_off_main(table, earlier.snapshot_id):
            message = f"snapshot {earlier.snapshot_id}, which the last run verified, is no ancestor of main"
            found.append(Finding(FindingName.MAIN_MOVED, message))
        for snapshot in table_diff.foreign_commits(table, earlier.snapshot_id if earlier else None):
            operation = snapshot.summary.operation.value if snapshot.summary else "unknown"
            message = (
                f"snapshot {snapshot.snapshot_id} ({operation}) is neither the stream's nor maintenance's"
            )
            found.append(Finding(FindingName.FOREIGN_COMMIT, message))
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
        from sluice.clients.lake import table_diff

        verified = before.present if before else EMPTY
        removed, to_read = EMPTY, []
        for file, stats in zip(diff.removed, table_diff.stats_of(table, diff.removed), strict=True):
            known = inside(stats, verified)
            if known is None:
                to_read.append(file)
            else:
                removed = removed.union(known)
        removed = removed.union(Contents.of([], table_diff.read_columns(table, to_read), EMPTY).present)

        said = table_diff.batch_ranges(table, [one.snapshot_id for one in diff.added])
        added = table_diff.stats_of(table, [one.file for one in diff.added])
        # Only a batch's file is without repetitions for sure: a rewrite's is read.
        conclusive = [
            stats.is_conclusive(quarantined) and one.snapshot_id in said
            for one, stats in zip(diff.added, added, strict=True)
        ]
        unknown = [one.file for one, is_known in zip(diff.added, conclusive, strict=True) if not is_known]
        by_metadata = [stats for stats, is_known in zip(added, conclusive, strict=True) if is_known]
        of_batches = [
            BatchFile(stats, one.snapshot_id, OffsetRanges.of_batch(said[one.snapshot_id]))
            for one, stats in zip(diff.added, added, strict=True)
            if one.snapshot_id is not None and one.snapshot_id in said
        ]
        found += range_findings(of_batches)
        come = Contents.of(by_metadata, table_diff.read_columns(table, unknown), quarantined)
        return advance(verified, removed, come), len(to_read) + len(unknown)

    def _quarantined(self, before: Verified | None) -> tuple[Contents, OnPurpose, str | None, int]:
        """The rejected records' offsets, those of them that are there on purpose, the manifest list, and how
        many files were read."""
        from pyiceberg.expressions import EqualTo

        from sluice.clients.lake import table_diff

        if self.lake.location(self.quarantine) is None:
            return Contents(), OnPurpose(), None, 0
        table = self.lake.table(self.quarantine)
        diff = table_diff.diff(table, before.quarantine_list if before else None)
        if diff is None:
            return Contents(), OnPurpose(), None, 0
        rows = EqualTo("stage", "consumer")
        added = [one.file for one in diff.added]
        gone = Contents.of([], table_diff.read_columns(table, diff.removed, rows), EMPTY)
        come = Contents.of([], table_diff.read_columns(table, added, rows), EMPTY)
        # A base without the quarantine's list has none of its offsets.
        base = before if before and before.quarantine_list else None
        verified = base.quarantined if base else EMPTY
        contents = advance(verified, gone.present, come)
        exchanged = Exchanged.of(table, diff.removed, added, verified)
        on_purpose = (base.on_purpose if base else OnPurpose()).advance(self.ledger, exchanged)
        return contents, on_purpose, diff.manifest_list, len(diff.removed) + len(diff.added)

    def _removed(self, table: Table) -> OffsetRanges:
        """The offsets that changes took out on purpose; one GET if there are any."""
        from sluice.clients.lake.catalog import published_changes
        from sluice.clients.s3 import removed_by

        # Of the state whose files are compared: a change may be published meanwhile.
        return removed_by(self.ledger.client, published_changes(table)).removed
