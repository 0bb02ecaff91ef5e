"""Change rows of a stream's table: plan, apply and verify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.airflow.operators.base import triggered_at
from sluice.airflow.operators.jobs.spark_job import SparkJobOperator
from sluice.airflow.operators.quarantine import QuarantineOperator
from sluice.changes.approval import is_to_apply
from sluice.changes.plan import pinned, plan_change, preview
from sluice.changes.verify import ChangeVerification
from sluice.core.messages import aligned
from sluice.ledger.keys import run_key

if TYPE_CHECKING:
    from airflow.sdk import Context

# Characters of a list of ranges in the task's log; the ledger has it whole.
LOGGED = 1_000_000


class PlanChangeOperator(QuarantineOperator):
    """Plan the change that the run's params ask for; count what goes and what comes. Changes nothing.

    The first attempt pins the plan in the ledger for all later steps.
    """

    does = "checks the request, and counts the rows that go and the records that come"
    fails_if = "it names what is not there, was deleted by retention, or is changed already"

    def work(self, context: Context) -> dict[str, Any]:
        run_id, params = context["run_id"], dict(context["params"])
        address = self.ledger.uri(run_key(run_id, "change"))
        self.submitted |= {"action": str(params.get("action")), "plan": address}
        triggered = triggered_at(context)
        document = plan_change(
            self.platform_hook, self.spec, self.ledger, run_id, params, self.settle, triggered
        )
        rows = preview(document, address, LOGGED)
        self.log.info("%s", aligned(["change", document["change_id"]], rows))
        return {name: document[name] for name in ("change_id", "action", "counted")}


class ApplyChangeOperator(SparkJobOperator):
    """Stage the change, verify it, and publish it in one commit beside the running stream.

    It may be cleared, retried and run twice: the table names the changes that it has.
    """

    does = "decodes the records, writes and verifies files, and exchanges them in one commit"
    fails_if = "a record would be lost, doubled or changed; then nothing is published"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="change", **kwargs)

    def work(self, context: Context) -> None:
        run_id = context["run_id"]
        document, address = pinned(self.ledger, run_id), self.ledger.uri(run_key(run_id, "change"))
        self.submitted |= {"action": document["action"], "plan": address}
        published = self.platform_hook.lake.changes(self.spec.table)
        if is_to_apply(self.ledger, run_id, document, published):
            self.submit(context, ["--plan", address])


class VerifyChangeOperator(QuarantineOperator):
    """Verify the published change from the table and the quarantine alone.

    The result goes into the ledger as ``change-proof.json``. A difference is not tried again.
    """

    does = "compares the exchanged files, and every offset of the change, without Spark"
    fails_if = "a record is missing or twice, or another row was changed"

    def work(self, context: Context) -> dict[str, Any]:
        verification = ChangeVerification(self.platform_hook, self.spec, self.ledger, context["run_id"])
        return verification.run(self.settle)
