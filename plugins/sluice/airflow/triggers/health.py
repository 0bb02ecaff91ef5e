"""Observe a component in the triggerer until its health is final, or until it recovered from a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

from sluice.airflow.triggers.base import StreamTrigger
from sluice.airflow.triggers.samples import MAX_SAMPLES, STORE
from sluice.airflow.triggers.wait import Outcome, PollTrigger, Progress
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import CONSUMER
from sluice.core.error_codes import with_code
from sluice.core.errors import ClientError
from sluice.core.processes.restarts import RestartHistory
from sluice.core.processes.status import ENDED
from sluice.notify.conditions import ends_outage
from sluice.notify.telling import is_told
from sluice.supervision.checks.check import Check
from sluice.supervision.decide import Step, decide, is_enough, observe_seconds
from sluice.supervision.lifecycle import Action, action_for
from sluice.supervision.observation import Observation, record
from sluice.supervision.rules.assess import assess, has_recovered
from sluice.supervision.rules.sample import Sample, memory_seconds
from sluice.supervision.rules.status import (
    MAINTENANCE_OVERDUE,
    WELL,
    Health,
    HealthReport,
    no_action,
)

if TYPE_CHECKING:
    from sluice.airflow.hook import StreamClients
    from sluice.config.sections.supervision import Supervision

CHECK_SECONDS = 5.0
POLL_SECONDS = 2.0
SETTLE_SECONDS = 5.0


@dataclass(kw_only=True, eq=False, repr=False)
class HealthTrigger(StreamTrigger):
    """Observes a component every CHECK_SECONDS until its health is final, or the time is up.

    Ends the task itself, green and without a worker, if no action is needed. Else it fires the
    :class:`Observation`, or ``{"error": …}`` for an invalid declaration of the stream or the platform, or
    a missing secret.

    Its samples are the observer's; if that does not answer, its own. The scheduler creates it
    (``start_from_trigger``). Another triggerer begins with a new time limit, but ends before Airflow's own
    timeout (``timeout_after``).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        # Set by the triggerer.
        self.timeout_after: datetime | None = None
        self.assess: Callable[[str, Sequence[Sample], Supervision, RestartHistory], HealthReport] = assess

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            observation, restarts = await self._observe()
        except ConfigError as error:
            yield TriggerEvent({"error": with_code(error.code, error)})
            return
        await self._record(observation, restarts)
        action = self._action()
        is_check = action is Action.CHECK
        if is_check and self.component == CONSUMER and observation.report.health in WELL:
            observation = replace(observation, report=await self._with_maintenance(observation.report))
        if is_check:
            await self._report_check()
        decision = decide(observation, self.component, action)
        if decision.step is Step.NONE and not await self._must_tell(observation.report.health):
            yield TaskSuccessEvent(xcoms={"return_value": observation.summary()})
        else:
            yield TriggerEvent(observation.to_json())

    async def _report_check(self) -> None:
        """Report for the alert that needs neither Airflow nor its database; without the report it fires."""
        max_age = self.spec.supervision.max_check_age_seconds
        check = Check(self.stream, self.component, self.clock(), max_age)
        try:
            await self.ask(lambda clients: clients.platform_hook.report_check(check))
        except ClientError as error:
            self.log.warning("check not reported: %s", error)

    async def _must_tell(self, health: Health) -> bool:
        """Whether a worker is needed to tell of a recovery, or to fail for an invalid notifications.toml."""
        if not ends_outage(self.component, health):
            return False
        try:
            return await self.ask(lambda clients: is_told(clients.history, self.stream))
        except ConfigError:
            return True
        except ClientError as error:
            self.log.warning("what was told is unknown: %s", error)
            return False

    async def _observe(self) -> tuple[Observation, RestartHistory | None]:
        policy = self.spec.supervision
        known = STORE.earlier(self.stream, self.component)
        action, began = self._action(), self.clock()
        is_check = action is Action.CHECK
        restarts: RestartHistory | None = None
        count, logged = 0, ""
        while True:
            # A request is of this moment: it is looked at now.
            samples = await self.samples(known) if is_check else [await self.observe()]
            count += 1
            try:
                if restarts is None:
                    restarts = await self.ask(
                        lambda clients: clients.history.restart_history(datetime.now(UTC), policy)
                    )
                report = self.assess(self.component, samples, policy, restarts)
            except ClientError as error:
                report = _without_history(
                    self.assess(self.component, samples, policy, RestartHistory()), error
                )
            message = f"{report.health.value}: {report.message}"
            if message != logged:
                self.log.info("%s", message)
                logged = message
            until = began + observe_seconds(policy, alone=self.looks_itself)
            if is_enough(report, count, action, is_late=self.clock() >= self._within(until)):
                break
            await self.sleep(CHECK_SECONDS)
        # For a later check that finds no observer.
        STORE.keep(self.stream, self.component, samples, memory_seconds(policy, report.details))
        return Observation.of(report, samples), restarts

    async def _with_maintenance(self, report: HealthReport) -> HealthReport:
        """With MAINTENANCE_OVERDUE in its details if it is."""
        now = datetime.now(UTC)
        try:
            ended = await self.ask(lambda clients: clients.history.maintained_at(now))
        except ClientError as error:
            return _without_history(report, error)
        overdue = self.spec.maintenance.overdue(ended, now)
        return (
            replace(report, details={**report.details, MAINTENANCE_OVERDUE: overdue}) if overdue else report
        )

    def _within(self, until: float) -> float:
        """``until`` (seconds since 1970), with room for one more request before Airflow's timeout."""
        if self.timeout_after is None:
            return until
        return min(until, self.timeout_after.timestamp() - self.request_timeout_seconds)

    def _action(self) -> Action:
        context: dict[str, Any] = getattr(self.task_instance, "get_template_context", dict)()
        return action_for(context.get("params", {}), self.component)

    async def _record(self, observation: Observation, restarts: RestartHistory | None) -> None:
        if restarts is None:
            return

        def write(clients: StreamClients) -> str | None:
            before = record(clients.history, observation, restarts, self.component)
            if observation.report.health is not Health.UNKNOWN:
                # So that the ledger knows of a table within minutes, whatever else runs.
                clients.tables.note(*self.spec.tables_of(self.component))
            return before

        try:
            before = await self.ask(write)
        except ClientError as error:
            # The task has the report, and the next check records it.
            self.log.warning("health not recorded: %s", error)
            return
        if before != observation.report.health.value:
            self.log.info("health changed: before=%s", before or "none")


