"""Commits of other programs to a stream's tables: rewrites with the same rows, and findings.

A managed catalog compacts by itself: its snapshots have none of the stream's properties, and their operation
is ``replace``. Where the catalog maintains the tables by declaration, such a rewrite is verified as an own
one is (:mod:`sluice.clients.lake.snapshots.rewrites`), the stream's table offset by offset, and recorded like
one, so that it is known after it has expired. Without the declaration it is a finding: what the program did
to other values is not known. Every other commit of another program is one too, and so is a rewrite that lost,
repeated or added rows.

One that expired before anybody looked is not known to be a rewrite. Where the catalog maintains the tables,
that is said, and what the table holds now is verified as always; elsewhere it is a finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.findings import Finding, FindingName
from sluice.core.messages import summarize
from sluice.core.tables.rewrites import id_of_foreign, verified_document
from sluice.core.tables.storage import REPLACE
from sluice.ledger.verified_rewrites import VerifiedRewrites
from sluice.maintenance.reconciliation.history.main import quarantine_findings

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from sluice.clients.lake.snapshots.table_diff import AddedFile, TableDiff
    from sluice.ledger.documents import Ledger
    from sluice.maintenance.reconciliation.history.foreign_files import ForeignFiles
    from sluice.maintenance.reconciliation.verified_table import Verified

# What is known of rows that cannot be compared.
_OFFSETS_ONLY = "its rows cannot be compared; the offsets that the table holds now are verified instead"
_MAY_BE_OTHER = f"{_OFFSETS_ONLY}; it may have been no rewrite: replay what you doubt"
_CONSUMERS_ONLY = (
    "its rows cannot be compared; what the consumer rejected is verified instead, and rows that producers "
    "rejected are not"
)
_DECLARED = (
    'if the catalog maintains the tables, declare it ([lake] maintenance = "catalog"); else end the program, '
    "and replay what it may have altered"
)


@dataclass(frozen=True)
class ForeignCommits:
    """``findings``: what a person has to look at; ``notes``: what was followed, and what could not be shown,
    each a line."""

    findings: Sequence[Finding] = ()
    notes: Sequence[str] = ()

    def more(self, other: ForeignCommits) -> ForeignCommits:
        return ForeignCommits([*self.findings, *other.findings], [*self.notes, *other.notes])


@dataclass
class ForeignCommitCheck:
    """``is_by_catalog``: whether the catalog maintains the tables by declaration; ``files``: which files of
    the stream's table no known commit added."""

    ledger: Ledger
    files: ForeignFiles
    is_by_catalog: bool
    _verified: VerifiedRewrites = field(init=False)

    def __post_init__(self) -> None:
        self._verified = VerifiedRewrites(self.ledger)

    def of_table(self, table: Table, diff: TableDiff, earlier: Verified | None) -> ForeignCommits:
        """Those of the stream's table: the kept ones after ``earlier``, and of expired ones those whose
        files are there. Reads the offsets of the files that new rewrites exchanged; of one that is recorded
        a GET."""
        from sluice.clients.lake.snapshots import table_diff

        newest = earlier.snapshot_id if earlier else None
        commits = {one.snapshot_id: one for one in table_diff.foreign_commits(table, newest)}
        found = ForeignCommits()
        for snapshot in commits.values():
            found = found.more(self._of_snapshot(table, snapshot))
        if earlier:
            found = found.more(self._expired(table, diff.added, earlier, commits))
        return found.more(_with_deletes(table, diff))

    def of_quarantine(self, table: Table, diff: TableDiff, earlier: Verified | None) -> ForeignCommits:
        """Those of the quarantine after the ``earlier`` state, as far as they are kept: all columns but bytes
        are compared, since a producer's row has no offset."""
        return self._of_quarantine(table, earlier).more(_with_deletes(table, diff))

    def _of_quarantine(self, table: Table, earlier: Verified | None) -> ForeignCommits:
        from sluice.clients.lake.commits import ancestors
        from sluice.clients.lake.snapshots import rewrites, table_diff

        found, oldest = ForeignCommits(), None
        for snapshot in ancestors(table):
            if earlier and snapshot.manifest_list == earlier.quarantine_list:
                return found
            if not table_diff.is_own(snapshot):
                found = found.more(self._of_snapshot(table, snapshot, rewrites.without_binary(table)))
            if earlier is None:
                return found
            oldest = snapshot
        # Before its first snapshot a quarantine has no rows.
        is_whole = oldest is None or (oldest.sequence_number or 0) <= 1
        if earlier is None or (earlier.quarantine_list is None and is_whole):
            return found
        if restored := quarantine_findings(table, earlier):
            return found.more(ForeignCommits(restored))
        # By own commits, too; and files do not tell: one that came and went since is in neither.
        note = (
            f"{_name(table)}: commits since the last run have expired; rows that producers rejected cannot "
            "be compared"
        )
        return found.more(ForeignCommits(notes=[note]))

    def _of_snapshot(
        self, table: Table, snapshot: Snapshot, columns: Sequence[str] | None = None
    ) -> ForeignCommits:
        """``columns``: those by which its rows are compared; None: by their offsets, one by one."""
        from sluice.clients.lake.snapshots import rewrites

        number, operation, name = snapshot.snapshot_id, _operation(snapshot), _name(table)
        said = f"snapshot {number} ({operation}) of {name}"
        if operation != REPLACE:
            return _finding(f"{said} is neither the stream's nor maintenance's")
        if self._verified.is_verified(id_of_foreign(number)):
            return ForeignCommits(notes=[f"{said}: a rewrite of another program, verified before"])
        what, unseen = (
            f"{said} is a rewrite of another program",
            _CONSUMERS_ONLY if columns else _OFFSETS_ONLY,
        )
        if rewrites.parent_of(table, snapshot) is None:
            return self._unseen(f"{what}, and the snapshot before it has expired", unseen)
        try:
            if columns is None:
                rewrite = rewrites.compared_by_offsets(table, snapshot)
            else:
                rewrite = rewrites.compared(table, snapshot, columns)
        except Refused as error:
            if error.code is not ErrorCode.LAKE_FILE_MISSING:
                raise
            return self._unseen(f"{what}, and files that it removed are gone", unseen)
        if problems := rewrite.problems():
            return _finding(f"{what} with other rows: {summarize(problems)}", "; ".join(problems))
        if not self.is_by_catalog:
            same = "rows; its bytes" if columns else "offsets; its other values"
            return _finding(f"{what} with the same {same} are not compared: {_DECLARED}")
        document = verified_document(name, "", {number: rewrite.names}, datetime.now(UTC).isoformat())
        self._verified.confirm(id_of_foreign(number), document)
        count = rewrite.added.records
        same = f"{count} rows but for bytes"
        if columns is None:
            same = f"{count} offsets, each once; other values were not compared"
        note = (
            f"{said}: a rewrite of another program, {rewrite.removed.files} files into "
            f"{rewrite.added.files}, verified to hold the same {same}"
        )
        return ForeignCommits(notes=[note])

    def _expired(
        self, table: Table, added: Sequence[AddedFile], earlier: Verified, kept: dict[int, Snapshot]
    ) -> ForeignCommits:
        found = ForeignCommits()
        for number, paths in self.files.since(table, added, earlier).items():
            if number in kept or (number and self._verified.is_verified(id_of_foreign(number))):
                continue
            found = found.more(
                self._unseen(
                    f"snapshot {number} is neither a recorded batch nor of a verified rewrite, and added "
                    f"{len(paths)} files: {summarize(paths)}",
                    _MAY_BE_OTHER,
                )
            )
        return found

    def _unseen(self, message: str, note: str) -> ForeignCommits:
        """A commit that cannot be verified any more."""
        if not self.is_by_catalog:
            return _finding(message)
        return ForeignCommits(notes=[f"{message}: {note}"])


def _finding(message: str, whole: str = "") -> ForeignCommits:
    return ForeignCommits([Finding(FindingName.FOREIGN_COMMIT, message, whole)])


def _with_deletes(table: Table, diff: TableDiff) -> ForeignCommits:
    if not diff.has_deletes:
        return ForeignCommits()
    return _finding(f"{_name(table)} has files of deleted rows, which no stream writes")


def _operation(snapshot: Snapshot) -> str:
    return snapshot.summary.operation.value if snapshot.summary else "unknown"


def _name(table: Table) -> str:
    return ".".join(table.name())
