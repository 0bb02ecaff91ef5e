"""Health of a component with heartbeats: a producer, queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sluice.config.sections.supervision import Supervision
from sluice.core.processes.heartbeat import HEARTBEAT_INTERVAL, NO_INPUT, Heartbeat, HeartbeatState
from sluice.core.processes.restarts import RestartHistory
from sluice.core.processes.status import ProcessState
from sluice.supervision.rules.base import Rules, problem_of, unknown, unknown_reasons
from sluice.supervision.rules.sample import CLOCK_SLACK_SECONDS, Sample
from sluice.supervision.rules.status import Health, HealthReport

# A living component gives a heartbeat between two samples this many seconds apart.
CONFIRM_SECONDS = HEARTBEAT_INTERVAL + 1


def assess_component(samples: Sequence[Sample], policy: Supervision, history: RestartHistory) -> HealthReport:
    """Health at the newest of ``samples`` (oldest first; not empty)."""
    now = samples[-1]
    reasons, process = unknown_reasons(now), now.process
    is_running = process is not None and process.state is ProcessState.RUNNING
    if process and is_running and process.since is None and not problem_of(process):
        reasons.append(f"{process.message()}: its runtime does not know its start time")
    if reasons:
        return unknown(now, reasons)
    return _Component(samples, policy, history).assess()


class _Component(Rules):
    def __init__(self, samples: Sequence[Sample], policy: Supervision, history: RestartHistory) -> None:
        super().__init__(samples[-1], policy, history)
        self.samples = samples
        self.heartbeat = self.now.heartbeat
        # Samples of this instance, as dead or alive as it is now.
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
            self._has_problem,
            self.not_started,
            self.login_refused,
            self.keeps_ending,
            self._ended,
            self._clock,
            self._no_heartbeat,
            self._alive,
        )

    def _suspended(self) -> HealthReport | None:
        if self.history.suspended is None:
            return None
        return self.say(
            Health.SUSPENDED, f"suspended {self.history.suspended}; {self.process.message()}", True
        )

    def _has_problem(self) -> HealthReport | None:
        return None if self._replacement() else self.has_problem()

    def _ended(self) -> HealthReport | None:
        if self.process.is_alive:
            return None
        ended, other = self.ended(), self._replacement()
        if other is not None:
            # A new instance would only wait for that one.
            message = f"another instance, process {other.pid}, is active: {self._activity(other)}"
            return self.say(Health.FENCED, f"{ended}; {message}", True)
        message = f"{ended}; {self.context()}"
        if self.is_restarting:
            return self.say(Health.STARTING, message, False)
        return self.unhealthy(Health.DOWN, message, self._is_confirmed())

    def _clock(self) -> HealthReport | None:
        """A heartbeat from the future would look fresh for as long as the clocks differ."""
        ahead = self.heartbeat.at - self.now.at if self.heartbeat else 0.0
        if ahead <= max(CLOCK_SLACK_SECONDS, HEARTBEAT_INTERVAL):
            return None
        message = (
            f"{self.process.message()}; its heartbeat is {ahead:.0f} s ahead of this clock. "
            "Fix: set the clocks"
        )
        return self.say(Health.UNKNOWN, message, False)

    def _no_heartbeat(self) -> HealthReport | None:
        if self._own_heartbeat() is not None:
            return None
        timeout = self.policy.startup_timeout_seconds
        age = self._age()
        message = f"{self.process.message()}, no heartbeat {age:.0f} s after its start"
        if age < timeout:
            return self.say(Health.STARTING, message, False)
        message = f"{message} (startup timeout {timeout} s); {self.context()}"
        return self.unhealthy(Health.STALLED, message, self._is_confirmed())

    def _alive(self) -> HealthReport | None:
        heartbeat, timeout = self._own_heartbeat(), self.policy.stall_timeout_seconds
        if heartbeat is None:
            return None
        age, seconds = self.now.at - heartbeat.at, self.now.at - heartbeat.since
        process, activity = self.process.message(), self._activity(heartbeat)
        if age > timeout:
            # Not final after one sample: if Kafka was away, heartbeats come again with the next.
            message = f"{process}, last heartbeat {age:.0f} s ago (stall timeout {timeout} s): {activity}"
            return self.unhealthy(Health.STALLED, message, self._is_confirmed())
        if heartbeat.state is HeartbeatState.CONNECTING and seconds >= timeout:
            source = f"its source has not answered for {seconds:.0f} s: {activity}"
            message = f"{process}, {source}; it keeps retrying, and no restart helps"
            return self.say(Health.SOURCE_UNAVAILABLE, message, True)
        health = Health.IDLE if heartbeat.state in NO_INPUT else Health.HEALTHY
        return self.say(health, f"{process}: {activity}{self.remark()}", True)

    def _is_confirmed(self) -> bool:
        return any(
            self.now.at - s.at >= CONFIRM_SECONDS and _at(s.heartbeat) == _at(self.heartbeat)
            for s in self.earlier
        )

    def confirmed(self, shows: Callable[[Sample], bool]) -> bool:
        return any(self.now.at - s.at >= CONFIRM_SECONDS and shows(s) for s in self.samples[:-1])

    def _replacement(self) -> Heartbeat | None:
        """The newest heartbeat, if it came after this instance had ended."""
        if self.process.is_alive or self.heartbeat is None:
            return None
        is_newer = any(_at(sample.heartbeat) < self.heartbeat.at for sample in self.earlier)
        return self.heartbeat if is_newer else None

    def _age(self) -> float:
        """Seconds since its start; of one that its runtime has not started yet, since the first sample."""
        first = min((sample.at for sample in self.earlier), default=self.now.at)
        return max(self.now.at - (first if self.process.since is None else self.process.since), 0.0)

    def _own_heartbeat(self) -> Heartbeat | None:
        heartbeat, since = self.heartbeat, self.process.since
        if heartbeat is None or since is None or heartbeat.at < since - CLOCK_SLACK_SECONDS:
            return None
        # A runtime elsewhere may not know the id that the process has for itself.
        return heartbeat if self.process.pid in (None, heartbeat.pid) else None

    def context(self) -> str:
        if self.heartbeat is None:
            return "there never was a heartbeat"
        age, activity = self.now.at - self.heartbeat.at, self._activity(self.heartbeat)
        return f"last heartbeat by process {self.heartbeat.pid}, {age:.0f} s ago: {activity}"

    def _activity(self, heartbeat: Heartbeat) -> str:
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
                "heartbeat": self.heartbeat.to_json() if self.heartbeat else None,
                "restarts": sorted(self.restarts),
                "suspended": self.history.suspended,
                "errors": {},
            },
            is_final=is_final,
        )


def _at(heartbeat: Heartbeat | None) -> float:
    return heartbeat.at if heartbeat else 0.0
