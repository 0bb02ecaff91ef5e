"""Ask a person before a change, and record the answer."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import TaskAwaitingInput

from sluice.airflow.channel import RunChannel, base_url
from sluice.airflow.failures import failed, final_failures
from sluice.airflow.hook import StreamMixin
from sluice.airflow.operators.base import WaitMixin
from sluice.changes.approval import APPROVE, changed_rows, record_answer, why_unasked, why_undecidable
from sluice.changes.plan import pinned, preview
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode, with_code
from sluice.ledger.keys import run_key
from sluice.notify.telling import NotDelivered, tell_of_run
from sluice.notify.texts import WHO_APPROVES, approval_request

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.core.changes.published import Changes

RESPONSE_TIMEOUT = timedelta(hours=24)
NO_USER = "no user"


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
        with final_failures():
            document = pinned(self.ledger, context["run_id"])
            reason = why_unasked(document, self._published())
        if reason:
            return self._unasked(reason)
        self.subject = f"{document['action']}: change {changed_rows(document)} rows of {self.spec.table}?"
        address = self.ledger.uri(run_key(context["run_id"], "change"))
        rows = [f"| {name} | {value} |" for name, value in preview(document, address)]
        who = WHO_APPROVES.format(dag=f"{self.stream}_change")
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
        note = approval_request(self.stream, "change", self.subject, run, self.task_id, base_url())
        try:
            tell_of_run(lambda: self.platform_hook.history(self.stream), note, RunChannel(context))
        except (NotDelivered, ConfigError) as error:
            self.log.error("%s", with_code(error.code, error))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        with final_failures():
            document = pinned(self.ledger, context["run_id"])
            # It was asked again before, or its job outlived its task.
            reason = why_undecidable(document, self._published())
        if reason:
            return self._unasked(reason)
        if event.get("error_type") == "timeout":
            hours = RESPONSE_TIMEOUT // timedelta(hours=1)
            raise failed(
                ErrorCode.CHANGE_REFUSED,
                f"the change of {self.stream} has no answer in {hours} h; nothing was changed. Fix: trigger "
                f"a new run, and answer its {APPROVE} (Required Actions)",
            )
        if "error" not in event:
            # Before a rejection skips the rest.
            user, at = event["responded_by_user"], event["responded_at"]
            who = user["name"] if user else None
            with final_failures():
                record_answer(self.ledger, context["run_id"], document, event["chosen_options"], who, at)
        answer = super().execute_complete(context, event)
        user = answer["responded_by_user"]
        return {
            "chosen_options": answer["chosen_options"],
            "who": user["name"] if user else NO_USER,
            "at": answer["responded_at"].isoformat(),
        }

    def _published(self) -> Changes:
        return self.platform_hook.lake.changes(self.spec.table)

    def _unasked(self, reason: str) -> dict[str, Any]:
        self.log.info("no person is asked: %s", reason)
        return {"chosen_options": [self.APPROVE], "reason": reason}
