"""Rules for the health of a component with heartbeats: a producer, queries. Values in, values out.

It is judged by its process and by the newest heartbeat of its Kafka group. That a process runs says nothing:
one that hangs gives no heartbeat, and one whose source does not answer says so in its heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sluice.model.health.heartbeat import HEARTBEAT_INTERVAL, NOTHING_COMES, Heartbeat, HeartbeatState
from sluice.model.health.sample import ProcessState, Sample
from sluice.model.health.status import Health, HealthReport, RestartHistory, Rules, unknown, unknown_reasons
from sluice.model.spec.stream import Supervision

# Two samples say the same for certain when a heartbeat must have come between them.
CONFIRM_SECONDS = HEARTBEAT_INTERVAL + 1
# The component's clock, the runtime's and the observer's may differ by this much.
CLOCK_SLACK_SECONDS = 2.0


def assess_component(samples: Sequence[Sample], policy: Supervision, facts: RestartHistory) -> HealthReport:
    """Health at the newest of ``samples`` (oldest first; not empty). Any values give a verdict."""
    now = samples[-1]
    reasons = unknown_reasons(now)
    if now.process is not None and now.process.is_alive and now.process.since is None:
        reasons.append(f"{now.process.message()}: its runtime does not say since when")
    if reasons:
        return unknown(now, reasons)
    return _Component(samples, policy, facts).assess()


class _Component(Rules):
    def __init__(self, samples: Sequence[Sample], policy: Supervision, facts: RestartHistory) -> None:
        super().__init__(samples[-1], policy, facts)
        self.heartbeat = self.now.heartbeat
        # What earlier samples showed of this instance, if it was as dead or alive as it is now.
        self.earlier = [
            sample
            for sample in samples[:-1]
            if sample.process is not None
            and not sample.errors
            and sample.process.identity == self.process.identity
            and sample.process.is_alive == self.process.is_alive
            and sample.at < self.now.at
        ]

    def rules(self) -> Sequence[Callable[[], HealthReport | None]]:
        return (
            self._suspended,
            self.keeps_ending,
            self._ended,
            self._clock,
            self._no_heartbeat,
            self._stalled,
            self._cut_off,
            self._healthy,
        )

    def _suspended(self) -> HealthReport | None:
        if self.facts.suspended is None:
            return None
        return self.say(Health.SUSPENDED, f"suspended {self.facts.suspended}; {self.process.message()}", True)

    def _ended(self) -> HealthReport | None:
        if self.process.is_alive:
            return None
        ended = self.ended()
        if self.heartbeat is not None and any(_at(s.heartbeat) < self.heartbeat.at for s in self.earlier):
            # What was started now would only wait for it.
            doing = self._doing(self.heartbeat)
            other = f"another instance, process {self.heartbeat.pid}, is active: {doing}"
            return self.say(Health.FENCED, f"{ended}; {other}", True)
        if self.process.state is ProcessState.BACKOFF:
            return self.say(Health.STARTING, f"{ended}; {self._last_beat()}", False)
        return self.unhealthy(Health.DOWN, f"{ended}; {self._last_beat()}", self._is_confirmed())

    def _clock(self) -> HealthReport | None:
        """A heartbeat from the future would look fresh for as long as the clocks differ."""
        ahead = self.heartbeat.at - self.now.at if self.heartbeat else 0.0
        if ahead <= max(CLOCK_SLACK_SECONDS, HEARTBEAT_INTERVAL):
            return None
        return self.say(
            Health.UNKNOWN,
            f"{self.process.message()}; its heartbeat is {ahead:.0f} s ahead of this clock: set the clocks",
            False,
        )

    def _no_heartbeat(self) -> HealthReport | None:
        if self._is_own():
            return None
        age = max(self.now.at - (self.process.since or 0.0), 0.0)
        text = f"{self.process.message()}, and it gave no heartbeat in the {age:.0f} s since it started"
        if age < self.policy.startup_timeout_seconds:
            return self.say(Health.STARTING, text, False)
        return self.unhealthy(
            Health.STALLED,
            f"{text} (it has {self.policy.startup_timeout_seconds} s); {self._last_beat()}",
            self._is_confirmed(),
        )

    def _stalled(self) -> HealthReport | None:
        heartbeat = self._own()
        if self.now.at - heartbeat.at <= self.policy.stall_timeout_seconds:
            return None
        # One sample is not enough: if Kafka was away, the heartbeats come again with the next.
        return self.unhealthy(
            Health.STALLED,
            f"{self.process.message()}, and its last heartbeat was {self.now.at - heartbeat.at:.0f} s ago "
            f"(patience {self.policy.stall_timeout_seconds} s): {self._doing(heartbeat)}",
            self._is_confirmed(),
        )

    def _cut_off(self) -> HealthReport | None:
        heartbeat = self._own()
        seconds = self.now.at - heartbeat.since
        if heartbeat.state is not HeartbeatState.CONNECTING or seconds < self.policy.stall_timeout_seconds:
            return None
        return self.say(
            Health.SOURCE_UNAVAILABLE,
            f"{self.process.message()}, and its source has not answered for {seconds:.0f} s: "
            f"{self._doing(heartbeat)}; it goes on asking, and no restart helps",
            True,
        )

    def _healthy(self) -> HealthReport:
        heartbeat = self._own()
        health = Health.IDLE if heartbeat.state in NOTHING_COMES else Health.HEALTHY
        return self.say(health, f"{self.process.message()}: {self._doing(heartbeat)}", True)

    def _is_confirmed(self) -> bool:
        """Whether an earlier sample showed the same, and no heartbeat came since."""
        return any(
            self.now.at - s.at >= CONFIRM_SECONDS and _at(s.heartbeat) == _at(self.heartbeat)
            for s in self.earlier
        )

    def _is_own(self) -> bool:
        """Whether the heartbeat is this instance's: not its predecessor's, nor another process's."""
        heartbeat, since = self.heartbeat, self.process.since or 0.0
        if heartbeat is None or heartbeat.at < since - CLOCK_SLACK_SECONDS:
            return False
        # A runtime elsewhere may not know the id that the process has for itself.
        return self.process.pid in (None, heartbeat.pid)

    def _own(self) -> Heartbeat:
        if self.heartbeat is None:
            raise ValueError("the component gave no heartbeat; check _is_own() first")
        return self.heartbeat

    def _last_beat(self) -> str:
        if self.heartbeat is None:
            return "there never was a heartbeat"
        ago = self.now.at - self.heartbeat.at
        doing = self._doing(self.heartbeat)
        return f"the last heartbeat was process {self.heartbeat.pid}'s, {ago:.0f} s ago: {doing}"

    def _doing(self, heartbeat: Heartbeat) -> str:
        detail = f" ({heartbeat.detail})" if heartbeat.detail else ""
        return f"{heartbeat.state.value} for {max(self.now.at - heartbeat.since, 0.0):.0f} s{detail}"

    def say(self, health: Health, message: str, is_final: bool) -> HealthReport:
        return HealthReport(
            health,
            message,
            identity=self.process.identity,
            details={
                "at": self.now.at,
                "process": self.process.to_json(),
                "beat": self.heartbeat.to_json() if self.heartbeat else None,
                "restarts": sorted(self.restarts),
                "suspended": self.facts.suspended,
                "errors": {},
            },
            is_final=is_final,
        )


def _at(heartbeat: Heartbeat | None) -> float:
    return heartbeat.at if heartbeat else 0.0
