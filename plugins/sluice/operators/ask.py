"""Supervision: restarts did not help, so a person decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLOperator

from sluice.clients.errors import ClientError
from sluice.hooks.failures import final_failures
from sluice.hooks.observation import seen
from sluice.hooks.stream import StreamMixin
from sluice.model.orders import Answer
from sluice.operators import question

if TYPE_CHECKING:
    from airflow.sdk import Context

PATIENCE = timedelta(hours=1)
NOBODY = "nobody"


class AskOperator(StreamMixin, HITLOperator):
    """Ask, with the evidence, whether to restart, to keep stopped, or to look again; wait an hour at most.

    Waiting takes no process and no trigger. The question is an event of the stream's history. Returns the
    choice, who made it, and when; nobody's is to look again. What it means is carried out by the next step.
    """

    template_fields: Sequence[str] = ("stream",)

    def __init__(
        self, *, stream: str, role: str = "airflow", observed: str = "observe", **kwargs: Any
    ) -> None:
        super().__init__(
            subject=f"Restart {stream} again?",
            options=[answer.value for answer in Answer],
            defaults=Answer.LOOK.value,
            response_timeout=PATIENCE,
            **kwargs,
        )
        self.stream = stream
        self.role = role
        self.observed = observed

    def execute(self, context: Context) -> None:
        with final_failures():
            diagnosis = seen(context, self.observed).diagnosis
            now = datetime.now(UTC)
            window = timedelta(seconds=self.spec.supervision.restart_window_seconds)
            restarts = self.history.since("restart", now - window)
            # The platform's own are counted; the evidence shows those that a person asked for too.
            counted = self.history.facts(now, self.spec.supervision).restarts
            self.subject = question.subject(self.stream, len(counted))
            self.body = question.body(self.spec, diagnosis, restarts, self._tail())
            self.history.record(
                "question",
                {
                    "run": context["run_id"],
                    "subject": self.subject,
                    "verdict": diagnosis.verdict.value,
                    "sentence": diagnosis.sentence,
                },
                now,
            )
        super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        answer = super().execute_complete(context, event)
        user = answer["responded_by_user"]
        return {
            "choice": answer["chosen_options"][0],
            "who": user["name"] if user else NOBODY,
            "at": answer["responded_at"].isoformat(),
        }

    def _tail(self) -> list[str]:
        try:
            return self.platform_hook.runtime.tail(self.spec.program)
        except ClientError as error:
            # It is asked all the same: the log is only a part of the evidence.
            return [f"the log cannot be read: {error}"]
