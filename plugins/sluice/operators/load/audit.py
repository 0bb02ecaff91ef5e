"""A step of a load: check the objects that were written since it began, and compare with the budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sluice.hooks import failures
from sluice.hooks.load_plan import head_of
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.ledger import run_key
from sluice.model.verification.storage import BudgetCheck, ObjectCheck
from sluice.operators.base import StreamOperator
from sluice.operators.load import inventory
from sluice.operators.load.interval import load_id

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.objects import Entry
    from sluice.operators.load.inventory import WrittenSince

NAMED = 10


class AuditOperator(StreamOperator):
    """Check each object that was written since the load began, and compare with ``[budget]``.

    Fails without retries if an object is missing, has another size than its manifest says, or was
    overwritten with other content, if they have more delete markers than allowed, or if a batch made more
    versions. Looks at what ``main`` names, not at the rest of the bucket: objects that no snapshot names are
    a matter of maintenance.
    """

    does = "checks the objects that were written since the load began"
    fails_if = "an object is missing or damaged, or the stream's budget is exceeded"

    def entries(self, uri: str) -> list[Entry]:
        """Versions and delete markers of an object."""
        from sluice.io.s3 import split

        bucket, key = split(uri)
        return [entry for entry in self.platform_hook.bucket(bucket).entries(key) if entry.key == key]

    def work(self, context: Context) -> dict[str, Any]:
        run_id = load_id(self, context)
        before = self.ledger.require(run_key(run_id, "baseline"), "provision_topic")
        lake, tables = self.platform_hook.lake, (self.spec.table, self.spec.quarantine_table)
        written = {name: inventory.written_since(lake, name, head_of(before, name)) for name in tables}
        objects = [one for since in written.values() for one in since.objects]
        checked = inventory.check_objects(objects, self.entries)
        of_stream = written[self.spec.table]
        budget = self._budget(checked, of_stream.costs)
        self.log.info("%s", report(written, budget))
        over = [line.message() for line in budget if not line.ok]
        if over:
            over += [check.message() for check in checked if check.problem][:NAMED]
        self.check_no_problems(ErrorCode.OVER_BUDGET, over, "over budget")
        result = {
            "batches": of_stream.batches,
            "objects": len(checked),
            "bytes": sum(check.size for check in checked),
            "delete_markers": sum(check.delete_markers for check in checked),
            "versions_per_batch": max(of_stream.costs, default=None),
        }
        self.ledger.put(run_key(run_id, "audit"), result)
        return result

    def _budget(self, checked: Sequence[ObjectCheck], costs: Sequence[int]) -> list[BudgetCheck]:
        limits = self.spec.budget
        markers = sum(check.delete_markers for check in checked)
        lines = [
            BudgetCheck("delete markers added", markers, limits.delete_markers),
            BudgetCheck("objects missing or damaged", sum(bool(check.problem) for check in checked), 0),
        ]
        if costs:
            lines.append(
                BudgetCheck("versions of the costliest batch", max(costs), limits.versions_per_batch)
            )
        return lines


def report(written: dict[str, WrittenSince], budget: Sequence[BudgetCheck]) -> str:
    """Tables for the log."""
    rows: list[list[object]] = [
        [name, since.batches, len(since.objects), max(since.costs, default="not known")]
        for name, since in written.items()
    ]
    lines: list[list[object]] = [
        [line.name, f"{line.value}", f"{line.limit:g}", "ok" if line.ok else "OVER"] for line in budget
    ]
    return (
        failures.table(["table", "batches since", "objects", "versions per batch"], rows)
        + "\n"
        + failures.table(["budget", "value", "limit", "result"], lines)
    )
