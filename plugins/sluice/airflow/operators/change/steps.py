"""Change rows of a stream's table: plan, and apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.airflow import failures
from sluice.airflow.operators.change.approval import PLAN, check_approved, preview
from sluice.airflow.operators.jobs.spark_job import SparkJobOperator
from sluice.airflow.operators.quarantine import QuarantineOperator
from sluice.changes import plan as change_plans
from sluice.core.changes.plan import ChangePlan
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.json_record import Document
from sluice.ledger.keys import run_key
from sluice.loads.checks import LoadFiles, check_offsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context
    from pyiceberg.table import Table

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
        key = run_key(run_id, "change")
        self.submitted |= {"action": str(params.get("action")), "plan": self.ledger.uri(key)}
        pinned = self.ledger.get(key)

        def create() -> Document:
            planner = change_plans.ChangePlanner(self.platform_hook, self.spec, self.ledger, run_id)
            # What is withheld among the published records is there only then.
            if not self.settle():
                raise Unreachable(
                    f"{self.spec.quarantine_table} does not hold yet what {self.spec.table} rejected, so it "
                    f"is not known what is withheld. Fix: start the consumer ({self.stream}_stream, action "
                    "start), then clear this task",
                    ErrorCode.SYSTEM_UNREACHABLE,
                )
            plan = planner.plan(params)
            return {**plan.to_document(), "counted": self._count(plan), "metadata": self._metadata()}

        document = change_plans.pin(self.ledger, run_id, params, create)
        if pinned is not None:
            self._check_not_undone(run_id, ChangePlan.from_document(document))
        rows = preview(document, self.ledger.uri(key), LOGGED)
        self.log.info("%s", failures.table(["change", document["change_id"]], rows))
        return {name: document[name] for name in ("change_id", "action", "counted")}

    def _check_not_undone(self, run_id: str, plan: ChangePlan) -> None:
        """Raise Refused if the change of a run that is cleared was published, and undone since: the run would
        be green without it."""
        from sluice.clients.s3.errors import removed_by

        changes = self.platform_hook.lake.changes(self.spec.table)
        if not change_plans.is_made(self.ledger, run_id, plan, changes):
            return
        removed = removed_by(self.platform_hook.s3, changes)
        # Not for some of its records: the rest of them can still be verified.
        is_undone = bool(plan.rows_in) and not plan.rows_in.minus(removed.removed)
        if (plan.reverts and plan.id not in removed.reverts) or is_undone:
            raise Refused(
                f"change {plan.id} ({plan.action}) of {self.spec.table} was published, and a later change "
                f"has undone it: run id {run_id!r} keeps its plan and makes it once; nothing was changed. "
                "Fix: trigger a new run",
                ErrorCode.RUN_ID_REUSED,
            )
        self.log.info("change %s is published already: nothing is done again", plan.id)

    def _metadata(self) -> dict[str, str]:
        """The metadata files of table and quarantine before the change, to go back to."""
        lake = self.platform_hook.lake
        names = (self.spec.table, self.spec.quarantine_table)
        return {name: lake.table(name).metadata_location for name in names}

    def _count(self, plan: ChangePlan) -> Document:
        """Rows that go, and of the records that come how many are published, in quarantine and missing."""
        lake = self.platform_hook.lake
        going = 0
        if plan.sources_out:
            going = rows_of(lake.table(self.spec.table), plan.sources_out)
        if plan.rows_out:
            found = check_offsets(LoadFiles.at(lake, self.spec, plan.rows_out))
            going += found.verification.found - found.quarantined.count
            # Of REMOVE those in quarantine go, too.
            going += plan.quarantined_out.intersect(found.quarantined).count
        counted = {"rows_out": going, "records_in": plan.rows_in.count}
        if plan.rows_in:
            check = check_offsets(LoadFiles.at(lake, self.spec, plan.rows_in))
            counted |= {"missing": check.verification.gaps.count, "quarantined": check.quarantined.count}
        return counted


def rows_of(table: Table, sources: Sequence[str]) -> int:
    """How many rows of these sources the table has."""
    from sluice.clients.lake import files

    found = files.rows_by_source(table, files.committed_since(table, 0), sources)
    return sum(map(len, found.values()))


class ApplyChangeOperator(SparkJobOperator):
    """Stage the change, verify it, and publish it in one commit beside the running stream.

    It may be cleared, retried and run twice: the table names the changes that it has.
    """

    does = "decodes the records, writes and verifies files, and exchanges them in one commit"
    fails_if = "a record would be lost, doubled or changed; then nothing is published"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="change", **kwargs)

    def work(self, context: Context) -> None:
        key = run_key(context["run_id"], "change")
        document = self.ledger.require(key, PLAN)
        self.submitted |= {"action": document["action"], "plan": self.ledger.uri(key)}
        run_id, plan = context["run_id"], ChangePlan.from_document(document)
        published = self.platform_hook.lake.changes(self.spec.table)
        # One that the table names goes to the job, which completes its part of the quarantine.
        is_made = change_plans.is_made(self.ledger, run_id, plan, published)
        if is_made and plan.id not in published.newest:
            self.log.info("change %s is published and verified: nothing is done again", plan.id)
            return
        check_approved(self.ledger, run_id, document, published)
        self.submit(context, ["--plan", self.ledger.uri(key)])
