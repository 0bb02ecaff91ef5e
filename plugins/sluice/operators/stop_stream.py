"""Supervision: stop the stream, and keep it stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.hooks.lifecycle import order_of
from sluice.operators.base import ActingOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.hooks.lifecycle import Act


class StopStreamOperator(ActingOperator):
    """Hold the stream, so that nothing starts it again, and end its process after the batch in flight."""

    def act(self, context: Context) -> Act:
        why = context["params"].get("why") or ""
        return self.lifecycle.hold(order_of(context, why, asked=True))
