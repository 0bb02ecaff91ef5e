"""Supervision: start the stream's consumer anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.hooks.lifecycle import order_of
from sluice.hooks.observation import seen
from sluice.model.orders import Action
from sluice.operators.base import ActingOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.hooks.lifecycle import Act


class RestartStreamOperator(ActingOperator):
    """Restart the process that was judged, once, whoever else wants to; or, by a person's order, start it.

    The restart is in the stream's history before anything is touched. Red when the runtime or the ledger do
    not answer; the next run tries again.
    """

    def act(self, context: Context) -> Act:
        judged = seen(context, self.observed).diagnosis
        action = Action(context["params"]["action"])
        asked = action is not Action.SUPERVISE
        why = (context["params"].get("why") or "") if asked else judged.sentence
        order = order_of(context, why, asked)
        if action is Action.START:
            return self.lifecycle.start(order, judged)
        return self.lifecycle.restart(order, judged)
