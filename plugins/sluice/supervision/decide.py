"""What supervision does about a component: how long it observes, then at most one step. Pure.

Read by the trigger, which ends a check without a worker if there is nothing to do, and by the operator,
which carries the step out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from sluice.config.sections.supervision import Supervision
from sluice.core.processes.status import ProcessState
from sluice.supervision.lifecycle import Action
from sluice.supervision.observation import Observation
from sluice.supervision.rules.status import (
    ATTEMPT_DUE,
    MAINTENANCE_OVERDUE,
    RESTARTABLE,
    Health,
    HealthReport,
    is_left_alone,
    must_stop,
    no_action,
)

# One sample may fall between two states of a process, or within a batch.
MIN_SAMPLES = 2
# A check observes this much longer than the stall timeout.
BEYOND_STALL_SECONDS = 15.0
# The rest of an interval is for the action.
MAX_INTERVAL_SHARE = 0.75
# A consumer that acquired the lease again publishes within seconds; a backlog's first batch may take longer.
RECOVERY_SECONDS = 120.0


class Step(Enum):
    """The last four fail the task, so that a person is told."""

    NONE = auto()
    LEAVE_TO_RUNTIME = auto()
    RESTART = auto()
    START = auto()
    SUSPEND = auto()
    # What is suspended already, and runs.
    STOP = auto()
    # Start what ended over a refused login, which is no restart.
    ATTEMPT = auto()
    LEAVE_TO_PERSON = auto()
    ALERT = auto()
    ALERT_MAINTENANCE = auto()


_REQUESTED = {Action.RESTART: Step.RESTART, Action.STOP: Step.SUSPEND, Action.START: Step.START}


@dataclass(frozen=True)
class Decision:
    """``reason``: one line, for the log, the history or the alert; ``requested``: by a person."""

    step: Step
    reason: str
    requested: bool = False


def observe_seconds(policy: Supervision, *, alone: bool = False) -> float:
    """Maximum duration of one check. ``alone``: without the observer, which has the samples before it; then
    it is long enough to tell a stall."""
    seconds = policy.stall_timeout_seconds + BEYOND_STALL_SECONDS
    return seconds if alone else min(seconds, policy.interval_seconds * MAX_INTERVAL_SHARE)


def is_enough(report: HealthReport, samples: int, action: Action, *, is_late: bool) -> bool:
    """Whether to decide on ``report``, after that many samples. ``is_late``: ``observe_seconds`` are over.

    A person's request is carried out in any case: one sample is enough.
    """
    if report.is_final or action is not Action.CHECK:
        return True
    return is_late and samples >= MIN_SAMPLES


def recovery_seconds(policy: Supervision) -> float:
    """How long a restarted component may take to work again."""
    return max(RECOVERY_SECONDS, policy.startup_timeout_seconds)


def decide(observation: Observation, component: str, action: Action, reason: str = "") -> Decision:
    """The step for ``component`` as it was observed. ``action``, ``reason``: those of the run."""
    if action is not Action.CHECK:
        return Decision(_REQUESTED[action], reason, requested=True)
    report, process = observation.report, observation.samples[-1].process
    health, message = report.health, report.message
    if is_left_alone(health, process):
        return Decision(Step.LEAVE_TO_PERSON, message)
    if health is Health.OUT_OF_MEMORY and process and process.state is ProcessState.BACKOFF:
        return Decision(Step.LEAVE_TO_RUNTIME, message)
    if must_stop(health, process):
        return Decision(Step.STOP, "it is suspended, and ran")
    if health in RESTARTABLE:
        return Decision(Step.RESTART, message)
    if health is not Health.UNKNOWN and report.details.get(ATTEMPT_DUE):
        return Decision(Step.ATTEMPT, message)
    if health not in no_action(component):
        return Decision(Step.ALERT, message)
    if overdue := report.details.get(MAINTENANCE_OVERDUE):
        return Decision(Step.ALERT_MAINTENANCE, overdue)
    return Decision(Step.NONE, message)
