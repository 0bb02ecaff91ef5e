"""Change rows of a stream's table: plan, approve, apply, and verify without Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator

from sluice.clients.errors import Unreachable
from sluice.hooks import change_plans, failures
from sluice.hooks.failures import final_failures
from sluice.hooks.platform import StreamMixin
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.ledger import Document, run_key
from sluice.model.verification.change_plan import Action, ChangePlan
from sluice.operators.base import StreamOperator
from sluice.operators.load.checks import LoadFiles, await_quarantine, check_offsets
from sluice.operators.spark_job import SparkJobOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context
    from pyiceberg.table import Table

RESPONSE_TIMEOUT = timedelta(hours=24)
PLAN = "plan_change"


class PlanChangeOperator(StreamOperator):
    """Plan the change that the run's params ask for; count what goes and what comes. Changes nothing.

    The first attempt pins the plan in the ledger for all later steps.
    """

    does = "checks the request, and counts the rows that go and the records that come"
    fails_if = "it names what is not there, was deleted by retention, or is changed already"

    def work(self, context: Context) -> dict[str, Any]:
        run_id, params = context["run_id"], dict(context["params"])

        def create() -> Document:
            planner = change_plans.ChangePlanner(self.platform_hook, self.spec, self.ledger, run_id)
            # What is withheld among the published records is there only then.
            if not await_quarantine(self.platform_hook.lake, self.spec, self.log):
                raise Unreachable(
                    f"{self.spec.quarantine_table} does not hold yet what {self.spec.table} rejected, so it "
                    "is not known what is withheld. Fix: start the consumer; the task tries again",
                    ErrorCode.SYSTEM_UNREACHABLE,
                )
            plan = planner.plan(params)
            return {**plan.to_document(), "counted": self._count(plan), "metadata": self._metadata()}

        document = change_plans.pin(self.ledger, run_id, params, create)
        self.log.info("%s", failures.table(["change", document["change_id"]], preview(document)))
        return {name: document[name] for name in ("change_id", "action", "counted")}

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


def preview(document: Document) -> list[list[Any]]:
    """What a change would do: names and values."""
    plan, counted = ChangePlan.from_document(document), document["counted"]
    return [
        ["action", plan.action.value],
        ["rows that go", f"{counted['rows_out']:,}"],
        ["of sources", len(plan.sources_out)],
        ["at offsets", plan.rows_out if plan.rows_out else "-"],
        ["records that come", f"{counted['records_in']:,}"],
        ["at offsets", plan.rows_in if plan.rows_in else "-"],
        ["of them in quarantine now", counted.get("quarantined", 0)],
        ["of them in neither now", counted.get("missing", 0)],
    ]


class ApproveChangeOperator(StreamMixin, ApprovalOperator):
    """Ask a person, with the plan's numbers, if rows go that do not come back, or more of them than the param
    ``ask_above``. A rejection skips the rest; nothing has been changed."""

    does = "asks a person, with the plan's numbers, if rows go for good or many are changed"
    fails_if = "there is no answer within a day"

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(subject=f"Change rows of {stream}?", response_timeout=RESPONSE_TIMEOUT, **kwargs)
        self.stream = stream

    def execute(self, context: Context) -> Any:
        with final_failures():
            document = self.ledger.require(run_key(context["run_id"], "change"), PLAN)
        counted, limit = document["counted"], int(context["params"].get("ask_above") or 0)
        changed = max(counted["rows_out"], counted["records_in"])
        if document["action"] not in (Action.REVERT, Action.REPLACE) and changed <= limit:
            return {"chosen_options": [self.APPROVE], "reason": f"{changed} rows, asked above {limit}"}
        self.subject = f"{document['action']}: change {changed} rows of {self.spec.table}?"
        rows = [f"| {name} | {value} |" for name, value in preview(document)]
        self.body = "\n".join([f"| change | {document['change_id']} |", "|---|---|", *rows])
        return super().execute(context)


class ApplyChangeOperator(SparkJobOperator):
    """Stage the change, verify it, and publish it in one commit beside the running stream.

    It may be cleared, retried and run twice: the table names the changes that it has.
    """

    does = "decodes the records, writes and verifies files, and exchanges them in one commit"
    fails_if = "a record would be lost, doubled or changed; then nothing is published"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="change", **kwargs)

    def execute(self, context: Context) -> None:
        with final_failures():
            key = run_key(context["run_id"], "change")
            self.ledger.require(key, PLAN)
            self.submit(context, ["--plan", self.ledger.uri(key)])
