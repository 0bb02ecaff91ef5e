"""Supervision: does the stream go on after it was started anew?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from sluice.clients.errors import Missing
from sluice.hooks.failures import final_failures, last_words
from sluice.hooks.observation import seen
from sluice.hooks.stream import StreamMixin
from sluice.triggers.moved import MovedTrigger, Outcome

if TYPE_CHECKING:
    from airflow.sdk import Context

PATIENCE = timedelta(seconds=120)
# The trigger ends itself at its deadline, with a reason; Airflow's timeout is for a triggerer that is gone.
BACKSTOP = timedelta(minutes=2)


class MovedSensor(StreamMixin, BaseSensorOperator):
    """Wait, without a worker's slot, until another owner publishes, or has nothing left to publish.

    Red with the last lines of the consumer's log when it ends before that, or after two minutes. The
    recovery is an event of the stream's history, with the seconds since one of the tasks ``starters`` acted.
    """

    template_fields: Sequence[str] = ("stream",)

    def __init__(
        self,
        *,
        stream: str,
        role: str = "airflow",
        observed: str = "observe",
        starters: Sequence[str] = ("restart", "answer"),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.role = role
        self.observed = observed
        self.starters = list(starters)

    def execute(self, context: Context) -> NoReturn:
        with final_failures():
            samples = seen(context, self.observed).samples
        # A person may have it restarted while the lake does not answer: then an earlier look has to do.
        position = next((s.published for s in reversed(samples) if s.published), None)
        self.defer(
            trigger=MovedTrigger(
                stream=self.stream,
                role=self.role,
                token=position.token if position else 0,
                published={str(p): end for p, end in position.ends.items()} if position else {},
                deadline=time.time() + PATIENCE.total_seconds(),
            ),
            method_name="resume",
            timeout=PATIENCE + BACKSTOP,
        )

    def resume(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """What the trigger saw: the task's return value, or its failure."""
        outcome, reason = Outcome(event["outcome"]), event["reason"]
        if outcome is not Outcome.MOVED:
            words = last_words(self.platform_hook.runtime, self.spec.program, self.log)
            raise AirflowFailException(f"not going on, {outcome.value}: {reason}; {words}")
        with final_failures():
            seconds = round(event["at"] - self._decided(context), 1)
            document = {"seconds": seconds, "how": reason, "run": context["run_id"]}
            self.history.record("recovered", document, datetime.fromtimestamp(event["at"], UTC))
        self.log.info("%s, %.1f s after the decision", reason, seconds)
        return {"seconds": seconds, "how": reason}

    def _decided(self, context: Context) -> float:
        acts = context["ti"].xcom_pull(task_ids=self.starters) or []
        moments = [act["at"] for act in acts if act and act["done"]]
        if not moments:
            raise Missing(
                f"no task of {', '.join(self.starters)} started the stream; clear the run from there"
            )
        return float(max(moments))
