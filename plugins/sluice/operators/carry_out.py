"""Supervision: do what a person answered."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Missing
from sluice.hooks.lifecycle import Act, order_of
from sluice.hooks.observation import seen
from sluice.model.orders import Answer
from sluice.operators.base import ActingOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class CarryOutOperator(ActingOperator):
    """Record the answer that task ``asked`` got, and carry it out: restart, hold, or nothing."""

    def __init__(self, *, asked: str = "ask", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asked = asked

    def act(self, context: Context) -> Act:
        answer = context["ti"].xcom_pull(task_ids=self.asked)
        if answer is None:
            raise Missing(f"the run has no answer; clear its {self.asked} task")
        choice, who, at = Answer(answer["choice"]), answer["who"], datetime.fromisoformat(answer["at"])
        self.history.record("answer", {"choice": choice.value, "who": who, "run": context["run_id"]}, at)
        self.log.info("%s chose %r at %s", who, choice.value, answer["at"])
        if choice is Answer.LOOK:
            return Act(False, f"{who} chose to look again: the next run does", at.timestamp())
        judged = seen(context, self.observed).diagnosis
        order = replace(
            order_of(context, f"answered {choice.value!r}: {judged.sentence}", True), who=who, at=at
        )
        if choice is Answer.HOLD:
            return self.lifecycle.hold(order)
        return self.lifecycle.restart(order, judged)
