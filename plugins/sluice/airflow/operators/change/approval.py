"""Ask a person before a change, and require the answer."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import TaskAwaitingInput

from sluice.airflow import notifications
from sluice.airflow.delivery import NotDelivered
from sluice.airflow.failures import failed, final_failures
from sluice.airflow.hook import StreamMixin
from sluice.airflow.operators.base import WaitMixin
from sluice.changes import plan as change_plans
from sluice.config.reading.toml import ConfigError
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.error_codes import ErrorCode, with_code
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.core.offsets.ranges import SHOWN
from sluice.ledger import run_documents
from sluice.ledger.keys import run_key

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.core.changes.published import Changes
    from sluice.ledger.documents import Ledger

RESPONSE_TIMEOUT = timedelta(hours=24)
PLAN, APPROVE = "plan_change", "approve_change"
NO_USER = "no user"
# Name of the ledger's document.
ANSWER = "change-approval"


def preview(document: Document, address: str, limit: int = SHOWN) -> list[list[Any]]:
    """What a change would do: names and values. Of offsets ``limit`` characters; ``address`` has all."""
    plan, counted = ChangePlan.from_document(document), document["counted"]
    return [
        ["action", plan.action.value],
        ["rows that go", f"{counted['rows_out']:,}"],
        ["of sources", len(plan.sources_out)],
        ["at offsets", plan.rows_out.shown(limit, address) if plan.rows_out else "-"],
        ["records that come", f"{counted['records_in']:,}"],
        ["at offsets", plan.rows_in.shown(limit, address) if plan.rows_in else "-"],
        ["of them in quarantine now", counted.get("quarantined", 0)],
        ["of them in neither now", counted.get("missing", 0)],
        ["plan", address],
    ]


def changed_rows(document: Document) -> int:
    counted = document["counted"]
    return max(counted["rows_out"], counted["records_in"])


def ask_above(document: Document) -> int:
    return int(document["params"].get("ask_above", 0))


def needs_approval(document: Document) -> bool:
    """Whether rows go that do not come back, or more of them than the param ``ask_above``."""
    is_final = document["action"] in (Action.REVERT, Action.REPLACE, Action.REMOVE)
    return is_final or changed_rows(document) > ask_above(document)


def check_approved(ledger: Ledger, run_id: str, document: Document, published: Changes) -> None:
    """Raise Refused unless a person approved a change that needs it, also if the task that asks was marked as
    success. Only the ledger says so (:func:`_record`): who may edit XComs can write any answer there."""
    change = document["change_id"]
    if not needs_approval(document) or change in published.newest:
        return
    found = run_documents.newest(ledger, run_id, ANSWER)
    given = found[1] if found else {}
    answer, is_of_this = given.get("answer"), given.get("change_id") == change
    if answer != ApprovalOperator.APPROVE or not given.get("who") or not is_of_this:
        said = f"its answer is {answer}" if answer and is_of_this else "it has no answer"
        by = "" if given.get("who") or not answer else ", of no person"
        raise Refused(
            f"change {change} ({document['action']} of {changed_rows(document)} rows) is not approved: a "
            f"person has to, in task {APPROVE}, and {said}{by}; nothing was changed. Fix: clear {APPROVE}, "
            "and answer it",
            ErrorCode.CHANGE_REFUSED,
        )


def _record(ledger: Ledger, run_id: str, document: Document, event: dict[str, Any]) -> None:
    """Keep an answer as Airflow hands it to the task that it resumes. Of several the latest counts."""
    user = event["responded_by_user"]
    answer = {
        "change_id": document["change_id"],
        "answer": ", ".join(event["chosen_options"]),
        "who": user["name"] if user else None,
        "at": event["responded_at"].isoformat(),
    }
    run_documents.add(ledger, run_id, ANSWER, answer)


class ApproveChangeOperator(WaitMixin, StreamMixin, ApprovalOperator):
    """Ask a person, with the plan's numbers, if rows go that do not come back, or more of them than the param
    ``ask_above``. A rejection skips the rest; nothing has been changed.

    It is tried again if Airflow loses an answer that came within a second, and not if none came in time.
    """

    does = "asks a person, with the plan's numbers, if rows go for good or many are changed"
    fails_if = "there is no answer within a day"

    waits = (RESPONSE_TIMEOUT,)

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(subject=f"Change rows of {stream}?", response_timeout=RESPONSE_TIMEOUT, **kwargs)
        self.stream = stream

    def execute(self, context: Context) -> Any:
        key = run_key(context["run_id"], "change")
        with final_failures():
            document = self.ledger.require(key, PLAN)
            # Asked again, a rejection would say that nothing was changed.
            if self._is_made(context, document):
                return self._unasked(f"change {document['change_id']} is published already")
        changed = changed_rows(document)
        if not needs_approval(document):
            return self._unasked(f"{changed} rows, asked above {ask_above(document)}")
        self.subject = f"{document['action']}: change {changed} rows of {self.spec.table}?"
        rows = [f"| {name} | {value} |" for name, value in preview(document, self.ledger.uri(key))]
        who = notifications.WHO_APPROVES.format(dag=f"{self.stream}_change")
        table = [f"| change | {document['change_id']} |", "|---|---|", *rows]
        self.body = "\n".join([*table, "", f"It may be answered by {who}."])
        try:
            return super().execute(context)
        except TaskAwaitingInput:
            # The request is there, and the task is about to wait for its answer.
            self._tell(context)
            raise

    def _tell(self, context: Context) -> None:
        """A failure is logged, and recorded for the consumer's next check, which tells."""
        run = (self.dag_id, context["run_id"])
        note = notifications.request(self.stream, "change", self.subject, run, self.task_id)
        started = notifications.start_of(context)
        try:
            notifications.tell_of_run(lambda: self.platform_hook.history(self.stream), note, started, context)
        except (NotDelivered, ConfigError) as error:
            self.log.error("%s", with_code(error.code, error))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        with final_failures():
            document = self.ledger.require(run_key(context["run_id"], "change"), PLAN)
            # It was asked again before, or its job outlived its task.
            if self._is_made(context, document):
                return self._unasked(f"change {document['change_id']} was published meanwhile")
        if event.get("error_type") == "timeout":
            hours = RESPONSE_TIMEOUT // timedelta(hours=1)
            raise failed(
                ErrorCode.CHANGE_REFUSED,
                f"the change of {self.stream} has no answer in {hours} h; nothing was changed. Fix: trigger "
                f"a new run, and answer its {APPROVE} (Required Actions)",
            )
        if "error" not in event:
            # Before a rejection skips the rest.
            with final_failures():
                _record(self.ledger, context["run_id"], document, event)
        answer = super().execute_complete(context, event)
        user = answer["responded_by_user"]
        return {
            "chosen_options": answer["chosen_options"],
            "who": user["name"] if user else NO_USER,
            "at": answer["responded_at"].isoformat(),
        }

    def _is_made(self, context: Context, document: Document) -> bool:
        changes = self.platform_hook.lake.changes(self.spec.table)
        plan = ChangePlan.from_document(document)
        return change_plans.is_made(self.ledger, context["run_id"], plan, changes)

    def _unasked(self, reason: str) -> dict[str, Any]:
        self.log.info("no person is asked: %s", reason)
        return {"chosen_options": [self.APPROVE], "reason": reason}
