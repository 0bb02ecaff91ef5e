"""A step of a load: check the objects that were written since it began, and compare with the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.airflow.operators.base import StreamOperator
from sluice.airflow.operators.load.interval import load_id
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import check_no_problems
from sluice.loads.written.audit import LoadAudit

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.ledger.batches import BatchLog


class AuditOperator(StreamOperator):
    """Check each object that was written since the load began, and compare with ``[budget]``.

    Fails without retries if an object is missing, has another size than its manifest says, or was
    overwritten with other content, if they have more delete markers than allowed, or if a batch of the load
    made more versions, or nothing says how many.
    """

    does = "checks the objects that were written since the load began"
    fails_if = "an object is missing or damaged, or the stream's budget is exceeded"

    def work(self, context: Context) -> dict[str, Any]:
        hook, load = self.platform_hook, load_id(self, context)
        declared = hook.platform.lake
        audit = LoadAudit(hook.lake, self.spec, self.ledger, load, self.batch_log, self.entries, declared)
        result = audit.check()
        self.log.info("%s", result.report())
        check_no_problems(self.log, ErrorCode.OVER_BUDGET, result.problems(), "over budget")
        return audit.write_result(result)

    def batch_log(self) -> BatchLog:
        return self.platform_hook.batch_log(self.spec.table)
