"""Task `produce` of a feed: wait for what the stream's producer sends."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from sluice.airflow import forms
from sluice.airflow.failures import failed, failed_attempt, final_failures
from sluice.airflow.operators.base import BACKSTOP, ComponentOperator, triggered_at
from sluice.airflow.triggers.arrived import ArrivedTrigger
from sluice.airflow.triggers.wait import Outcome
from sluice.core.error_codes import ErrorCode
from sluice.ledger.keys import run_key
from sluice.loads import sources
from sluice.loads.planning.plan import LoadPlanner, plan_of
from sluice.loads.sending import produced
from sluice.loads.sources.feed import FeedSource

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.core.json_record import Document

POLL_SECONDS = 1.0


class ProduceFeedOperator(ComponentOperator):
    """Start the stream's producer unless it runs, and wait, without a worker, until N events (param
    ``events``) arrived or M minutes (``minutes``) passed.

    The first attempt records the start offsets, the first that succeeds the end offsets, both in the ledger.
    All records in between are verified, whichever process sent them. One run waits at a time (the DAG's
    ``max_active_tis_per_dag``), so runs share offsets only if another run passes between two attempts of one.
    """

    does = "ensures that the producer runs; waits until N events arrived or M minutes passed"
    fails_if = "no events arrived, the producer is suspended or down, or the run id has an earlier plan"

    waits = (timedelta(minutes=forms.MAX_FEED_MINUTES) + BACKSTOP,)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(component="producer", **kwargs)

    def work(self, context: Context) -> dict[str, Any]:
        run_id, kafka, topic = context["run_id"], self.platform_hook.kafka, self.spec.topic.name
        feed = self.spec.feed_url(self.platform_hook.platform.feeds)
        planner = LoadPlanner.of(self.platform_hook, self.spec, self.ledger, forms.defaults(self.spec))
        plan = planner.pin(
            run_id,
            context["params"],
            lambda _: [FeedSource.from_now(kafka, run_id, topic, feed).document],
            triggered_at(context),
        )
        self._show(run_id)
        if not any(produced.pending(self.ledger, plan)):
            self.log.info("offsets were recorded before")
            return produced.summary(
                self.ledger, plan, produced.complete(self.ledger, plan, kafka.ends(topic))
            )
        self.check_not_suspended()
        self.ensure(context["run_id"], self.platform_hook.runtime.status(self.program))
        return self._wait(plan)

    def _show(self, run_id: str) -> None:
        # For each leg of the task: a resumed one begins with the fields as declared.
        self.submitted["plan"] = self.ledger.uri(run_key(run_id, "plan"))

    def _wait(self, plan: Document) -> NoReturn:
        (source,) = plan["sources"]
        events, minutes = int(plan["params"]["events"]), float(plan["params"]["minutes"])
        self.log.info(
            "wait started: events=%d timeout_minutes=%g start_offsets=%s",
            events,
            minutes,
            source["start_offsets"],
        )
        self.wait_for(
            ArrivedTrigger,
            minutes * 60,
            "resume",
            poll_interval=POLL_SECONDS,
            grace=self.grace,
            start_offsets=source["start_offsets"],
            events=events,
            topic_id=source["topic_id"],
        )

    def resume(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Record the end offsets that the trigger observed, or fail."""
        with final_failures():
            return self._record(context["run_id"], event)

    def _record(self, run_id: str, event: dict[str, Any]) -> dict[str, Any]:
        self._show(run_id)
        plan = plan_of(self.ledger, run_id)
        (source,) = plan["sources"]
        failure = f"{sources.read(source).name}: {event['reason']}"
        if Outcome(event["outcome"]) is Outcome.PERMANENT:
            self.check_not_suspended()
            self.check_configured()
            raise failed(ErrorCode.COMPONENT_DOWN, f"{failure}; {self.log_excerpt()}")
        if "ends" not in event:
            raise failed_attempt(ErrorCode.SYSTEM_UNREACHABLE, failure)
        if not event["arrived"]:
            raise failed(
                ErrorCode.NO_EVENTS,
                f"no events in time: {failure}; {self.log_excerpt()}. Fix: clear the task to wait again",
            )
        ends = {int(partition): end for partition, end in event["ends"].items()}
        return produced.summary(self.ledger, plan, produced.complete(self.ledger, plan, ends))