def _without_history(report: HealthReport, error: ClientError) -> HealthReport:
    # Restarts and suspension are unknown then, so no action may follow.
    return replace(
        report,
        health=Health.UNKNOWN,
        message=f"the component's history: {error}",
        is_final=False,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class RecoveryTrigger(PollTrigger):
    """Fires when a restarted component works again, when its process has ended for good, or at ``deadline``.

    ``before``: the newest sample before the restart with published offsets. The event's ``at`` is the moment
    of the outcome.
    """

    before: dict[str, Any]
    poll_interval: float = POLL_SECONDS

    async def run(self) -> AsyncIterator[TriggerEvent]:
        self._samples: list[Sample] = []
        # Airflow 3.3 fails a task that is resumed before it knows of its worker's end.
        await self.sleep(SETTLE_SECONDS)
        outcome, progress = await self.wait()
        event = {"outcome": outcome.value, "reason": progress.message, "at": self.clock()}
        yield TriggerEvent({**progress.details, **event})

    async def poll(self) -> Progress:
        self._samples = [*self._samples[-MAX_SAMPLES:], await self.observe()]
        now = self._samples[-1]
        report = assess(self.component, self._samples, self.spec.supervision, RestartHistory())
        recovered, message = has_recovered(self.component, report, now, Sample.from_json(self.before))
        if recovered:
            return Progress(message, Outcome.REACHED)
        if report.health is Health.FENCED and report.health in no_action(self.component):
            return Progress(message, Outcome.REPLACED)
        if now.process is not None and now.process.is_login_refused:
            return Progress(report.message, Outcome.PERMANENT, {"health": report.health.value})
        if now.process is not None and now.process.state in ENDED and report.is_final:
            return Progress(f"{now.process.message()}; {message}", Outcome.PERMANENT)
        return Progress(message)
