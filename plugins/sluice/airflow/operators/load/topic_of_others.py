"""Steps of a load of a topic that others fill: look at it, and pin the offsets that are verified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.airflow import forms
from sluice.airflow.operators.base import StreamOperator, triggered_at
from sluice.config.sections.topic import PROGRESS_TOPIC
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.ledger.keys import run_key
from sluice.loads.planning import topic_check
from sluice.loads.planning.topic import Interval, TopicPlanner
from sluice.loads.sending import produced

if TYPE_CHECKING:
    from airflow.sdk import Context

# Kinds of runs that are of an interval: Airflow gives one that a person triggers one too.
OF_INTERVALS = ("scheduled", "backfill")


class CheckTopicOperator(StreamOperator):
    """Look at the topic, which others create and configure; return what it is like.

    Fails if it is missing, was recreated, lost records before they were read, or cannot be read. Nothing of
    it is changed. Of a stream with queries the topic of their progress, Sluice's own, is created.
    """

    does = "checks that the topic is the one that the table has, and can be read; changes nothing of it"
    fails_if = "it is missing, was recreated, lost unread records, or has what the stream cannot read"

    def work(self, context: Context) -> dict[str, Any]:
        facts = topic_check.check(self.platform_hook, self.spec, self.log)
        if self.spec.queries:
            self.log.info("%s", self.platform_hook.topics.provision(PROGRESS_TOPIC).message())
        remarks = facts.remarks(self.spec.supervision.retention_margin_seconds)
        for remark in remarks:
            self.log.warning("topic %s: %s", self.spec.topic.name, remark)
        return {"topic": self.spec.topic.name, **facts.to_json(), "remarks": remarks}


class PlanTopicOperator(StreamOperator):
    """Pin the load's offsets in the ledger: those since the last verified load, up to the topic's end now or
    at the time of param ``until_time``; of a scheduled run those between its interval's bounds by the times
    of records. A repeated attempt has the same offsets. One at a time: the next begins where this one ends.
    """

    does = "pins the offsets to verify: what came since the last verified load, or an interval's"
    fails_if = (
        "the interval is not over, or reaches back behind the stream's start, or the run id has an "
        "earlier plan"
    )

    def work(self, context: Context) -> dict[str, Any]:
        run_id = context["run_id"]
        planner = TopicPlanner(self.platform_hook, self.spec, self.ledger, forms.defaults(self.spec))
        plan = planner.pin(run_id, context["params"], self._interval(context), triggered_at(context))
        self.submitted["plan"] = self.ledger.uri(run_key(run_id, "plan"))
        (source,) = plan["sources"]
        self.log.info("load planned: from=%s until=%s", source["start_offsets"], source["end_offsets"])
        return produced.summary(
            self.ledger, plan, produced.of_run(self.ledger, run_id, self.spec.planning_task)
        )

    def _interval(self, context: Context) -> Interval | None:
        run = context["dag_run"]
        if run.run_type not in OF_INTERVALS:
            return None
        begin, end = context.get("data_interval_start"), context.get("data_interval_end")
        if begin is None or end is None:
            raise Refused(
                f"run {run.run_id!r} is {run.run_type}, and has no interval. Fix: trigger "
                f"{self.stream}_load, or declare [intervals]",
                ErrorCode.INVALID_PARAMETER,
            )
        return begin, end
