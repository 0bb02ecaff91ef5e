"""Health statuses, what each asks for, and the report of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sluice.config.stream import CONSUMER
from sluice.core.json_record import JsonRecord
from sluice.core.processes.status import ENDED, Problem, ProcessState, ProcessStatus


class Health(StrEnum):
    """At most in one of NO_ACTION, RESTARTABLE and LEFT_ALONE; any other alerts a person. ``guide`` says
    what each means.

    The stall timeout is the policy's, or three times the longest of the last batches if that is more; each
    restart since the newest batch doubles it.
    """

    HEALTHY = "healthy"
    IDLE = "idle"
    CATCHING_UP = "catching up"
    STARTING = "starting"
    SUSPENDED = "suspended"
    STALLED = "stalled"
    DOWN = "down"
    FLAPPING = "flapping"
    LAGGING = "lagging"
    REJECTING = "rejecting"
    DATA_AT_RISK = "data at risk"
    DATA_LOST = "data lost"
    TOPIC_RECREATED = "topic recreated"
    FENCED = "fenced"
    SOURCE_UNAVAILABLE = "source unavailable"
    WAITING_FOR_TRANSACTION = "waiting for a transaction"
    INCOMPATIBLE_SCHEMA = "incompatible schema"
    LOGIN_REFUSED = "login refused"
    # Each Problem of the process, while it is the cause (``base.problem_of``).
    NODE_LOST = Problem.NODE_LOST.value
    OUT_OF_MEMORY = Problem.OUT_OF_MEMORY.value
    IMAGE_MISSING = Problem.IMAGE_MISSING.value
    QUOTA_EXCEEDED = Problem.QUOTA_EXCEEDED.value
    UNSCHEDULABLE = Problem.UNSCHEDULABLE.value
    NOT_STARTED = Problem.NOT_STARTED.value
    EXECUTOR_PREEMPTED = Problem.EXECUTOR_PREEMPTED.value
    UNKNOWN = "unknown"


WELL = frozenset({Health.HEALTHY, Health.IDLE, Health.CATCHING_UP, Health.STARTING})
NO_ACTION = WELL | {Health.SUSPENDED}
# In a report's details: why a person has to look at the stream's maintenance, though its consumer is well.
MAINTENANCE_OVERDUE = "maintenance_overdue"
# In a report's details: no runtime tries again what was refused, so supervision does.
ATTEMPT_DUE = "attempt_due"
RESTARTABLE = frozenset({Health.STALLED, Health.DOWN, Health.NODE_LOST, Health.OUT_OF_MEMORY})
# Restarts did not help: red, and untouched until a person triggers an action.
LEFT_ALONE = frozenset({Health.FLAPPING})


def no_action(component: str) -> frozenset[Health]:
    """Statuses that need no action. A component other than the consumer may be replaced by a process that
    this runtime does not know."""
    return NO_ACTION if component == CONSUMER else NO_ACTION | {Health.FENCED}


def is_left_alone(health: Health, process: ProcessStatus | None) -> bool:
    """Whether supervision leaves it as it is until a person triggers an action: restarts did not help, or it
    ended over its configuration, which no restart corrects."""
    is_misconfigured = health in RESTARTABLE and process is not None and process.is_misconfigured
    return health in LEFT_ALONE or is_misconfigured


def must_stop(health: Health, process: ProcessStatus | None) -> bool:
    """Whether it is suspended and runs, or would be restarted: a start was under way when it was suspended,
    or the runtime was restored to a state from before."""
    ends = ENDED | {ProcessState.STOPPING, ProcessState.UNKNOWN}
    return health is Health.SUSPENDED and process is not None and process.state not in ends


@dataclass(frozen=True)
class HealthReport(JsonRecord):
    """How a component is, and by which numbers."""

    health: Health
    """What supervision acts on."""
    message: str
    """One line."""
    lag: int | None = None
    """Unpublished records of the topic; None if unknown."""
    rate: float | None = None
    """Records per second published; None if unknown."""
    arrivals: float | None = None
    """Records per second arriving; None if unknown."""
    epoch: int | None = None
    """The newest writer's; None if the table was not read, as for other components."""
    identity: str | None = None
    """The process that was observed (``ProcessStatus.identity``): another one after a restart."""
    details: dict[str, Any] = field(default_factory=dict)
    """JSON's types only."""
    is_final: bool = False
    """Observing longer would not change it."""
