"""Waiting in the triggerer: until a component's health is clear, until a restarted one works again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

from sluice.clients.errors import ClientError
from sluice.hooks.observation import Observation, downsample, record
from sluice.model.health.consumer import (
    Health,
    HealthReport,
    RestartHistory,
    assess,
    has_recovered,
    no_action,
)
from sluice.model.health.sample import ENDED, Sample
from sluice.model.health.status import Action, action_for
from sluice.model.spec.config import ConfigError
from sluice.model.spec.ledger import history_name
from sluice.triggers.base import StreamTrigger

if TYPE_CHECKING:
    from sluice.clients.ledger import History
    from sluice.model.spec.stream import Supervision

CHECK_SECONDS = 5.0
POLL_SECONDS = 2.0
SETTLE_SECONDS = 5.0
# One sample may miss what a second one shows: a process between two states, a batch on its way.
MIN_SAMPLES = 2
# How much longer than the time after which a component counts as stalled it is observed.
BEYOND_STALL_SECONDS = 15.0
# Of an interval: the rest is for what follows.
MAX_INTERVAL_SHARE = 0.75
# How many samples the next check gets.
KEPT = 12
# A triggerer that has just started needs some ten seconds for its first answer of this kind.
XCOM_SECONDS = 30.0


def observe_seconds(policy: Supervision) -> float:
    """For how long one check observes at most. What takes longer to show, shows over several checks."""
    return min(
        policy.stall_timeout_seconds + BEYOND_STALL_SECONDS, policy.interval_seconds * MAX_INTERVAL_SHARE
    )


class HealthTrigger(StreamTrigger):
    """Observes a component every ``check_seconds`` until its health is clear, or the time is up.

    Ends the task itself, green and without a worker's process, if there is nothing to do. Else it fires the
    :class:`Observation`, or ``{"error": …}`` if the stream's or the platform's declaration is wrong.

    The scheduler makes it (``start_from_trigger``). In another triggerer the time begins again, because the
    first one's samples are gone; but it ends before Airflow gives the trigger up (``timeout_after``). Samples
    of earlier checks are taken along: without them it only takes longer to detect. What changed is recorded
    in the component's history here, because the triggerer has the clients open.
    """

    names = ("stream", "component", "role", "check_seconds")
    # Set by the triggerer.
    timeout_after: datetime | None = None

    def __init__(
        self, *, stream: str, component: str, role: str, check_seconds: float = CHECK_SECONDS
    ) -> None:
        super().__init__(stream=stream, role=role)
        self.component = component
        self.check_seconds = check_seconds
        self.assess: Callable[[str, Sequence[Sample], Supervision, RestartHistory], HealthReport] = assess

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            observation, facts = await self._observe()
        except ConfigError as error:
            yield TriggerEvent({"error": str(error)})
            return
        await self._record(observation, facts)
        event = observation.to_json()
        if self._action() is Action.CHECK and observation.report.health in no_action(self.component):
            yield TaskSuccessEvent(xcoms={"return_value": event})
        else:
            yield TriggerEvent(event)

    @cached_property
    def history(self) -> History:
        return self.hook.history(history_name(self.stream, self.component))

    async def _observe(self) -> tuple[Observation, RestartHistory | None]:
        policy = self.spec.supervision
        samples = await self._earlier()
        # A request is carried out in any case: one sample is enough for it.
        is_check = self._action() is Action.CHECK
        until, least = (self._until(policy), MIN_SAMPLES) if is_check else (self.clock(), 1)
        facts: RestartHistory | None = None
        count, logged = 0, ""
        while True:
            samples.append(await self.observe(self.component))
            count += 1
            try:
                if facts is None:
                    facts = await self.ask(lambda: self.history.facts(datetime.now(UTC), policy))
                report = self.assess(self.component, samples, policy, facts)
            except ClientError as error:
                report = _without_history(
                    self.assess(self.component, samples, policy, RestartHistory()), error
                )
            message = f"{report.health.value}: {report.message}"
            if message != logged:
                self.log.info("%s", message)
                logged = message
            if report.is_final or (count >= least and self.clock() >= until):
                break
            await self.sleep(self.check_seconds)
        patience = float(report.details.get("patience_seconds", 0))
        reach = (
            max(policy.lag_window_seconds, patience, policy.stall_timeout_seconds) + policy.interval_seconds
        )
        return Observation(report, downsample(samples, reach, KEPT)), facts

    def _until(self, policy: Supervision) -> float:
        """When the time is up, in seconds since 1970; as late as a last question leaves room for."""
        until = self.clock() + observe_seconds(policy)
        if self.timeout_after is None:
            return until
        return min(until, self.timeout_after.timestamp() - self.question_seconds)

    def _action(self) -> Action:
        """What the run is to do with this component."""
        context: dict[str, Any] = getattr(self.task_instance, "get_template_context", dict)()
        return action_for(context.get("params", {}), self.component)

    async def _earlier(self) -> list[Sample]:
        """Samples of earlier checks."""
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
                "samples of earlier checks cannot be read, so detection takes longer: %s: %s",
                type(error).__name__,
                error,
            )
            return []

    async def _record(self, observation: Observation, facts: RestartHistory | None) -> None:
        if facts is None:
            return
        try:
            before = await self.ask(lambda: record(self.history, observation, facts))
        except ClientError as error:
            # The task has the verdict. The next check finds that it is not in the history.
            self.log.warning("the verdict is not in the component's history: %s", error)
            return
        if before != observation.report.health.value:
            self.log.info("it was %s before", before or "never judged")


def _without_history(report: HealthReport, error: ClientError) -> HealthReport:
    """Without the history restarts and holds are unknown, so nothing may be done."""
    return replace(
        report,
        health=Health.UNKNOWN,
        message=f"the component's history: {error}",
        is_final=False,
    )


class Outcome(StrEnum):
    """How waiting for a recovery ended; the value is what the event carries."""

    RECOVERED = "recovered"
    REPLACED = "replaced"
    DIED = "died"
    TIMED_OUT = "timed out"


class RecoveryTrigger(StreamTrigger):
    """Fires when a restarted component works again, when its process has ended for good, or at ``deadline``.

    ``before``: the newest sample before the restart that shows what was published; with ``deadline`` (seconds
    since 1970) all that another triggerer needs. The event says when that was, ``at``.
    """

    names = ("stream", "component", "role", "before", "deadline")

    def __init__(
        self, *, stream: str, component: str, role: str, before: dict[str, Any], deadline: float
    ) -> None:
        super().__init__(stream=stream, role=role)
        self.component = component
        self.before = before
        self.deadline = deadline

    async def run(self) -> AsyncIterator[TriggerEvent]:
        outcome, reason = await self._wait()
        yield TriggerEvent({"outcome": outcome.value, "reason": reason, "at": self.clock()})

    async def _wait(self) -> tuple[Outcome, str]:
        before, logged = Sample.from_json(self.before), ""
        # Airflow 3.3 takes a task that is resumed before the end of its worker is known for a lost one.
        await self.sleep(SETTLE_SECONDS)
        samples: list[Sample] = []
        while True:
            try:
                samples = [*samples[-KEPT:], await self.observe(self.component)]
                report = assess(self.component, samples, self.spec.supervision, RestartHistory())
            except ConfigError as error:
                return Outcome.TIMED_OUT, str(error)
            now = samples[-1]
            recovered, message = has_recovered(self.component, report, now, before)
            if recovered:
                return Outcome.RECOVERED, message
            if report.health is Health.FENCED and report.health in no_action(self.component):
                return Outcome.REPLACED, message
            if now.process is not None and now.process.state in ENDED and report.is_final:
                return Outcome.DIED, f"{now.process.message()}; {message}"
            if message != logged:
                self.log.info("%s", message)
                logged = message
            if self.clock() >= self.deadline:
                return Outcome.TIMED_OUT, message
            await self.sleep(POLL_SECONDS)
