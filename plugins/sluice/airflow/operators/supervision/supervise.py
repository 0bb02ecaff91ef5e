"""Supervision of one component: check, act, wait for recovery; if it flaps, a person acts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException
from airflow.triggers.base import StartTriggerArgs

from sluice.airflow.channel import RunChannel, compose, form
from sluice.airflow.failures import failed, final_failures
from sluice.airflow.operators.base import BACKSTOP, ComponentOperator
from sluice.airflow.triggers.health import HealthTrigger, RecoveryTrigger
from sluice.airflow.triggers.wait import Outcome
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import CONSUMER
from sluice.core.error_codes import ErrorCode, code_of, with_code
from sluice.core.errors import ClientError
from sluice.core.messages import aligned, iso
from sluice.core.processes.status import ProcessStatus
from sluice.notify import telling
from sluice.notify.conditions import ends_outage
from sluice.notify.occasions import recovered
from sluice.supervision.decide import RECOVERY_SECONDS, Decision, Step, decide
from sluice.supervision.lifecycle import ALL, Action, Request, action_for
from sluice.supervision.observation import Observation
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import Health, HealthReport

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.supervision.lifecycle import ActionResult

# Beyond the duration of a check: systems that answer late, a triggerer that restarts.
CHECK_TIMEOUT = timedelta(minutes=4)
PLATFORM = "schedule"


def request_from(context: Context, decision: Decision) -> Request:
    """The request of the user who triggered the run, or of the schedule."""
    run = context["dag_run"]
    return Request(
        who=run.triggering_user_name or PLATFORM,
        reason=decision.reason,
        run=run.run_id,
        requested=decision.requested,
        at=run.run_after,
    )


class SuperviseOperator(ComponentOperator):
    """Check the component's health, and act on it or on a person's request.

    The check runs in the triggerer and ends the task there if no action is needed. Else a worker restarts a
    component that is down or stalled, and fails for everything that a restart does not repair, also if the
    component cannot be observed. One that keeps ending is left to a person, who triggers an action. After a
    restart it waits, without a worker, for the recovery, ``recovery_seconds`` at most. Its return value is
    the health and its message.
    """

    fails_if = "no restart helps, it does not recover in time, or its health is unknown"

    start_from_trigger = True

    # The health of a stream without its table is unknown, and a person's request is carried out.
    checked = None

    def __init__(self, *, component: str, recovery_seconds: float = RECOVERY_SECONDS, **kwargs: Any) -> None:
        super().__init__(component=component, **kwargs)
        self.recovery_seconds = recovery_seconds
        self.does = f"checks the {component}; restarts it if that helps, and waits for its recovery"
        # What `action_for` reads of the form. Unlike an attribute, rendered again for each leg of the task.
        is_meant = f"params.component in ('{ALL}', task.component)"
        self.submitted["action"] = f"{{{{ params.action if {is_meant} else '{Action.CHECK}' }}}}"
        self.submitted["reason"] = f"{{{{ params.reason or '' if {is_meant} else '' }}}}"
        path, values = HealthTrigger(stream=self.stream, component=component).serialize()
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=path, next_method="act", trigger_kwargs=values, timeout=CHECK_TIMEOUT
        )

    @property
    def waits(self) -> Sequence[timedelta]:
        return (CHECK_TIMEOUT, timedelta(seconds=self.recovery_seconds) + BACKSTOP)

    def act(self, context: Context, event: dict[str, Any]) -> None:
        if "error" in event:
            raise failed(ErrorCode.INVALID_CONFIGURATION, event["error"])
        observation = Observation.from_json(event)
        # A task that defers or fails has no return value.
        context["ti"].xcom_push(key="return_value", value=observation.summary())
        for text in describe(observation):
            self.log.info("%s", text)
        params = context["params"]
        action = action_for(params, self.component)
        is_check = action is Action.CHECK
        decision = decide(observation, self.component, action, params.get("reason") or "")
        with final_failures():
            try:
                self._act(context, observation, decision)
                # Last: whatever becomes of it hinders no action. A failure is told by its callback.
                if is_check:
                    self._tell_recovery(context, observation.report)
                    self._check_maintenance(decision)
            except AirflowFailException:
                if is_check:
                    self._try_tell_open(context)
                raise
            if is_check:
                self._tell_open(context)

    def _act(self, context: Context, observation: Observation, decision: Decision) -> None:
        assessed, request = observation.report, request_from(context, decision)
        match decision.step:
            case Step.LEAVE_TO_PERSON:
                raise self._left_alone(assessed, observation.samples[-1].process)
            case Step.ATTEMPT:
                self.log.info("%s", self.lifecycle.restart(request, assessed, kind="start").message)
                raise self._alert(assessed, observation.samples[-1].process, decision.reason)
            case Step.ALERT:
                raise self._alert(assessed, observation.samples[-1].process, decision.reason)
            case Step.LEAVE_TO_RUNTIME:
                self.log.info("left to its runtime, which restarts it: %s", decision.reason)
            case Step.STOP:
                self.log.warning("it is suspended and runs: %s", assessed.message)
                self.log.info("%s", self.lifecycle.stop(request).message)
            case Step.SUSPEND:
                self.log.info("%s", self.lifecycle.suspend(request).message)
            case Step.RESTART:
                self.wait_for_recovery(self.lifecycle.restart(request, assessed), observation.before)
            case Step.START:
                self.wait_for_recovery(self.lifecycle.start(request, assessed), observation.before)

    def wait_for_recovery(self, result: ActionResult, before: Sample) -> None:
        """Log the action; if it started a process, defer until the component recovered."""
        self.log.info("%s", result.message)
        if not result.done:
            return
        arguments = {"result": result.to_json()}
        self.wait_for(
            RecoveryTrigger, self.recovery_seconds, "record_recovery", arguments, before=before.to_json()
        )

    def record_recovery(self, context: Context, event: dict[str, Any], result: dict[str, Any]) -> None:
        """Record the recovery. Raises AirflowFailException if there is none in time."""
        outcome, reason = Outcome(event["outcome"]), event["reason"]
        if outcome in (Outcome.PERMANENT, Outcome.TIMED_OUT):
            if "health" in event:
                # Told as the next checks tell it.
                raise self._unhealthy(Health(event["health"]), reason)
            self.check_configured()
            raise failed(
                ErrorCode.COMPONENT_DOWN,
                f"{self.program} did not recover after restart, {outcome.value}: {reason}; "
                f"{self.log_excerpt()}",
            )
        seconds = round(event["at"] - result["at"], 1)
        self.log.info("%s, %.1f s after the action", reason, seconds)
        if outcome is Outcome.REACHED:
            with final_failures():
                document = {"seconds": seconds, "how": reason, "run": context["run_id"]}
                self.history.record("recovered", document, datetime.fromtimestamp(event["at"], UTC))

    def _left_alone(self, assessed: HealthReport, process: ProcessStatus | None) -> AirflowFailException:
        """The failure of a check that leaves the component to a person: the cause, and the ways on."""
        if process is not None and process.is_misconfigured:
            return self.misconfigured(process)
        return failed(
            ErrorCode.HEALTH_FLAPPING,
            f"the {self.component} of {self.stream} is {assessed.health.value}: {assessed.message}; "
            f"{self.log_excerpt()}. Fix: repair the cause, then trigger {self.stream}_stream with action "
            f"restart, or with action stop to keep it stopped: {form(self.stream)}",
        )

    def _alert(
        self, assessed: HealthReport, process: ProcessStatus | None, reason: str
    ) -> AirflowFailException:
        """The failure of a check that no restart helps."""
        then = ""
        if process is not None and process.is_misconfigured:
            then = f". Then trigger {self.stream}_stream with action restart: {form(self.stream)}"
        return self._unhealthy(assessed.health, f"{reason}{then}")

    def _unhealthy(self, health: Health, reason: str) -> AirflowFailException:
        """The failure with the code of ``health``."""
        ended = f"ended at an {health.value}"
        what = ended if health is Health.INCOMPATIBLE_SCHEMA else f"is {health.value}"
        return failed(
            ErrorCode[f"HEALTH_{health.name}"], f"the {self.component} of {self.stream} {what}: {reason}"
        )

    def _check_maintenance(self, decision: Decision) -> None:
        if decision.step is Step.ALERT_MAINTENANCE:
            raise failed(
                ErrorCode.MAINTENANCE_OVERDUE,
                f"{decision.reason}. Fix: unpause {self.stream}_maintenance, or see why its runs fail",
            )

    def _tell_recovery(self, context: Context, assessed: HealthReport) -> None:
        if ends_outage(self.component, assessed.health):
            message = f"{assessed.health.value} again: {assessed.message}"
            occasion = recovered(self.stream, self.component, self.history.stream, message)
            note = compose(occasion, (self.dag_id, context["run_id"]))
            try:
                telling.tell(self.history, note, "", RunChannel(context))
            except telling.NotDelivered as error:
                raise failed(error.code, error) from error

    def _tell_open(self, context: Context) -> None:
        """What could not be told of the stream's runs."""
        if self.component != CONSUMER:
            return
        try:
            telling.tell_open(self.history, self.stream, RunChannel(context))
        except telling.NotDelivered as error:
            raise failed(error.code, error) from error

    def _try_tell_open(self, context: Context) -> None:
        """In a check that is red already: a failure is logged, and the next check tries again."""
        try:
            self._tell_open(context)
        except (AirflowFailException, ClientError, ConfigError) as error:
            self.log.error("%s", with_code(code_of(error), error))


def describe(observation: Observation) -> list[str]:
    """The health and two tables for the log: partitions of the newest sample, and details."""
    report, sample = observation.report, observation.samples[-1]
    ends, begins = sample.ends or {}, sample.begins or {}
    published = sample.published.ends if sample.published else {}
    rows = [
        [p, begins.get(p, "-"), published.get(p, "-"), end, sample.unread().get(p, 0)]
        for p, end in sorted(ends.items())
    ]
    details = [
        [key, _shown(key, value)]
        for key, value in report.details.items()
        if value is not None and not isinstance(value, dict)
    ]
    return [
        f"{report.health.value}: {report.message}",
        *([aligned(["partition", "begin", "published", "end", "lag"], rows)] if rows else []),
        aligned(["details", "value"], details),
    ]


def _shown(key: str, value: Any) -> Any:
    """Format times: details named ``at``, ``…_at`` and ``restarts`` hold seconds since 1970."""
    if key == "restarts":
        return ", ".join(iso(at) for at in value) or "none"
    return iso(value) if key == "at" or key.endswith("_at") else value
