"""Observing a stream until its verdict is clear, for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import TriggerEvent

from sluice.clients.errors import ClientError
from sluice.hooks.observation import Observation, record_verdict, thin
from sluice.model.config import ConfigError
from sluice.model.health import Diagnosis, Facts, Verdict, judge
from sluice.model.orders import Action
from sluice.triggers.base import StreamTrigger

if TYPE_CHECKING:
    from sluice.clients.history import History
    from sluice.model.samples import Sample
    from sluice.model.stream import Supervision

LOOK_SECONDS = 5.0
# One look may miss what a second one a moment later shows: a process between two states, a batch on its way.
LOOKS = 2
# How much longer than the time after which a stream counts as stalled it is observed.
BEYOND_STALL_SECONDS = 15.0
# Of an interval: the rest is for what follows.
MOST_OF_AN_INTERVAL = 0.75
# How many looks the next run gets.
KEPT = 12
# A triggerer that has just started needs some ten seconds for its first answer of this kind.
XCOM_SECONDS = 30.0


def observe_seconds(policy: Supervision) -> float:
    """For how long one run observes at most. What takes longer to show, shows over several runs."""
    return min(policy.stall_seconds + BEYOND_STALL_SECONDS, policy.interval_seconds * MOST_OF_AN_INTERVAL)


class StreamHealthTrigger(StreamTrigger):
    """Looks every ``look_seconds`` and fires an :class:`Observation` once the verdict is clear, or when the
    time is up. ``{"error": …}`` where the stream's or the platform's declaration is wrong.

    Made by the scheduler from what the DAG file says (``start_from_trigger``), which saves a worker's
    process. In another triggerer the time begins anew, because what the first one saw is gone with it; but it
    ends before Airflow gives the trigger up (``timeout_after``, which comes with it from Airflow's database).
    Two looks are taken in any case.

    What earlier runs saw is taken along: its loss only makes it take longer to notice. A verdict that is
    another than the stream's history says is recorded there, here and not in the task, because the triggerer
    has the clients open.
    """

    names = ("stream", "role", "look_seconds")
    # Set by the triggerer.
    timeout_after: datetime | None = None

    def __init__(self, *, stream: str, role: str, look_seconds: float = LOOK_SECONDS) -> None:
        super().__init__(stream=stream, role=role)
        self.look_seconds = look_seconds
        self.judge: Callable[[Sequence[Sample], Supervision, Facts], Diagnosis] = judge

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            observation = await self._observe()
        except ConfigError as error:
            yield TriggerEvent({"error": str(error)})
            return
        await self._record(observation.diagnosis)
        yield TriggerEvent(observation.to_json())

    @cached_property
    def history(self) -> History:
        return self.hook.history(self.stream)

    async def _observe(self) -> Observation:
        policy = self.spec.supervision
        samples = await self._earlier()
        # A person's order is done in any case: one look is enough for it.
        until, least = (self.clock(), 1) if self._is_ordered() else (self._until(policy), LOOKS)
        facts: Facts | None = None
        looks, told = 0, ""
        while True:
            samples.append(await self.look())
            looks += 1
            try:
                if facts is None:
                    facts = await self.ask(lambda: self.history.facts(datetime.now(UTC), policy))
                diagnosis = self.judge(samples, policy, facts)
            except ClientError as error:
                diagnosis = _blind(self.judge(samples, policy, Facts()), error)
            says = f"{diagnosis.verdict.value}: {diagnosis.sentence}"
            if says != told:
                self.log.info("%s", says)
                told = says
            if diagnosis.conclusive or (looks >= least and self.clock() >= until):
                break
            await self.sleep(self.look_seconds)
        patience = float(diagnosis.evidence.get("patience_seconds", 0))
        reach = max(policy.behind_seconds, patience, policy.stall_seconds) + policy.interval_seconds
        return Observation(diagnosis, thin(samples, reach, KEPT))

    def _until(self, policy: Supervision) -> float:
        """When the time is up, in seconds since 1970; as late as a last question leaves room for."""
        until = self.clock() + observe_seconds(policy)
        if self.timeout_after is None:
            return until
        return min(until, self.timeout_after.timestamp() - self.question_seconds)

    def _is_ordered(self) -> bool:
        """Whether a person triggered the run with an action."""
        context: dict[str, Any] = getattr(self.task_instance, "get_template_context", dict)()
        action = context.get("params", {}).get("action", Action.SUPERVISE)
        return bool(action != Action.SUPERVISE)

    async def _earlier(self) -> list[Sample]:
        """What the runs before saw."""
        pull = getattr(self.task_instance, "axcom_pull", None)
        if pull is None:
            return []
        try:
            # map_indexes: without it, Airflow 3.3 asks for a kind of answer that a triggerer never gets.
            found = await asyncio.wait_for(
                pull(task_ids=self.task_id, map_indexes=-1, include_prior_dates=True), XCOM_SECONDS
            )
            return list(Observation.from_json(found).samples) if found else []
        except (AirflowRuntimeError, TimeoutError, KeyError, TypeError, ValueError) as error:
            self.log.warning(
                "what earlier runs saw cannot be read, so it takes longer to notice: %s: %s",
                type(error).__name__,
                error,
            )
            return []

    async def _record(self, diagnosis: Diagnosis) -> None:
        try:
            before = await self.ask(lambda: record_verdict(self.history, diagnosis))
        except ClientError as error:
            # The run goes on: its verdict is in the task. The next one finds that it is not in the history.
            self.log.warning("the verdict is not in the stream's history: %s", error)
            return
        if before != diagnosis.verdict.value:
            self.log.info("it was %s before", before or "never judged")


def _blind(diagnosis: Diagnosis, error: ClientError) -> Diagnosis:
    """Without the history nobody knows of restarts and holds, so nothing may be done."""
    return replace(
        diagnosis,
        verdict=Verdict.UNOBSERVABLE,
        sentence=f"the stream's history: {error}",
        conclusive=False,
    )
