"""Health statuses, actions, decisions, HealthReport.

Health of a component: the verdicts, what follows each, and the frame of the rules that reach one.

What a person may request of a stream's supervision, and how a decision may be answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sluice.model.health.json_record import JsonRecord
from sluice.model.health.sample import ProcessState, ProcessStatus, Sample
from sluice.model.spec.stream import CONSUMER, Supervision


class Health(StrEnum):
    """How a stream is. Every verdict is in exactly one of CALM, RESTARTABLE, ASKING and ALARMING.

    *Patience* is the policy's ``stall_timeout_seconds``, or three times the longest of the last batches if
    that is more; each restart since the newest batch doubles it.
    """

    # It moves, and no more waits than arrives within the patience; or all that came is published.
    HEALTHY = "healthy"
    # Nothing waits and nothing came.
    IDLE = "idle"
    # It moves, and more waits than arrives within the patience.
    CATCHING_UP = "catching up"
    # The process runs, and has not taken over yet.
    STARTING = "starting"
    # Stopped on purpose, until somebody releases it.
    SUSPENDED = "suspended"
    # The process runs, records wait, and nothing was published for longer than the patience; or it did not
    # take over in time.
    STALLED = "stalled"
    # The process does not run.
    DOWN = "down"
    # Dead or stalled, and restarted too often already.
    FLAPPING = "flapping"
    # It moves, and what waits grows and grows.
    LAGGING = "lagging"
    # It moves or is held, and retention is about to delete what waits.
    DATA_AT_RISK = "data at risk"
    # Retention has deleted what waited.
    DATA_LOST = "data lost"
    # The topic is not the one that was read.
    TOPIC_RECREATED = "topic recreated"
    # The process ended because another owner has taken over.
    FENCED = "fenced"
    # The process is alive, and what it reads from has not answered for too long.
    SOURCE_UNAVAILABLE = "source unavailable"
    # Something did not answer, or it was not watched for long enough to say whether it moves.
    UNKNOWN = "unknown"


WELL = frozenset({Health.HEALTHY, Health.IDLE, Health.CATCHING_UP, Health.STARTING})
# Nothing is to be done: it is well, or somebody stopped it on purpose.
NO_ACTION = WELL | {Health.SUSPENDED}
# A restart mends it.
RESTARTABLE = frozenset({Health.STALLED, Health.DOWN})
# Restarts did not mend it: a person decides.
NEEDS_DECISION = frozenset({Health.FLAPPING})
# No restart mends it: a person has to know.
ALERTING = frozenset(
    {
        Health.LAGGING,
        Health.DATA_AT_RISK,
        Health.DATA_LOST,
        Health.TOPIC_RECREATED,
        Health.FENCED,
        Health.SOURCE_UNAVAILABLE,
        Health.UNKNOWN,
    }
)


def no_action(component: str) -> frozenset[Health]:
    """The verdicts of a component that need no action: healthy, suspended, or replaced by a process that this
    runtime does not know, which the consumer never is."""
    return NO_ACTION if component == CONSUMER else NO_ACTION | {Health.FENCED}


@dataclass(frozen=True)
class RestartHistory:
    """What the component's history says; moments in seconds since 1970.

    ``restarts``: those that count, each instance's once: by Airflow and the runtime, not on request, and none
    before ``counted_from``. ``runtime_restart_at``: the newest recorded restart by the runtime.
    ``suspended``: by whom it is suspended, since when and why.
    """

    restarts: Sequence[float] = ()
    suspended: str | None = None
    counted_from: float = 0.0
    runtime_restart_at: float = 0.0


def new_restarts(process: ProcessStatus, facts: RestartHistory) -> list[float]:
    """The runtime's restarts that the history does not know yet. It keeps microseconds."""
    return [at for at in process.restarts if at > facts.runtime_restart_at + 0.001]


@dataclass(frozen=True)
class HealthReport(JsonRecord):
    """A verdict, and what it rests on.

    ``message``: one line with names and values. ``lag``: records on the topic that are not published;
    ``rate`` and ``arrivals``: records per second published and arriving, over the time that was observed;
    each None where unknown. ``identity``: of the process that was judged. ``details``: JSON's types only.
    ``is_final``: observing longer would not change it.
    """

    health: Health
    message: str
    lag: int | None = None
    rate: float | None = None
    arrivals: float | None = None
    epoch: int | None = None
    identity: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    is_final: bool = False


