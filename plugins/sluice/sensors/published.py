"""Steps of a load: is what was produced published, and is it counted?"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator

from sluice.hooks import load_plan as plans
from sluice.hooks.failures import failed, final_failures, log_excerpt
from sluice.hooks.platform import StreamMixin
from sluice.model.error_codes import ErrorCode
from sluice.triggers.published import PublishedTrigger
from sluice.triggers.wait import BACKSTOP, GRACE_INTERVALS, Outcome

if TYPE_CHECKING:
    from airflow.sdk import Context

DEFAULT_TIMEOUT_MINUTES = 30


class PublishedSensor(StreamMixin, BaseSensorOperator):
    """Wait, without a worker's slot, until ``main`` covers the load's range set; for the ``component``
    queries, until every query of the stream that measures something has counted it.

    Red at once, without retries and with the last lines of its stderr, when the part is down for longer
    than ``grace`` seconds (by default two and a half intervals of its supervision, which starts it again) or
    keeps being restarted; red after ``publish_timeout_minutes`` (of the form)
    naming what lacks or what could not be observed.
    """

    does = "waits until everything is published, or counted by the queries"
    fails_if = "the component is down, or the time is up"

    def __init__(
        self,
        *,
        stream: str,
        role: str = "airflow",
        poll_interval: float = 2.0,
        grace: float | None = None,
        component: str = "consumer",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.component = component
        self.stream = stream
        self.role = role
        self.poll_interval = poll_interval
        self.grace = grace

    def execute(self, context: Context) -> NoReturn:
        with final_failures():
            _, documents = plans.produced(self.ledger, context["run_id"])
        expected = plans.offsets_of_all(documents)
        minutes = context["params"].get("publish_timeout_minutes", DEFAULT_TIMEOUT_MINUTES)
        patience = timedelta(minutes=float(minutes))
        self.log.info("waiting for %d records, %g minutes at most: %s", expected.count, minutes, expected)
        self.defer(
            trigger=PublishedTrigger(
                stream=self.stream,
                role=self.role,
                expected=expected.to_json(),
                deadline=time.time() + patience.total_seconds(),
                poll_interval=self.poll_interval,
                grace=self._grace(),
                component=self.component,
            ),
            method_name="resume",
            timeout=patience + BACKSTOP,
        )

    def resume(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """What the trigger found: the task's return value, or its failure."""
        outcome, reason = Outcome(event["outcome"]), event["reason"]
        if outcome is Outcome.REACHED:
            self.log.info("%s", reason)
            return event
        if outcome is Outcome.PERMANENT:
            words = log_excerpt(
                self.platform_hook.runtime, self.spec.component(self.component).program, self.log
            )
            reason = (
                f"{reason}; {words}; look at {self.stream}_stream, and unpause it; or clear "
                "the step that starts it"
            )
        raise failed(ErrorCode.NOT_PUBLISHED, f"not landed, {outcome.value}: {reason}")

    def _grace(self) -> float:
        return self.spec.supervision.interval_seconds * GRACE_INTERVALS if self.grace is None else self.grace
