"""Change rows of a stream's table: plan, approve, apply, and verify without Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator

from sluice.clients.errors import Unreachable
from sluice.hooks import change_plans, failures
from sluice.hooks import load_plan as plans
from sluice.hooks.failures import final_failures
from sluice.hooks.platform import StreamMixin
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.ledger import Document, run_key
from sluice.model.verification.change_plan import Action, ChangePlan, ChangeResult
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


class VerifyChangeOperator(StreamOperator):
    """Verify the published change from the table and the quarantine alone.

    - Every record of the plan is in the table or the quarantine, once; no row that went is there.
    - The rows of the exchanged files that the change does not name are the same in all columns but bytes.

    The result goes into the ledger as ``change-proof.json``. No retries: it would be the same. A change that
    was verified is not compared again, as later ones exchange the same files.
    """

    does = "compares the exchanged files, and every offset of the change, without Spark"
    fails_if = "a record is missing or twice, or another row was changed"

    def work(self, context: Context) -> dict[str, Any]:
        from sluice.clients.lake import change_files
        from sluice.io.s3 import read_json

        run_id = context["run_id"]
        document = self.ledger.require(run_key(run_id, "change"), PLAN)
        plan = ChangePlan.from_document(document)
        verified = self.ledger.get(run_key(run_id, "change-proof"))
        # Not if the catalog was restored to before the change.
        if verified and plan.id in self.platform_hook.lake.changes(self.spec.table).newest:
            self.log.info(
                "verified before: change %s, snapshot %d, %s; %s_reconciliation verifies the table as it is",
                plan.id, verified["snapshot_id"], verified["at"], self.stream,
            )  # fmt: skip
            return _summary(verified)
        lake = self.platform_hook.lake
        await_quarantine(lake, self.spec, self.log)
        table = lake.table(self.spec.table)
        change = change_files.find(table, plan.id)
        result = ChangeResult.from_document(read_json(self.platform_hook.s3, change.document))
        self.log.info("change %s, snapshot %d: %s", plan.id, change.snapshot_id, result.message())
        before = change_files.digest_without(table, change.removed, result.out)
        after = change_files.digest_without(table, change.added, result.published)
        problems = []
        if (before.records, before.digest) != (after.records, after.digest):
            problems.append(
                f"{before.records} rows of the removed files were to stay, and the added files have "
                f"{after.records}, or with other values"
            )
        problems += self._source_problems(plan, result, document["counted"]["rows_out"])
        problems += self._offset_problems(plan, result)
        failure = f"change {plan.id} of {self.spec.table}"
        before_it = ", ".join(document["metadata"].values())
        fix = f". Fix: docs/operating.md, Change verification failed; metadata before it: {before_it}"
        self.check_no_problems(ErrorCode.CHANGE_NOT_VERIFIED, problems, failure, fix)
        proof = {
            **result.to_document(),
            "run_id": run_id,
            "table": self.spec.table,
            "snapshot_id": change.snapshot_id,
            "at": plans.now(),
        }
        return _summary(self.ledger.put(run_key(run_id, "change-proof"), proof))

    def _source_problems(self, plan: ChangePlan, result: ChangeResult, counted: int) -> list[str]:
        if not plan.sources_out:
            return []
        problems = []
        if result.rows_out != counted:
            problems.append(f"{counted} rows were planned to go, and {result.rows_out} went")
        if left := rows_of(self.platform_hook.lake.table(self.spec.table), plan.sources_out):
            problems.append(f"{left} rows of the sources that went are there")
        return problems

    def _offset_problems(self, plan: ChangePlan, result: ChangeResult) -> list[str]:
        lake = self.platform_hook.lake
        problems = []
        if result.published.union(result.rejected) != plan.rows_in:
            problems.append(f"{plan.rows_in} were planned, {result.published} came, {result.rejected} not")
        if plan.rows_in:
            found = check_offsets(LoadFiles.at(lake, self.spec, plan.rows_in)).verification
            if not found.is_ok:
                problems.append(f"records that come: {found.message()}")
        gone = result.out.minus(plan.rows_in)
        if gone:
            left = check_offsets(LoadFiles.at(lake, self.spec, gone)).verification
            if left.gaps != gone:
                problems.append(f"rows that went are there: {gone.minus(left.gaps)}")
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
