"""Health of a component: the rules for the consumer, and which rules a component has. Values in, values out.

What a rule needs to know is worked out in :mod:`sluice.model.health.timeline`. The words of
:mod:`sluice.model.health.status` are given on, so that who judges imports from here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sluice.model.health.component import assess_component
from sluice.model.health.retention import shrunk
from sluice.model.health.sample import EXIT_FENCED, ProcessState, Sample, ordered
from sluice.model.health.status import (
    ALERTING,
    NEEDS_DECISION,
    NO_ACTION,
    RESTARTABLE,
    WELL,
    Health,
    HealthReport,
    RestartHistory,
    Rules,
    new_restarts,
    no_action,
    unknown,
    unknown_reasons,
)
from sluice.model.health.timeline import Timeline, offsets
from sluice.model.spec.stream import CONSUMER, Supervision

__all__ = [
    "ALERTING",
    "NEEDS_DECISION",
    "NO_ACTION",
    "RESTARTABLE",
    "WELL",
    "Health",
    "HealthReport",
    "RestartHistory",
    "assess",
    "assess_consumer",
    "has_recovered",
    "new_restarts",
    "no_action",
]


def assess(
    component: str, samples: Sequence[Sample], policy: Supervision, facts: RestartHistory
) -> HealthReport:
    """Health of ``component`` at the newest of ``samples``, oldest first; they may come from earlier checks.

    Any samples give a verdict, and none of WELL if the newest has trouble.
    """
    return (assess_consumer if component == CONSUMER else assess_component)(samples, policy, facts)


def has_recovered(component: str, report: HealthReport, now: Sample, before: Sample) -> tuple[bool, str]:
    """Whether a component that was restarted after ``before`` works again, and how it stands.

    The consumer: a later writer has published something, or has nothing left to publish. Another component:
    its new instance gave a heartbeat.
    """
    if component != CONSUMER or now.errors:
        return report.health in (Health.HEALTHY, Health.IDLE, Health.SOURCE_UNAVAILABLE), report.message
    position, epoch = now.published, before.published.epoch if before.published else 0
    if position is None or position.epoch <= epoch:
        return False, f"nobody has taken over since owner {epoch}"
    ends: Mapping[int, int] = before.published.ends if before.published else {}
    lag = sum(now.unread().values())
    ahead = sum(max(end - ends.get(p, 0), 0) for p, end in position.ends.items())
    return bool(ahead) or not lag, f"owner {position.epoch} has published {ahead} records, {lag} wait"


def assess_consumer(samples: Sequence[Sample], policy: Supervision, facts: RestartHistory) -> HealthReport:
    """How the stream is at the last of ``samples``. Those whose clock contradicts its clock are left out."""
    if not samples:
        return HealthReport(Health.UNKNOWN, "nothing was observed")
    now = samples[-1]
    reasons = unknown_reasons(now)
    if now.begins is None or now.ends is None:
        reasons = reasons or ["the topic was not looked at"]
    if reasons:
        found = unknown(now, reasons)
        return replace(found, details=found.details | {"samples": len(samples)})
    return _Consumer(samples, policy, facts).assess()


class _Consumer(Rules):
    def __init__(self, samples: Sequence[Sample], policy: Supervision, facts: RestartHistory) -> None:
        super().__init__(samples[-1], policy, facts)
        self.view = Timeline(ordered(samples), policy, self.restarts)

    def rules(self) -> Sequence[Callable[[], HealthReport | None]]:
        return (
            self._suspended,
            self._recreated,
            self._lost,
            self.keeps_ending,
            self._ended,
            self._unowned,
            self._nothing_to_do,
            self._stalled,
            self._at_risk,
            self._unknown,
            self._falling_behind,
            self._moving,
        )

    def _suspended(self) -> HealthReport | None:
        if self.facts.suspended is None:
            return None
        # What can still be saved is said aloud; what has happened is part of the reason for a hold.
        if self.view.risk:
            return self.say(Health.DATA_AT_RISK, f"suspended {self.facts.suspended}; {self.view.risk}", True)
        found = self.view.recreation or self.view.loss
        return self.say(
            Health.SUSPENDED,
            "; ".join(
                filter(None, [f"suspended {self.facts.suspended}", found, self._process(), self._waiting()])
            ),
            True,
        )

    def _recreated(self) -> HealthReport | None:
        view = self.view
        if view.recreation is None:
            return None
        # A broker that has just come back may say less than it keeps, so offsets alone are looked at twice.
        certain = bool(view.other_id) or view.confirmed(lambda earlier: bool(shrunk(earlier)))
        return self.say(
            Health.TOPIC_RECREATED,
            f"{view.recreation}: give the stream a new table, or restore the topic",
            certain,
        )

    def _lost(self) -> HealthReport | None:
        if self.view.loss is None:
            return None
        return self.say(
            Health.DATA_LOST,
            f"{self.view.loss}: give the stream a new table, put the files again, and raise the topic's "
            "retention.ms",
            True,
        )

    def _ended(self) -> HealthReport | None:
        view = self.view
        if view.process.is_alive:
            return None
        ended = self.ended()
        by_successor = view.process.exit_status == EXIT_FENCED
        if by_successor and (not view.lag or view.is_recent(view.patience)):
            return self.say(
                Health.FENCED,
                f"{ended}: owner {view.epoch} has taken over; {self._waiting()}",
                True,
            )
        if view.process.state is ProcessState.BACKOFF:
            return self.say(Health.STARTING, f"{ended}; {self._waiting()}", False)
        certain = view.confirmed(
            lambda earlier: (
                earlier.process is not None
                and earlier.process.identity == view.process.identity
                and not earlier.process.is_alive
            )
        )
        return self._unhealthy(Health.DOWN, f"{ended}; {self._waiting()}", certain)

    def _unowned(self) -> HealthReport | None:
        view = self.view
        if view.is_owned:
            return None
        age = f"{self._process()}, and nobody has taken over in the {view.age:.0f} s since it started"
        if view.age < view.policy.startup_timeout_seconds:
            return self.say(Health.STARTING, f"{age}; {self._waiting()}", False)
        certain = view.confirmed(lambda earlier: view.was_unowned(earlier))
        return self._unhealthy(
            Health.STALLED, f"{age} (it has {view.policy.startup_timeout_seconds} s)", certain
        )

    def _nothing_to_do(self) -> HealthReport | None:
        if self.view.lag:
            return None
        if self.view.rates and self.view.rates[1]:
            return self.say(Health.HEALTHY, f"everything is published; {self._speed()}", True)
        return self.say(Health.IDLE, f"everything is published, and nothing arrives; {self._process()}", True)

    def _stalled(self) -> HealthReport | None:
        view = self.view
        stuck = {p: seconds for p, seconds in view.stuck.items() if seconds >= view.patience}
        if not stuck:
            return None
        where = offsets({p: view.now.first_unread(p) for p in stuck})
        still = "nothing was" if len(stuck) == len(view.unread) else f"nothing of {len(stuck)} partitions was"
        return self._unhealthy(
            Health.STALLED,
            f"{self._process()}, and {still} published for {max(stuck.values()):.0f} s "
            f"(patience {view.patience:.0f} s) from {where} on; {self._waiting()}",
            True,
        )

    def _at_risk(self) -> HealthReport | None:
        if self.view.risk is None:
            return None
        # Whether it moves at all may take longer to see.
        return self.say(Health.DATA_AT_RISK, f"{self.view.risk}; {self._speed()}", self._is_fresh())

    def _unknown(self) -> HealthReport | None:
        view = self.view
        if view.has_known_start or view.is_recent(view.patience):
            return None
        return self.say(
            Health.UNKNOWN,
            f"{self._waiting()}, and nothing was published in the {view.still:.0f} s that were observed: too "
            f"short to say whether it stands still (patience {view.patience:.0f} s)",
            False,
        )

    def _falling_behind(self) -> HealthReport | None:
        growth = self.view.growth
        if growth is None or not self.view.is_far_behind:
            return None
        seconds, more = growth
        return self.say(
            Health.LAGGING,
            f"{self._waiting()}, {more} more than {seconds:.0f} s ago: it never catches up at this rate; "
            f"{self._speed()}",
            True,
        )

    def _moving(self) -> HealthReport:
        view = self.view
        if not view.is_far_behind or view.rates is None:
            return self.say(Health.HEALTHY, f"{self._waiting()}; {self._speed()}", self._is_fresh())
        came, went = view.rates
        left = f"about {view.lag / (went - came):.0f} s to go" if went > came else "no end in sight yet"
        return self.say(Health.CATCHING_UP, f"{self._waiting()}, {left}; {self._speed()}", self._is_fresh())

    def _unhealthy(self, health: Health, message: str, is_final: bool) -> HealthReport:
        risk = f"; {self.view.risk}" if self.view.risk else ""
        return self.unhealthy(health, f"{message}{risk}", is_final)

    def _is_fresh(self) -> bool:
        """Whether it moved so recently that only a look much later could say something else."""
        return self.view.is_recent(self.view.patience / 2)

    def _process(self) -> str:
        return self.view.process.message()

    def _waiting(self) -> str:
        return f"{self.view.lag} records wait" if self.view.lag else "no record waits"

    def _speed(self) -> str:
        view = self.view
        owner = f"owner {view.epoch}" if view.epoch is not None else "no owner"
        if view.rates is None:
            return f"{owner}; {self._process()}"
        came, went = view.rates
        return f"{came:.0f} records/s arrive, {went:.0f} records/s are published by {owner}"

    def say(self, health: Health, message: str, is_final: bool) -> HealthReport:
        view = self.view
        return HealthReport(
            health,
            message,
            lag=view.lag,
            rate=view.rates[1] if view.rates else None,
            arrivals=view.rates[0] if view.rates else None,
            epoch=view.epoch,
            identity=view.process.identity,
            details=view.details() | {"suspended": self.facts.suspended},
            is_final=is_final,
        )