class Rules(ABC):
    """Rules over the newest of several samples, in order of weight: the first that answers decides."""

    def __init__(self, now: Sample, policy: Supervision, facts: RestartHistory) -> None:
        if now.process is None:
            raise ValueError(f"the sample of {now.at} shows no process; check unknown_reasons() first")
        self.now = now
        self.process = now.process
        self.policy = policy
        self.facts = facts
        recent = [at for at in new_restarts(self.process, facts) if at >= facts.counted_from]
        self.restarts = [
            at for at in (*facts.restarts, *recent) if abs(now.at - at) <= policy.restart_window_seconds
        ]

    @abstractmethod
    def rules(self) -> Sequence[Callable[[], HealthReport | None]]: ...

    @abstractmethod
    def say(self, health: Health, message: str, is_final: bool) -> HealthReport: ...

    def assess(self) -> HealthReport:
        return next(found for rule in self.rules() if (found := rule()))

    @property
    def is_flapping(self) -> bool:
        return len(self.restarts) >= self.policy.max_restarts

    def ended(self) -> str:
        """How the process that is down ended, and when its runtime restarts it."""
        process = self.process
        how = process.last_exit or f"exit status {process.exit_status}"
        again = f"; the runtime restarts it in {max((process.restart_at or 0) - self.now.at, 0):.0f} s"
        return f"{process.message()}, {how}{again if process.state is ProcessState.BACKOFF else ''}"

    def keeps_ending(self) -> HealthReport | None:
        """Flapping although the runtime restarts it: the new instance does not count as working before it
        lived for as long as a start may take."""
        age = self.now.at - (self.process.since or 0.0)
        is_new = self.process.is_alive and age < self.policy.startup_timeout_seconds
        if self.process.last_exit is None or not self.is_flapping:
            return None
        if self.process.state is ProcessState.BACKOFF:
            return self.unhealthy(Health.DOWN, self.ended(), False)
        before = (
            f"{self.process.message()} for {age:.0f} s; before that it ended with {self.process.last_exit}"
        )
        return self.unhealthy(Health.DOWN, before, False) if is_new else None

    def unhealthy(self, health: Health, message: str, is_final: bool) -> HealthReport:
        """A restart is the remedy, unless restarts did not help."""
        if self.is_flapping:
            message = (
                f"{health.value}: {message}; it was restarted {len(self.restarts)} times within "
                f"{self.policy.restart_window_seconds} s, and that does not mend it"
            )
            health = Health.FLAPPING
        return self.say(health, message, is_final)


def unknown_reasons(now: Sample) -> list[str]:
    """Why a sample tells nothing; empty if every system answered."""
    reasons = [f"{system}: {reason}" for system, reason in sorted(now.errors.items())]
    if now.process is None:
        return reasons or ["the process was not looked at"]
    if now.process.state is ProcessState.UNKNOWN:
        reasons.append(f"{now.process.message()}: its runtime does not know its state")
    elif reasons:
        reasons.append(now.process.message())
    return reasons


def unknown(now: Sample, reasons: Sequence[str]) -> HealthReport:
    return HealthReport(
        Health.UNKNOWN,
        "; ".join(reasons),
        epoch=now.published.epoch if now.published else None,
        identity=now.process.identity if now.process else None,
        details={"at": now.at, "errors": dict(now.errors)},
    )


# The param ``component`` of a run that means every component.
ALL = "all"


class Action(StrEnum):
    """The param ``action`` of a ``<stream>_stream`` DAG."""

    CHECK = "check"
    RESTART = "restart"
    STOP = "stop"
    START = "start"


class Answer(StrEnum):
    """A person decides about a component that keeps ending or stalling."""

    RESTART = "Restart it"
    SUSPEND = "Keep it stopped"
    LOOK = "Look again"


def action_for(params: Mapping[str, Any], component: str) -> Action:
    """What a run with these params does with ``component``; requests may be for another one."""
    is_meant = params.get("component", ALL) in (ALL, component)
    return Action(params.get("action", Action.CHECK)) if is_meant else Action.CHECK
