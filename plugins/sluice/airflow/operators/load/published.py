"""A step of a load: wait until its records are published, or counted by the queries."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sluice.airflow.dags import forms
from sluice.airflow.failures import failed
from sluice.airflow.operators.base import BACKSTOP, ComponentOperator
from sluice.airflow.operators.load.interval import load_id
from sluice.airflow.triggers.published import VERBS, PublishedTrigger
from sluice.airflow.triggers.wait import Outcome
from sluice.core.error_codes import ErrorCode
from sluice.loads import plan as plans

if TYPE_CHECKING:
    from airflow.sdk import Context

DEFAULT_TIMEOUT_MINUTES = 30
POLL_SECONDS = 1.0


class WaitForPublishOperator(ComponentOperator):
    """Wait, without a worker, until ``main`` covers the load's offsets; with component ``queries``, until
    every query of the stream that aggregates has counted them.

    Fails at once and without retries, with the end of the component's log, if it is down for two and a half
    supervision intervals or keeps restarting; fails after ``publish_timeout_minutes`` (of the form).
    """

    fails_if = "the component is down, or the timeout is over"

    # Its trigger looks at the table with each poll.
    checked = None

    waits = (timedelta(minutes=forms.MAX_PUBLISH_MINUTES) + BACKSTOP,)

    def __init__(self, *, component: str = "consumer", **kwargs: Any) -> None:
        super().__init__(component=component, **kwargs)
        by = "the queries" if component == "queries" else "the consumer"
        self.does = f"waits until all records are {VERBS.get(component, 'published')} by {by}"

    def work(self, context: Context) -> None:
        expected = plans.offsets_of_all(plans.produced(self.ledger, load_id(self, context)))
        minutes = float(context["params"].get("publish_timeout_minutes", DEFAULT_TIMEOUT_MINUTES))
        self.log.info("wait started: records=%d timeout_minutes=%g %s", expected.count, minutes, expected)
        self.wait_for(
            PublishedTrigger,
            minutes * 60,
            "resume",
            poll_interval=POLL_SECONDS,
            grace=self.grace,
            expected=expected.to_json(),
        )

    def resume(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Return the trigger's event, or fail."""
        outcome, reason = Outcome(event["outcome"]), event["reason"]
        if outcome is Outcome.REACHED:
            self.log.info("%s", reason)
            return event
        if outcome is Outcome.PERMANENT:
            self.check_configured()
            reason = (
                f"{reason}; {self.log_excerpt()}. Fix: check and unpause {self.stream}_stream, or clear "
                "the step that starts the component"
            )
        verb = VERBS.get(self.component, "published")
        raise failed(ErrorCode.NOT_PUBLISHED, f"not {verb}, {outcome.value}: {reason}")
