"""Verify a published change from the table and the quarantine alone, without Spark.

- Every record of the plan is in the table or the quarantine, once; no row that went is there.
- The rows of the exchanged files that the change does not name are the same in all columns but bytes.
- Rows whose further fields went into columns are the same in all other columns but bytes.
- A record that was read from the quarantine has the identity that it had there, and is whole if it stays.

The result is the proof of the change in the ledger. A change that was verified is not compared again, as
later ones exchange the same rows; of one that was not, the offsets of later ones are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sluice.changes.plan import pinned
from sluice.changes.stream import number_of_rows
from sluice.core.changes.plan import ChangePlan
from sluice.core.changes.result import ChangeResult
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable, check_no_problems
from sluice.core.json_record import Document
from sluice.core.offsets.verify import EMPTY
from sluice.core.tables.rewrites import Rewrites
from sluice.core.tables.storage import KEEP_REWRITES
from sluice.ledger.keys import now, run_key
from sluice.ledger.verified_rewrites import VerifiedRewrites
from sluice.loads.verification.checks import LoadFiles, check_offsets

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.clients.lake.snapshots.change_files import PublishedChange
    from sluice.config.stream import StreamSpec
    from sluice.core.changes.published import Changes
    from sluice.core.offsets.ranges import OffsetRanges
    from sluice.ledger.documents import Ledger
    from sluice.systems import Systems

log = logging.getLogger(__name__)


class ChangeVerification:
    """The verification of a run's published change."""

    def __init__(self, systems: Systems, spec: StreamSpec, ledger: Ledger, run_id: str) -> None:
        self.spec, self.ledger, self.run_id = spec, ledger, run_id
        self._s3, self._lake = systems.s3, systems.lake
        self.document = pinned(ledger, run_id)
        self.plan = ChangePlan.from_document(self.document)

    def run(self, settle: Callable[[], object]) -> dict[str, Any]:
        """Verify the change, and keep its proof; return numbers of it. ``settle`` waits until the quarantine
        has what the stream rejected.

        Raises Missing if it is not published, Refused if it differs or cannot be compared alone any more,
        Unreachable if another change was published meanwhile.
        """
        if self.plan.is_empty:
            log.info("change %s had nothing to fill: nothing is to verify", self.plan.id)
            return {"rows_out": 0, "published": 0}
        changes = self._lake.changes(self.spec.table)
        key, verified = self._proof(changes)
        self._check_published(changes)
        if verified:
            log.info(
                "verified before: change %s, snapshot %d, %s; %s_reconciliation verifies the table as it is",
                self.plan.id, verified["snapshot_id"], verified["at"], self.spec.name,
            )  # fmt: skip
            return _summary(verified)
        settle()
        return _summary(self.ledger.put(key, self._verify()))

    def _proof(self, changes: Changes) -> tuple[str, Document | None]:
        """The key of the change's proof, and what it has."""
        from sluice.clients.lake.snapshots import change_files

        key = run_key(self.run_id, "change-proof")
        verified = self.ledger.get(key)
        made = change_files.snapshot_of(self._lake.table(self.spec.table), self.plan.id)
        if verified and made not in (None, verified["snapshot_id"]):
            # The catalog was restored to before it, and it was made again: that one is not verified.
            key = run_key(self.run_id, f"change-proof-{made}")
            verified = self.ledger.get(key)
        if verified and made is None and not self._is_of(changes, verified):
            # Verified in a history that is lost; nothing that is kept tells of another.
            return key, None
        if verified and changes.count < verified.get("left_out_for", 0):
            # Restored to before the later changes, whose offsets were not compared.
            key = run_key(self.run_id, f"change-proof-{made}-{changes.count}")
            verified = self.ledger.get(key)
        return key, verified

    def _is_of(self, changes: Changes, proof: Document) -> bool:
        """Whether a proof is of the history of ``main``, by the rewrites that the table names."""
        rewrites = changes.rewrites
        if len(rewrites.newest) < rewrites.count and self.plan.id in changes.newest:
            # The table has more of them than it names, and few changes.
            return True
        return proof["rewrite"] in rewrites.newest

    def _check_published(self, changes: Changes) -> None:
        plan = self.plan
        if changes.has(plan.id, plan.changes) is False:
            # Not made, or the catalog was restored to before it.
            outdated = plan.outdated_by(changes)
            why = outdated or f"it has {changes.count} changes, as when this one was planned"
            fix = "trigger a new run, as a cleared one is refused" if outdated else "clear apply_change"
            raise Missing(
                f"change {plan.id} is not published in {self.spec.table}: {why}. Fix: {fix}",
                ErrorCode.CHANGE_NOT_VERIFIED,
            )

    def _verify(self) -> Document:
        """The proof. Raises Refused with what differs."""
        from sluice.clients.lake.changes import published_changes
        from sluice.clients.lake.snapshots import change_files

        plan, table = self.plan, self._lake.table(self.spec.table)
        changes = published_changes(table)
        change = change_files.find(table, plan.id)
        if change is None:
            if changes.has(plan.id, plan.changes) is None:
                message = f"{self.spec.table}: {plan.unknown_among(changes)}"
                raise Refused(message, ErrorCode.CHANGE_NOT_COMPARABLE)
            raise self._too_late(f"its snapshots have expired: they are kept for {KEEP_REWRITES.days} days")
        result = self._result(change.document)
        if (len(change.removed), len(change.added)) != (result.files_removed, result.files_added):
            raise self._too_late("the snapshot that exchanged its files has expired")
        touched = self._touched_later(table, changes)
        log.info("change %s, snapshot %d: %s", plan.id, change.snapshot_id, result.message())
        problems = [
            *_kept_row_problems(table, change, result),
            *_filled_problems(table, change, result, self.spec),
            *self._source_problems(result, touched),
            *self._offset_problems(result, touched),
            *self._recovered_problems(result, touched),
        ]
        if problems and self._lake.changes(self.spec.table).count != changes.count:
            raise Unreachable(
                f"{self.spec.table}: another change was published while {plan.id} was compared. Fix: "
                "clear this task, if Airflow does not try it again",
                ErrorCode.CONCURRENT_COMMIT,
            )
        before_it = ", ".join(self.document["metadata"].values())
        fix = f". Fix: docs/operating.md, Change verification failed; metadata before it: {before_it}"
        failure = f"change {plan.id} of {self.spec.table}"
        check_no_problems(log, ErrorCode.CHANGE_NOT_VERIFIED, problems, failure, fix)
        # Before the proof: a run that has one does not compare again.
        self._confirm(table, change)
        return {
            **result.to_document(),
            "run_id": self.run_id,
            "table": self.spec.table,
            "table_uuid": str(table.metadata.table_uuid),
            "snapshot_id": change.snapshot_id,
            "rewrite": change.rewrite,
            "left_out": touched.to_json(),
            # The number of changes that those offsets are left out for.
            "left_out_for": changes.count if touched else 0,
            "at": now(),
        }

    def _confirm(self, table: Table, change: PublishedChange) -> None:
        about = {"table": self.spec.table, "run_id": self.run_id, "snapshot_ids": change.snapshots}
        rewrites = VerifiedRewrites(self.ledger)
        rewrites.confirm(change.rewrite, {**about, "at": now()})
        # Records it if all are verified: with many changes between two runs of maintenance, the table names
        # the first ones no more when that asks.
        rewrites.unverified(Rewrites.of(table.properties))

    def _result(self, address: str) -> ChangeResult:
        from sluice.clients.s3.requests import read_change

        return ChangeResult.from_document(read_change(self._s3, address))

    def _too_late(self, why: str) -> Refused:
        return Refused(
            f"change {self.plan.id} of {self.spec.table} cannot be compared alone any more: {why}. Fix: "
            f"trigger {self.spec.name}_reconciliation with full, which verifies the table as it is",
            ErrorCode.CHANGE_NOT_COMPARABLE,
        )

    def _touched_later(self, table: Table, changes: Changes) -> OffsetRanges:
        """The offsets that changes after this one took out or brought. Raises Refused if one is not known."""
        from sluice.clients.lake.snapshots import change_files

        touched, first = EMPTY, self.plan.changes + 1
        for place in range(first, changes.count):
            later = changes.after(place)
            address = change_files.document_of(table, later) if later else None
            if address is None:
                came = changes.count - first
                raise self._too_late(f"{came} changes came after it, and a snapshot of one has expired")
            result = self._result(address)
            touched = touched.union(result.out).union(result.published).union(result.rejected)
            log.info("change %s came later; its offsets are left out", later)
        return touched

    def _source_problems(self, result: ChangeResult, touched: OffsetRanges) -> list[str]:
        if not self.plan.sources_out:
            return []
        problems, counted = [], self.document["counted"]["rows_out"]
        if result.rows_out != counted:
            problems.append(f"{counted} rows were planned to go, and {result.rows_out} went")
        if touched.intersect(result.out):
            # A redo may have brought them back; the rest of their offsets is compared.
            return problems
        if left := number_of_rows(self._lake.table(self.spec.table), self.plan.sources_out):
            problems.append(f"{left} rows of the sources that went are there")
        return problems

    def _offset_problems(self, result: ChangeResult, touched: OffsetRanges) -> list[str]:
        plan, problems = self.plan, []
        if not plan.reads_records:
            # Files of the plan may have nothing to fill.
            coming = result.published
            if result.out != coming or coming.minus(plan.rows_in):
                problems.append(f"{plan.rows_in} were planned, {result.out} went, {coming} came")
        elif result.published.union(result.rejected) != plan.rows_in:
            problems.append(f"{plan.rows_in} were planned, {result.published} came, {result.rejected} not")
        wanted = plan.rows_in if plan.reads_records else result.published
        if coming := wanted.minus(touched):
            found = check_offsets(LoadFiles.at(self._lake, self.spec, coming)).verification
            if not found.is_ok:
                problems.append(f"records that come: {found.message()}")
        # Those of the plan, whatever the job says; what was in quarantine stays there.
        gone = result.out.union(plan.rows_out).minus(plan.rows_in).minus(touched)
        if gone:
            check = check_offsets(LoadFiles.at(self._lake, self.spec, gone))
            kept = check.quarantined.minus(plan.quarantined_out)
            there = gone.minus(check.verification.gaps).minus(kept)
            if left := there.union(check.verification.duplicates):
                problems.append(f"rows that went are there: {left}")
        return problems

    def _recovered_problems(self, result: ChangeResult, touched: OffsetRanges) -> list[str]:
        """Compare what was read from the quarantine with what that had when the change was planned."""
        from sluice.clients.lake.snapshots.recovered import IDENTITY, RECORD, differences

        recovered = result.recovered.minus(touched)
        if not recovered:
            return []
        name = self.spec.quarantine_table
        try:
            before = self._lake.table_at(name, self.document["metadata"][name])
        except Refused as error:
            if error.code is not ErrorCode.LAKE_FILE_MISSING:
                raise
            raise self._too_late(f"what the quarantine had before it is deleted: {error}") from error
        problems = []
        table, came = self._lake.table(self.spec.table), recovered.intersect(result.published)
        if others := differences(before, table, came, IDENTITY):
            problems.append(
                f"{others} records that were read from the quarantine have other values in the table"
            )
        stayed = recovered.intersect(result.rejected)
        if others := differences(before, self._lake.table(name), stayed, RECORD):
            problems.append(f"{others} records that stay in the quarantine have other values there")
        return problems


