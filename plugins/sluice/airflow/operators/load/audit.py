"""A step of a load: check the objects that were written since it began, and compare with the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sluice.airflow import failures
from sluice.airflow.operators.base import StreamOperator
from sluice.airflow.operators.load.interval import load_id
from sluice.core.error_codes import ErrorCode
from sluice.core.tables.storage import BudgetCheck, ObjectCheck
from sluice.ledger import run_documents
from sluice.ledger.keys import beside_proof, run_key
from sluice.loads import inventory
from sluice.loads import plan as plans
from sluice.loads.plan import head_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.ledger.batches import BatchLog
    from sluice.loads.inventory import BatchCosts, WrittenSince

NAMED = 10
UNKNOWN = (
    "no record says what the batches of these offsets wrote, or their manifest lists were deleted with their "
    "snapshots before an audit of this run passed: {offsets}. Fix: trigger a new run, which loads nothing "
    "again and whose event names what is verified"
)


class AuditOperator(StreamOperator):
    """Check each object that was written since the load began, and compare with ``[budget]``.

    Fails without retries if an object is missing, has another size than its manifest says, or was
    overwritten with other content, if they have more delete markers than allowed, or if a batch of the load
    made more versions, or nothing says how many. Looks at what ``main`` names, not at the rest of the bucket:
    objects that no snapshot names are a matter of maintenance.
    """

    does = "checks the objects that were written since the load began"
    fails_if = "an object is missing or damaged, or the stream's budget is exceeded"

    def work(self, context: Context) -> dict[str, Any]:
        tables = (self.spec.table, self.spec.quarantine_table)
        run_id, lake = load_id(self, context), self.platform_hook.lake
        before = self.ledger.require(run_key(run_id, "baseline"), "provision_topic")
        since, log = datetime.fromisoformat(before["at"]), self.batch_log()
        is_restored = any(restore.at >= since - inventory.CLOCK_SLACK for restore in log.restores)
        written = {
            name: inventory.written_since(lake, name, head_of(before, name), is_restored=is_restored)
            for name in tables
        }
        objects = [one for found in written.values() for one in found.objects]
        checked = inventory.check_objects(objects, self.entries)
        expected = plans.offsets_of_all(plans.produced(self.ledger, run_id))
        first = run_key(run_id, "proof")
        key, proof = run_documents.newest(self.ledger, run_id, "proof") or (first, None)
        # By its first proof all of it was published.
        proof = proof if key == first else self.ledger.get(first)
        verified_at = datetime.fromisoformat(proof["at"]) if proof else None
        costs = inventory.batch_costs(log, expected, since, verified_at, lambda: self.passed(run_id))
        budget = self._budget(checked, written, costs)
        self.log.info("%s", report(written, costs, budget))
        over = [line.message() for line in budget if not line.ok]
        if over:
            over += [check.message() for check in checked if check.problem][:NAMED]
        if costs.unknown:
            over.append(UNKNOWN.format(offsets=costs.unknown))
        self.check_no_problems(ErrorCode.OVER_BUDGET, over, "over budget")
        result = {
            "batches": costs.batches,
            "objects": len(checked),
            "bytes": sum(check.size for check in checked),
            "delete_markers": sum(check.delete_markers for check in checked),
            "versions_per_batch": costs.versions,
            "measured_until": costs.measured_until.isoformat() if costs.measured_until else None,
            "at": plans.now(),
        }
        self.ledger.put(beside_proof(key, "audit"), result)
        return result

    def passed(self, run_id: str) -> dict[str, Any] | None:
        """What the newest audit of the run found that passed."""
        found = run_documents.newest(self.ledger, run_id, "audit")
        return found[1] if found else None

    def batch_log(self) -> BatchLog:
        return self.platform_hook.batch_log(self.spec.table)

    def _budget(
        self, checked: Sequence[ObjectCheck], written: Mapping[str, WrittenSince], costs: BatchCosts
    ) -> list[BudgetCheck]:
        limits = self.spec.budget
        markers = sum(check.delete_markers for check in checked)
        unknown = sum(not since.is_whole for since in written.values())
        lines = [
            BudgetCheck("delete markers added", markers, limits.delete_markers),
            BudgetCheck("objects missing or damaged", sum(bool(check.problem) for check in checked), 0),
            # The catalog was restored meanwhile: a new load finds its own.
            BudgetCheck("tables whose objects since the load began are not all known", unknown, 0),
            BudgetCheck("records in batches whose cost is not known", costs.unknown.count, 0),
        ]
        if costs.versions is not None:
            costliest = "versions of the costliest batch"
            lines.append(BudgetCheck(costliest, costs.versions, limits.versions_per_batch))
        return lines


def report(written: Mapping[str, WrittenSince], costs: BatchCosts, budget: Sequence[BudgetCheck]) -> str:
    """Tables for the log."""
    rows: list[list[object]] = [[name, len(since.objects)] for name, since in written.items()]
    lines: list[list[object]] = [
        [line.name, f"{line.value}", f"{line.limit:g}", "ok" if line.ok else "OVER"] for line in budget
    ]
    batches = [[costs.batches, "not known" if costs.versions is None else costs.versions]]
    return "\n".join(
        [
            failures.table(["table", "objects since the load began"], rows),
            failures.table(["batches of the load", "versions of the costliest"], batches),
            failures.table(["budget", "value", "limit", "result"], lines),
        ]
    )
