"""Rules for the health of a component with heartbeats: a producer, queries. Values in, values out.

It is judged by its process and by the newest heartbeat of its Kafka group. That a process runs says nothing:
one that hangs gives no heartbeat, and one whose source does not answer says so in its heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sluice.model.health.heartbeat import HEARTBEAT_INTERVAL, NOTHING_COMES, Heartbeat, State
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
        reasons.append(f"{now.process.sentence()}: its runtime does not say since when")
    if reasons:
        return unknown(now, reasons)
    return _Component(samples, policy, facts).assess()


class _Component(Rules):
    def __init__(self, samples: Sequence[Sample], policy: Supervision, facts: RestartHistory) -> None:
        super().__init__(samples[-1], policy, facts)
        self.beat = self.now.heartbeat
        # What earlier samples showed of this instance, if it was as dead or alive as it is now.
        self.earlier = [
            sample
            for sample in samples[:-1]
            if sample.process is not None
            and not sample.trouble
            and sample.process.identity == self.process.identity
            and sample.process.is_alive == self.process.is_alive
            and sample.at < self.now.at
        ]

    def rules(self) -> Sequence[Callable[[], HealthReport | None]]:
        return (
            self._held,
            self.keeps_ending,
            self._ended,
            self._clock,
            self._no_heartbeat,
            self._stalled,
            self._cut_off,
            self._healthy,
        )

    def _held(self) -> HealthReport | None:
        if self.facts.held is None:
            return None
        return self.say(Health.HELD, f"held {self.facts.held}; {self.process.sentence()}", True)

    def _ended(self) -> HealthReport | None:
        if self.process.is_alive:
            return None
        ended = self.ended()
        if self.beat is not None and any(_at(s.heartbeat) < self.beat.at for s in self.earlier):
            # What was started now would only wait for it.
            other = f"another one, process {self.beat.pid}, is at work in its place: {self._doing(self.beat)}"
            return self.say(Health.SUPERSEDED, f"{ended}; {other}", True)
        if self.process.state is ProcessState.BACKOFF:
            return self.say(Health.STARTING, f"{ended}; {self._last_beat()}", False)
        return self.unhealthy(Health.DEAD, f"{ended}; {self._last_beat()}", self._is_confirmed())

    def _clock(self) -> HealthReport | None:
        """A heartbeat from the future would look fresh for as long as the clocks differ."""
        ahead = self.beat.at - self.now.at if self.beat else 0.0
        if ahead <= max(CLOCK_SLACK_SECONDS, HEARTBEAT_INTERVAL):
            return None
        return self.say(
            Health.UNOBSERVABLE,
            f"{self.process.sentence()}; its heartbeat is {ahead:.0f} s ahead of this clock: set the clocks",
            False,
        )

    def _no_heartbeat(self) -> HealthReport | None:
        if self._is_own():
            return None
        age = max(self.now.at - (self.process.since or 0.0), 0.0)
        text = f"{self.process.sentence()}, and it gave no heartbeat in the {age:.0f} s since it started"
        if age < self.policy.start_seconds:
            return self.say(Health.STARTING, text, False)
        return self.unhealthy(
            Health.STALLED,
            f"{text} (it has {self.policy.start_seconds} s); {self._last_beat()}",
            self._is_confirmed(),
        )

    def _stalled(self) -> HealthReport | None:
        beat = self._own()
        if self.now.at - beat.at <= self.policy.stall_seconds:
            return None
        # One sample is not enough: if Kafka was away, the heartbeats come again with the next.
        return self.unhealthy(
            Health.STALLED,
            f"{self.process.sentence()}, and its last heartbeat was {self.now.at - beat.at:.0f} s ago "
            f"(patience {self.policy.stall_seconds} s): {self._doing(beat)}",
            self._is_confirmed(),
        )

    def _cut_off(self) -> HealthReport | None:
        beat = self._own()
        seconds = self.now.at - beat.since
        if beat.state is not State.CONNECTING or seconds < self.policy.stall_seconds:
            return None
        return self.say(
            Health.CUT_OFF,
            f"{self.process.sentence()}, and its source has not answered for {seconds:.0f} s: "
            f"{self._doing(beat)}; it goes on asking, and no restart helps",
            True,
        )

    def _healthy(self) -> HealthReport:
        beat = self._own()
        verdict = Health.IDLE if beat.state in NOTHING_COMES else Health.HEALTHY
        return self.say(verdict, f"{self.process.sentence()}: {self._doing(beat)}", True)

    def _is_confirmed(self) -> bool:
        """Whether an earlier sample showed the same, and no heartbeat came since."""
        return any(
            self.now.at - s.at >= CONFIRM_SECONDS and _at(s.heartbeat) == _at(self.beat) for s in self.earlier
        )

    def _is_own(self) -> bool:
        """Whether the heartbeat is this instance's: not its predecessor's, nor another process's."""
        beat, since = self.beat, self.process.since or 0.0
        if beat is None or beat.at < since - CLOCK_SLACK_SECONDS:
            return False
        # A runtime elsewhere may not know the id that the process has for itself.
        return self.process.pid in (None, beat.pid)

    def _own(self) -> Heartbeat:
        if self.beat is None:
            raise ValueError("the component gave no heartbeat; check _is_own() first")
        return self.beat

    def _last_beat(self) -> str:
        if self.beat is None:
            return "there never was a heartbeat"
        ago = self.now.at - self.beat.at
        return f"the last heartbeat was process {self.beat.pid}'s, {ago:.0f} s ago: {self._doing(self.beat)}"

    def _doing(self, beat: Heartbeat) -> str:
        detail = f" ({beat.detail})" if beat.detail else ""
        return f"{beat.state.value} for {max(self.now.at - beat.since, 0.0):.0f} s{detail}"

    def say(self, verdict: Health, sentence: str, conclusive: bool) -> HealthReport:
        return HealthReport(
            verdict,
            sentence,
            identity=self.process.identity,
            evidence={
                "at": self.now.at,
                "process": self.process.to_json(),
                "beat": self.beat.to_json() if self.beat else None,
                "restarts": sorted(self.restarts),
                "held": self.facts.held,
                "trouble": {},
            },
            conclusive=conclusive,
        )


def _at(beat: Heartbeat | None) -> float:
    return beat.at if beat else 0.0
