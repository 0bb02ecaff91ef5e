"""Verify a published change from the table and the quarantine alone, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.airflow.operators.change.approval import PLAN
from sluice.airflow.operators.change.steps import rows_of
from sluice.airflow.operators.quarantine import QuarantineOperator
from sluice.core.changes.plan import ChangePlan, ChangeResult
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.json_record import Document
from sluice.core.offsets.verify import EMPTY
from sluice.core.tables.rewrites import Rewrites
from sluice.core.tables.storage import KEEP_REWRITES
from sluice.ledger.keys import run_key
from sluice.loads import plan as plans
from sluice.loads.checks import LoadFiles, check_offsets
from sluice.maintenance.verified_rewrites import VerifiedRewrites

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context
    from pyiceberg.table import Table

    from sluice.core.changes.published import Changes
    from sluice.core.offsets.ranges import OffsetRanges


class VerifyChangeOperator(QuarantineOperator):
    """Verify the published change from the table and the quarantine alone.

    - Every record of the plan is in the table or the quarantine, once; no row that went is there.
    - The rows of the exchanged files that the change does not name are the same in all columns but bytes.
    - A record that was read from the quarantine has the identity that it had there, and is whole if it stays.

    The result goes into the ledger as ``change-proof.json``. A difference is not tried again. A change that
    was verified is not compared again, as later ones exchange the same rows; of one that was not, the
    offsets of later ones are left out.
    """

    does = "compares the exchanged files, and every offset of the change, without Spark"
    fails_if = "a record is missing or twice, or another row was changed"

    def work(self, context: Context) -> dict[str, Any]:
        from sluice.clients.lake import change_files
        from sluice.clients.lake.catalog import published_changes

        run_id = context["run_id"]
        document = self.ledger.require(run_key(run_id, "change"), PLAN)
        plan = ChangePlan.from_document(document)
        lake = self.platform_hook.lake
        key = run_key(run_id, "change-proof")
        verified = self.ledger.get(key)
        made = change_files.snapshot_of(lake.table(self.spec.table), plan.id)
        changes = lake.changes(self.spec.table)
        if verified and made not in (None, verified["snapshot_id"]):
            # The catalog was restored to before it, and it was made again: that one is not verified.
            key = run_key(run_id, f"change-proof-{made}")
            verified = self.ledger.get(key)
        if verified and changes.count < verified.get("left_out_for", 0):
            # Restored to before the later changes, whose offsets were not compared.
            key = run_key(run_id, f"change-proof-{made}-{changes.count}")
            verified = self.ledger.get(key)
        named = changes.after(plan.changes)
        if named is None or named not in (plan.id, ""):
            # Not made, or the catalog was restored to before it.
            raise Missing(
                f"change {plan.id} is not published: {self.spec.table} has {changes.count} changes, and it "
                f"was planned after {plan.changes}. Fix: clear apply_change",
                ErrorCode.CHANGE_NOT_VERIFIED,
            )
        if verified:
            self.log.info(
                "verified before: change %s, snapshot %d, %s; %s_reconciliation verifies the table as it is",
                plan.id, verified["snapshot_id"], verified["at"], self.stream,
            )  # fmt: skip
            return _summary(verified)
        self.settle()
        table = lake.table(self.spec.table)
        changes = published_changes(table)
        change = change_files.find(table, plan.id)
        if change is None:
            raise self._too_late(plan, f"its snapshots have expired: they are kept for {KEEP_REWRITES}")
        result = self._result(change.document)
        if (len(change.removed), len(change.added)) != (result.files_removed, result.files_added):
            raise self._too_late(plan, "the snapshot that exchanged its files has expired")
        touched = self._touched_later(table, plan, changes)
        self.log.info("change %s, snapshot %d: %s", plan.id, change.snapshot_id, result.message())
        before = change_files.digest_without(table, change.removed, result.out)
        after = change_files.digest_without(table, change.added, result.published)
        problems = []
        if (before.records, before.digest) != (after.records, after.digest):
            problems.append(
                f"{before.records} rows of the removed files were to stay, and the added files have "
                f"{after.records}, or with other values"
            )
        problems += self._source_problems(plan, result, document["counted"]["rows_out"], touched)
        problems += self._offset_problems(plan, result, touched)
        problems += self._recovered_problems(plan, result, document["metadata"], touched)
        if problems and lake.changes(self.spec.table).count != changes.count:
            raise Unreachable(
                f"{self.spec.table}: another change was published while {plan.id} was compared. Fix: "
                "clear this task, if Airflow does not try it again",
                ErrorCode.CHANGE_NOT_COMPARABLE,
            )
        failure = f"change {plan.id} of {self.spec.table}"
        before_it = ", ".join(document["metadata"].values())
        fix = f". Fix: docs/operating.md, Change verification failed; metadata before it: {before_it}"
        self.check_no_problems(ErrorCode.CHANGE_NOT_VERIFIED, problems, failure, fix)
        # Before the proof: a run that has one does not compare again.
        about = {"table": self.spec.table, "run_id": run_id, "snapshot_ids": change.snapshots}
        rewrites = VerifiedRewrites(self.ledger)
        rewrites.confirm(change.rewrite, {**about, "at": plans.now()})
        # Records it if all are verified: with many changes between two runs of maintenance, the table names
        # the first ones no more when that asks.
        rewrites.unverified(Rewrites.of(table.properties))
        proof = {
            **result.to_document(),
            "run_id": run_id,
            "table": self.spec.table,
            "table_uuid": str(table.metadata.table_uuid),
            "snapshot_id": change.snapshot_id,
            "rewrite": change.rewrite,
            "left_out": touched.to_json(),
            # The number of changes that those offsets are left out for.
            "left_out_for": changes.count if touched else 0,
            "at": plans.now(),
        }
        return _summary(self.ledger.put(key, proof))

    def _result(self, address: str) -> ChangeResult:
        from sluice.clients.s3.requests import read_json

        return ChangeResult.from_document(read_json(self.platform_hook.s3, address))

    def _too_late(self, plan: ChangePlan, why: str) -> Refused:
        return Refused(
            f"change {plan.id} of {self.spec.table} cannot be compared alone any more: {why}. Fix: trigger "
            f"{self.stream}_reconciliation with full, which verifies the table as it is",
            ErrorCode.CHANGE_NOT_COMPARABLE,
        )

    def _touched_later(self, table: Table, plan: ChangePlan, changes: Changes) -> OffsetRanges:
        """The offsets that changes after this one took out or brought. Raises Refused if one is not known."""
        from sluice.clients.lake import change_files

        touched = EMPTY
        for place in range(plan.changes + 1, changes.count):
            later = changes.after(place)
            address = change_files.document_of(table, later) if later else None
            if address is None:
                came = changes.count - plan.changes - 1
                raise self._too_late(plan, f"{came} changes came after it, and a snapshot of one has expired")
            result = self._result(address)
            touched = touched.union(result.out).union(result.published).union(result.rejected)
            self.log.info("change %s came later; its offsets are left out", later)
        return touched

    def _source_problems(
        self, plan: ChangePlan, result: ChangeResult, counted: int, touched: OffsetRanges
    ) -> list[str]:
        if not plan.sources_out:
            return []
        problems = []
        if result.rows_out != counted:
            problems.append(f"{counted} rows were planned to go, and {result.rows_out} went")
        if touched.intersect(result.out):
            # A redo may have brought them back; the rest of their offsets is compared.
            return problems
        if left := rows_of(self.platform_hook.lake.table(self.spec.table), plan.sources_out):
            problems.append(f"{left} rows of the sources that went are there")
        return problems

    def _offset_problems(self, plan: ChangePlan, result: ChangeResult, touched: OffsetRanges) -> list[str]:
        lake = self.platform_hook.lake
        problems = []
        if result.published.union(result.rejected) != plan.rows_in:
            problems.append(f"{plan.rows_in} were planned, {result.published} came, {result.rejected} not")
        if coming := plan.rows_in.minus(touched):
            found = check_offsets(LoadFiles.at(lake, self.spec, coming)).verification
            if not found.is_ok:
                problems.append(f"records that come: {found.message()}")
        # Those of the plan, whatever the job says; what was in quarantine stays there.
        gone = result.out.union(plan.rows_out).minus(plan.rows_in).minus(touched)
        if gone:
            check = check_offsets(LoadFiles.at(lake, self.spec, gone))
            kept = check.quarantined.minus(plan.quarantined_out)
            there = gone.minus(check.verification.gaps).minus(kept)
            if left := there.union(check.verification.duplicates):
                problems.append(f"rows that went are there: {left}")
        return problems

    def _recovered_problems(
        self, plan: ChangePlan, result: ChangeResult, metadata: Mapping[str, str], touched: OffsetRanges
    ) -> list[str]:
        """Compare what was read from the quarantine with what that had when the change was planned."""
        from sluice.clients.lake.recovered import IDENTITY, RECORD, differences

        recovered = result.recovered.minus(touched)
        if not recovered:
            return []
        lake, name = self.platform_hook.lake, self.spec.quarantine_table
        try:
            before = lake.table_at(name, metadata[name])
        except Refused as error:
            if error.code is not ErrorCode.LAKE_FILE_MISSING:
                raise
            raise self._too_late(plan, f"what the quarantine had before it is deleted: {error}") from error
        problems = []
        came = differences(
            before, lake.table(self.spec.table), recovered.intersect(result.published), IDENTITY
        )
        if came:
            problems.append(
                f"{came} records that were read from the quarantine have other values in the table"
            )
        stayed = differences(before, lake.table(name), recovered.intersect(result.rejected), RECORD)
        if stayed:
            problems.append(f"{stayed} records that stay in the quarantine have other values there")
        return problems


def _summary(proof: Document) -> dict[str, Any]:
    result = ChangeResult.from_document(proof)
    return {
        "rows_out": result.rows_out,
        "published": result.published.count,
        "rejected": result.rejected.count,
        "kept": result.kept,
        "snapshot_id": proof["snapshot_id"],
    }
