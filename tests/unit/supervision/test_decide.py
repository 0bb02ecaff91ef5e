"""What supervision does about a component, as a table."""

from __future__ import annotations

import pytest

from sluice.config.sections.supervision import Supervision
from sluice.core.processes import exits
from sluice.core.processes.status import ENDED, ProcessState, ProcessStatus
from sluice.supervision.decide import Decision, Step, decide, is_enough, observe_seconds, recovery_seconds
from sluice.supervision.lifecycle import Action
from sluice.supervision.observation import Observation
from sluice.supervision.rules.status import ATTEMPT_DUE, MAINTENANCE_OVERDUE, Health
from tests.support.supervision import report, sample

RUNNING, BACKOFF, STOPPED, EXITED = (
    ProcessState.RUNNING,
    ProcessState.BACKOFF,
    ProcessState.STOPPED,
    ProcessState.EXITED,
)
H = Health


def observed(
    health: Health, state: ProcessState = RUNNING, exit_status: int | None = None, **more: object
) -> Observation:
    process = ProcessStatus("p", state, None, 900.0, exit_status)
    return Observation.of(report(health, **more), [sample(process=process)])


# Health -> the step for a consumer that runs.
STEPS = {
    H.HEALTHY: Step.NONE,
    H.IDLE: Step.NONE,
    H.CATCHING_UP: Step.NONE,
    H.STARTING: Step.NONE,
    H.SUSPENDED: Step.STOP,
    H.STALLED: Step.RESTART,
    H.DOWN: Step.RESTART,
    H.NODE_LOST: Step.RESTART,
    H.OUT_OF_MEMORY: Step.RESTART,
    H.FLAPPING: Step.LEAVE_TO_PERSON,
}


@pytest.mark.parametrize("health", Health)
def test_each_health_has_one_step(health: Health) -> None:
    expected = STEPS.get(health, Step.ALERT)
    reason = "it is suspended, and ran" if expected is Step.STOP else "so it is"
    assert decide(observed(health), "consumer", Action.CHECK) == Decision(expected, reason)


@pytest.mark.parametrize(
    ("health", "state", "component", "step"),
    [
        # Another instance works, which this runtime does not know; of consumers there is one.
        (H.FENCED, EXITED, "consumer", Step.ALERT),
        (H.FENCED, EXITED, "producer", Step.NONE),
        # Its runtime restarts it after it was killed for its memory, but not what hangs.
        (H.OUT_OF_MEMORY, BACKOFF, "consumer", Step.LEAVE_TO_RUNTIME),
        (H.OUT_OF_MEMORY, EXITED, "consumer", Step.RESTART),
        (H.DOWN, BACKOFF, "consumer", Step.RESTART),
        # Suspended: stopped unless it ends anyway, or its state is unknown.
        *((H.SUSPENDED, state, "consumer", Step.NONE) for state in sorted(ENDED)),
        (H.SUSPENDED, ProcessState.STOPPING, "consumer", Step.NONE),
        (H.SUSPENDED, ProcessState.UNKNOWN, "consumer", Step.NONE),
        (H.SUSPENDED, ProcessState.STARTING, "consumer", Step.STOP),
        (H.SUSPENDED, BACKOFF, "queries", Step.STOP),
    ],
)
def test_the_process_and_the_component_count_too(
    health: Health, state: ProcessState, component: str, step: Step
) -> None:
    assert decide(observed(health, state), component, Action.CHECK).step is step


@pytest.mark.parametrize("health", Health)
def test_no_restart_corrects_a_configuration(health: Health) -> None:
    ended = observed(health, EXITED, exits.CONFIGURATION)
    left = STEPS.get(health) in (Step.RESTART, Step.LEAVE_TO_PERSON)
    assert (decide(ended, "consumer", Action.CHECK).step is Step.LEAVE_TO_PERSON) is left


@pytest.mark.parametrize(("health", "state"), [(H.HEALTHY, RUNNING), (H.SUSPENDED, STOPPED)])
def test_overdue_maintenance_is_told_of_a_stream_that_needs_nothing_else(
    health: Health, state: ProcessState
) -> None:
    overdue = observed(health, state, details={MAINTENANCE_OVERDUE: "none since Monday"})
    decision = decide(overdue, "consumer", Action.CHECK)
    assert decision == Decision(Step.ALERT_MAINTENANCE, "none since Monday")


def test_what_is_wrong_with_the_component_comes_before_its_maintenance() -> None:
    down = observed(H.DOWN, EXITED, details={MAINTENANCE_OVERDUE: "none since Monday"})
    assert decide(down, "consumer", Action.CHECK).step is Step.RESTART


@pytest.mark.parametrize("health", Health)
@pytest.mark.parametrize(
    ("action", "step"),
    [(Action.RESTART, Step.RESTART), (Action.START, Step.START), (Action.STOP, Step.SUSPEND)],
)
def test_a_request_is_carried_out_whatever_the_health_is(action: Action, step: Step, health: Health) -> None:
    decision = decide(observed(health), "consumer", action, "an upgrade")
    assert decision == Decision(step, "an upgrade", requested=True)


def test_the_time_to_observe_is_more_than_a_stall_and_less_than_an_interval() -> None:
    assert observe_seconds(Supervision()) == 75
    assert observe_seconds(Supervision(stall_timeout_seconds=600)) == 90
    assert observe_seconds(Supervision(stall_timeout_seconds=600), alone=True) == 615
    assert observe_seconds(Supervision(stall_timeout_seconds=600, interval_seconds=1200)) == 615


@pytest.mark.parametrize(
    ("is_final", "samples", "action", "is_late", "enough"),
    [
        (True, 1, Action.CHECK, False, True),
        (False, 9, Action.CHECK, False, False),
        (False, 1, Action.CHECK, True, False),
        (False, 2, Action.CHECK, True, True),
        (False, 1, Action.STOP, False, True),
    ],
)
def test_a_check_ends_with_a_final_health_or_two_samples_and_a_request_with_one(
    is_final: bool, samples: int, action: Action, is_late: bool, enough: bool
) -> None:
    assert is_enough(report(is_final=is_final), samples, action, is_late=is_late) is enough


def test_a_recovery_may_take_as_long_as_a_start() -> None:
    assert recovery_seconds(Supervision(startup_timeout_seconds=10)) == 120
    assert recovery_seconds(Supervision(startup_timeout_seconds=300)) == 300


@pytest.mark.parametrize(
    ("health", "step"),
    [(H.LOGIN_REFUSED, Step.ATTEMPT), (H.DATA_AT_RISK, Step.ATTEMPT), (H.UNKNOWN, Step.ALERT)],
)
def test_supervision_tries_a_refused_login_again_where_no_runtime_does(health: Health, step: Step) -> None:
    """Not while it is unknown whether a person has suspended it."""
    seen = observed(health, EXITED, exits.LOGIN_REFUSED, details={ATTEMPT_DUE: True})
    assert decide(seen, "consumer", Action.CHECK).step is step
