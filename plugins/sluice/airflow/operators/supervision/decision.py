"""The decision DAG: request and apply a person's decision about a component that keeps failing."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.execution_time.hitl import upsert_hitl_detail

from sluice.airflow import notifications
from sluice.airflow.delivery import NotDelivered
from sluice.airflow.failures import final_failures, table
from sluice.airflow.hook import StreamMixin
from sluice.airflow.operators.base import BACKSTOP, WaitMixin
from sluice.airflow.operators.supervision.supervise import (
    REQUEST,
    ActingOperator,
    decision_condition,
    decision_dag_id,
    request_from,
)
from sluice.airflow.triggers.decision import DecisionTrigger, obsolete_reason
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode, with_code
from sluice.core.errors import ClientError, Missing
from sluice.core.json_record import Document
from sluice.ledger import run_documents
from sluice.supervision.rules.status import NEEDS_DECISION, Decision, Health, HealthReport

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.config.stream import StreamSpec

RESPONSE_TIMEOUT = timedelta(hours=1)
NO_USER = "no user"
# Name of the ledger's document.
ANSWER = "decision"
MAX_CHARACTERS = 400
MAX_LINES = 20
WIDTH = 110
CHOICES = f"""\
- **{Decision.RESTART}**: restart it, and count its restarts from there.
- **{Decision.SUSPEND}**: keep it stopped until `{{stream}}_stream` is triggered with action start or restart.
- **{Decision.CHECK}**: no action now, supervision continues; the default without an answer within an hour.
"""


class DecisionRequest:
    """The request that a run of the decision DAG is for, from its conf, and ``step``'s component with it.

    Whoever may trigger DAGs can give any conf, so the request has to be in the component's history under this
    run's id; health and message are those of the history. Raises Missing, ConfigError.
    """

    def __init__(self, context: Context, step: StreamMixin) -> None:
        conf = context["dag_run"].conf or {}
        try:
            self.component = str(conf["component"])
            self.at = datetime.fromtimestamp(conf["requested_at"], UTC)
            report = HealthReport.from_json(conf["report"])
        # Too large a time is an OverflowError, or the C library's OSError.
        except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
            raise _no_request(str(error)) from error
        if self.component not in step.spec.components:
            raise _no_request(f"{step.spec.name} has no component {self.component[:MAX_CHARACTERS]!r}")
        step.component = self.component
        run_id, asked = context["run_id"], step.history.at("decision_requested", self.at)
        event = next((event for event in asked if event.get("run") == run_id), None)
        if event is None:
            raise _no_request(
                f"the history of the {self.component} has no decision_requested of run {run_id} at "
                f"{self.at.isoformat()}"
            )
        self.report = replace(report, health=Health(event["health"]), message=event["message"])


def _no_request(reason: str) -> Missing:
    return Missing(
        f"the run's conf is no request for a decision: {reason.partition(chr(10))[0]}. Fix: only supervision "
        "triggers this DAG; to restart or stop a component, trigger the stream's DAG",
        ErrorCode.INVALID_PARAMETER,
    )


class RequestDecisionOperator(WaitMixin, StreamMixin, HITLOperator):
    """Request a decision: restart the component, keep it stopped, or check again.

    Waits an hour at most, without a worker, while supervision finds the component unhealthy and no person
    acted. Returns the choice, who made it and when; the default is to check again.
    """

    does = "requests a decision from a person, with the health report"
    fails_if = "the history does not answer"

    # Subject and body, which Airflow's operator renders, have lines of a log.
    template_fields: Sequence[str] = ()
    waits = (RESPONSE_TIMEOUT + BACKSTOP,)

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(
            subject=f"Restart a component of {stream} again?",
            options=[answer.value for answer in Decision],
            defaults=Decision.CHECK.value,
            response_timeout=RESPONSE_TIMEOUT,
            **kwargs,
        )
        self.stream = stream

    def execute(self, context: Context) -> None:
        with final_failures():
            decision_request = DecisionRequest(context, self)
            component = self.spec.component(self.component)
            window = timedelta(seconds=self.spec.supervision.restart_window_seconds)
            restarts = self.history.since("restart", decision_request.at - window)
            counted = len(self.history.restart_history(decision_request.at, self.spec.supervision).restarts)
        self.subject = f"The {component.name} of {self.stream} " + (
            f"was restarted {counted} times and keeps failing: restart it again?"
            if decision_request.report.health in NEEDS_DECISION
            else "cannot work with its configuration: restart it, once that is corrected?"
        )
        self.body = body(self.spec, decision_request.report, restarts, self._tail(component.program))
        upsert_hitl_detail(
            ti_id=context["task_instance"].id,
            options=self.options,
            subject=self.subject,
            body=self.body,
            defaults=self.defaults,
            multiple=self.multiple,
            params=self.serialized_params,
        )
        self._tell(context, decision_request.report)
        # Airflow's own trigger cannot be ended from outside; an answer resumes a deferred task too.
        self.defer(
            trigger=DecisionTrigger(
                stream=self.stream,
                component=component.name,
                requested_at=decision_request.at.timestamp(),
                deadline=(decision_request.at + RESPONSE_TIMEOUT).timestamp(),
            ),
            method_name="execute_complete",
            timeout=RESPONSE_TIMEOUT + BACKSTOP,
        )

    def _tell(self, context: Context, report: HealthReport) -> None:
        """After the request is there. If it fails, the next check of supervision tells, or turns red."""
        run = (self.dag_id, context["run_id"])
        note = notifications.request(self.stream, self.component, report.message, run, self.task_id)
        try:
            notifications.tell(self.history, note, decision_condition(run[1]), context)
        except (NotDelivered, ConfigError, ClientError) as error:
            self.log.error("%s", with_code(error.code, error))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        answer = super().execute_complete(context, event)
        user = answer["responded_by_user"]
        decision = {
            "choice": answer["chosen_options"][0],
            "who": user["name"] if user else NO_USER,
            "at": answer["responded_at"].isoformat(),
            "reason": event.get("reason", ""),
        }
        with final_failures():
            run_documents.add(self.ledger, context["run_id"], ANSWER, decision)
        return decision

    def _tail(self, program: str) -> list[str]:
        try:
            return self.platform_hook.runtime.tail(program)
        except ClientError as error:
            # The request is made without the log.
            return [f"the log cannot be read: {error}"]


class ApplyDecisionOperator(ActingOperator):
    """Record the decision, and apply it unless it is obsolete; a restart is verified as in supervision."""

    does = "restarts the component, or keeps it stopped"
    fails_if = "it does not recover in time"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(component="", **kwargs)

    def work(self, context: Context) -> None:
        decision_request = DecisionRequest(context, self)
        # Not the XCom: who may edit XComs can write any answer there.
        found = run_documents.newest(self.ledger, context["run_id"], ANSWER)
        if found is None:
            raise Missing(f"the ledger has no decision of this run. Fix: clear its {REQUEST} task")
        answer = found[1]
        choice, who, at = Decision(answer["choice"]), answer["who"], datetime.fromisoformat(answer["at"])
        stale = answer["reason"] or obsolete_reason(self.history, decision_request.at) or ""
        document = {"choice": choice.value, "who": who, "run": context["run_id"], "stale": stale}
        self.history.record("decision", document, at)
        if choice is Decision.CHECK or stale:
            self.log.info("decision: who=%s choice=%r stale=%s", who, choice.value, stale or "no")
            return
        reason = f"decision {choice.value!r}: {decision_request.report.message}"
        request = replace(request_from(context, reason, requested=True), who=who, at=at)
        if choice is Decision.SUSPEND:
            self.log.info("%s", self.lifecycle.suspend(request).message)
            return
        before = self.platform_hook.sampler(self.spec, self.component).observe(time.time())
        # Any instance: the runtime may have restarted it since the request.
        result = self.lifecycle.restart(request, replace(decision_request.report, identity=None))
        self.wait_for_recovery(result, before)

    def record_recovery(self, context: Context, event: dict[str, Any], result: dict[str, Any]) -> None:
        with final_failures():
            # It says which component.
            DecisionRequest(context, self)
        super().record_recovery(context, event, result)


def body(spec: StreamSpec, report: HealthReport, restarts: Sequence[Document], tail: Sequence[str]) -> str:
    """The request as Markdown. ``restarts``: of the window, oldest first; ``tail``: of the process's log.

    Messages, names and log lines are untrusted, so they are in indented code blocks: unlike a fence, no text
    within a line can end one, and none of it is markup.
    """
    rows = [
        ["health", report.health.value],
        ["unread records", "unknown" if report.lag is None else f"{report.lag:,}"],
        ["records/s published", _rate(report.rate)],
        ["records/s arriving", _rate(report.arrivals)],
        ["writer", "none" if report.epoch is None else f"epoch {report.epoch}"],
    ]
    events = [
        [event["at"][:19], _line(event.get("who", "")), _line(event.get("reason", ""))] for event in restarts
    ]
    minutes = spec.supervision.restart_window_seconds // 60
    return "\n\n".join(
        [
            "Last observation:",
            code_block(
                [
                    *textwrap.wrap(_line(report.message), WIDTH),
                    *table(["metric", "value"], rows).split("\n"),
                ]
            ),
            f"Restarts in the last {minutes} minutes:",
            code_block(table(["at", "by", "reason"], events).split("\n")[1:]),
            "End of its log:",
            code_block(list(tail[-MAX_LINES:]) or ["it is empty"]),
            CHOICES.format(stream=spec.name),
            f"It may be answered by {notifications.WHO_DECIDES.format(dag=decision_dag_id(spec.name))}.",
        ]
    )


def code_block(lines: Iterable[str]) -> str:
    """The lines as an indented code block, printable and truncated."""
    return "\n".join(f"    {_line(line)}" for line in lines)


def _line(value: object) -> str:
    text = "".join(character if character.isprintable() else " " for character in str(value))
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"


def _rate(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f}"