def _kept_row_problems(table: Table, change: PublishedChange, result: ChangeResult) -> list[str]:
    """Compare the rows of the exchanged files that the change does not name; return what differs."""
    from sluice.clients.lake.snapshots import change_files

    before = change_files.digest_without(table, change.removed, result.out)
    after = change_files.digest_without(table, change.added, result.published)
    if (before.records, before.digest) == (after.records, after.digest):
        return []
    stayed = f"{before.records} rows of the removed files were to stay"
    return [f"{stayed}, and the added files have {after.records}, or with other values"]


def _filled_problems(
    table: Table, change: PublishedChange, result: ChangeResult, spec: StreamSpec
) -> list[str]:
    """Compare the columns that nothing was filled into, of all rows of the exchanged files."""
    from sluice.clients.lake.snapshots import change_files

    if result.filled is None:
        return []
    columns = {*result.filled.columns, *([spec.records.unknown_column] if spec.records else [])}
    before = change_files.digest_of_others(table, change.removed, columns)
    after = change_files.digest_of_others(table, change.added, columns)
    if (before.records, before.digest) == (after.records, after.digest):
        return []
    only = f"{before.records} rows of the removed files were to change in {', '.join(sorted(columns))} alone"
    return [f"{only}, and the added files have {after.records}, or with other values in other columns"]


def _summary(proof: Document) -> dict[str, Any]:
    result = ChangeResult.from_document(proof)
    return {
        "rows_out": result.rows_out,
        "published": result.published.count,
        "rejected": result.rejected.count,
        "kept": result.kept,
        **({"filled": result.filled.message()} if result.filled else {}),
        "snapshot_id": proof["snapshot_id"],
    }
