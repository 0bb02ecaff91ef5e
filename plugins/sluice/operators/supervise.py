"""Supervision of one component: check, act, verify. A component that flaps is a person's decision."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRuntimeError, DagRunTriggerException
from airflow.triggers.base import StartTriggerArgs

from sluice.hooks.failures import failed, final_failures, log_excerpt, table
from sluice.hooks.lifecycle import Lifecycle, request_from
from sluice.hooks.observation import Observation
from sluice.model.error_codes import ErrorCode
from sluice.model.health.consumer import NEEDS_DECISION, RESTARTABLE, HealthReport, no_action
from sluice.model.health.status import Action, action_for
from sluice.operators.base import ComponentOperator
from sluice.triggers.health import CHECK_SECONDS, HealthTrigger, Outcome, RecoveryTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.hooks.lifecycle import ActionResult, Request
    from sluice.model.health.sample import Sample

# Beyond what the check takes: for systems that answer late, and for a triggerer that comes back.
CHECK_TIMEOUT = timedelta(minutes=4)
# A consumer that acquired the lease again publishes within seconds; a backlog's first batch may take longer.
RECOVERY_SECONDS = 120.0
# The trigger ends itself at its deadline, with a reason; Airflow's timeout is for a triggerer that is gone.
BACKSTOP = timedelta(minutes=2)
OPEN = ("queued", "running")


def decision_dag_id(stream: str) -> str:
    """The DAG in which a person is asked about a component of ``stream``."""
    return f"{stream}_decision"


class ActingOperator(ComponentOperator):
    """A step that may restart the component, and then waits until it works again."""

    @property
    def lifecycle(self) -> Lifecycle:
        return Lifecycle(self.spec, self.platform_hook.runtime, self.history, self.component)

    def verify(self, act: ActionResult, before: Sample) -> None:
        """Log what was done; if a process was started, defer until it works again."""
        self.log.info("%s", act.message)
        if not act.done:
            return
        patience = max(RECOVERY_SECONDS, self.spec.supervision.startup_timeout_seconds)
        self.defer(
            trigger=RecoveryTrigger(
                stream=self.stream,
                component=self.component,
                role=self.role,
                before=before.to_json(),
                deadline=time.time() + patience,
            ),
            method_name="verified",
            kwargs={"act": act.to_json()},
            timeout=timedelta(seconds=patience) + BACKSTOP,
        )

    def verified(self, context: Context, event: dict[str, Any], act: dict[str, Any]) -> None:
        """Record the recovery. Raises AirflowFailException if the component does not work again in time."""
        outcome, reason = Outcome(event["outcome"]), event["reason"]
        if outcome in (Outcome.DIED, Outcome.TIMED_OUT):
            words = log_excerpt(self.platform_hook.runtime, self.program, self.log)
            raise failed(
                ErrorCode.COMPONENT_DOWN,
                f"{self.program} was started and does not go on, {outcome.value}: {reason}; {words}",
            )
        self.log.info("%s, %.1f s after the decision", reason, event["at"] - act["at"])
        if outcome is Outcome.RECOVERED:
            with final_failures():
                seconds = round(event["at"] - act["at"], 1)
                document = {"seconds": seconds, "how": reason, "run": context["run_id"]}
                self.history.record("recovered", document, datetime.fromtimestamp(event["at"], UTC))


class SuperviseOperator(ActingOperator):
    """Check the component's health, and do what its verdict or a person's request asks for.

    The check runs in the triggerer and ends the task there if there is nothing to do; else a worker restarts
    what is down for good or hangs, requests a decision about what flaps, and fails for what no restart helps:
    also for a component that could not be observed. After a restart it waits, without a worker, until the
    component works again. Its return value is the :class:`Observation`, which the next check reads.
    """

    start_from_trigger = True

    def __init__(self, *, component: str, check_seconds: float = CHECK_SECONDS, **kwargs: Any) -> None:
        super().__init__(component=component, **kwargs)
        path, values = HealthTrigger(
            stream=self.stream, component=component, role=self.role, check_seconds=check_seconds
        ).serialize()
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=path, next_method="act", trigger_kwargs=values, timeout=CHECK_TIMEOUT
        )

    def act(self, context: Context, event: dict[str, Any]) -> None:
        """What follows from the check."""
        if "error" in event:
            raise failed(ErrorCode.INVALID_CONFIGURATION, event["error"])
        # Now: what is deferred, triggers another DAG or fails has no return value.
        context["ti"].xcom_push(key="return_value", value=event)
        observation = Observation.from_json(event)
        for text in describe(observation):
            self.log.info("%s", text)
        with final_failures():
            self._act(context, observation)

    def _act(self, context: Context, observation: Observation) -> None:
        assessed, action = observation.report, action_for(context["params"], self.component)
        # A restart may be requested while the lake does not answer: then an earlier sample has to do.
        newest = observation.samples[-1]
        before = next((s for s in reversed(observation.samples) if s.published), newest)
        if action is Action.CHECK:
            if assessed.health in RESTARTABLE:
                request = request_from(context, assessed.message, requested=False)
                self.verify(self.lifecycle.restart(request, assessed), before)
            elif assessed.health in NEEDS_DECISION:
                self._request_decision(context, assessed)
            elif assessed.health not in no_action(self.component):
                raise failed(
                    ErrorCode[f"HEALTH_{assessed.health.name}"],
                    f"the {self.component} of {self.stream} is {assessed.health.value}: {assessed.message}",
                )
            return
        request = request_from(context, context["params"].get("reason") or "", requested=True)
        self.verify(self._carry_out(action, request, assessed), before)

    def _carry_out(self, action: Action, request: Request, assessed: HealthReport) -> ActionResult:
        if action is Action.STOP:
            return self.lifecycle.suspend(request)
        if action is Action.START:
            return self.lifecycle.start(request, assessed)
        return self.lifecycle.restart(request, assessed)

    def _request_decision(self, context: Context, assessed: HealthReport) -> None:
        """Trigger a run that asks a person, unless one is open."""
        dag_id, newest = decision_dag_id(self.stream), self.history.latest("decision_requested")
        if newest and self._is_open(context, dag_id, newest["run"]):
            self.log.info("a decision is requested since %s: %s %s", newest["at"], dag_id, newest["run"])
            return
        run_id = f"{self.component}__{context['run_id']}__{context['ti'].try_number}"
        now = datetime.now(UTC)
        requested = {"run": run_id, "health": assessed.health.value, "message": assessed.message}
        self.history.record("decision_requested", requested, now)
        raise DagRunTriggerException(
            trigger_dag_id=dag_id,
            dag_run_id=run_id,
            conf={"component": self.component, "requested_at": now.timestamp(), "report": assessed.to_json()},
            logical_date=None,
            run_after=None,
            reset_dag_run=False,
            skip_when_already_exists=True,
            wait_for_completion=False,
            allowed_states=[],
            failed_states=[],
            poke_interval=0,
            deferrable=False,
        )

    def _is_open(self, context: Context, dag_id: str, run_id: str) -> bool:
        """Airflow knows: a run that was marked as failed, or never came to be, asks nobody."""
        try:
            return context["ti"].get_dagrun_state(dag_id, run_id) in OPEN
        except AirflowRuntimeError as error:
            self.log.info("no run %s %s: %s", dag_id, run_id, error)
            return False


def describe(observation: Observation) -> list[str]:
    """The verdict and two tables for the log: the partitions of the newest sample, and the evidence."""
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
        *([table(["partition", "begin", "published", "end", "lag"], rows)] if rows else []),
        table(["details", "value"], details),
    ]


def _shown(key: str, value: Any) -> Any:
    """Moments as such: they are seconds since 1970 in what is named ``at``, ``…_at`` and ``restarts``."""
    if key == "restarts":
        return ", ".join(_moment(at) for at in value) or "none"
    return _moment(value) if key == "at" or key.endswith("_at") else value


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def supervise(
    stream: str, component: str, *, check_seconds: float = CHECK_SECONDS, **kwargs: Any
) -> SuperviseOperator:
    """The task that supervises ``component``, in the DAG that is being made; named like the component."""
    return SuperviseOperator(
        task_id=component,
        stream=stream,
        component=component,
        check_seconds=check_seconds,
        # Of a run that is not retried: the next one checks again.
        retries=0,
        execution_timeout=timedelta(minutes=5),
        **kwargs,
    )
