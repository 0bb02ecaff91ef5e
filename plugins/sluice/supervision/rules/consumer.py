"""Health of the consumer at the newest of several samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sluice.config.sections.supervision import Supervision
from sluice.core.error_codes import ErrorCode, code_in
from sluice.core.processes import exits
from sluice.core.processes.restarts import RestartHistory
from sluice.supervision.rules.base import Rules, unknown, unknown_reasons
from sluice.supervision.rules.retention import already_deleted, topic_id_changed, topic_truncated
from sluice.supervision.rules.sample import Sample, ordered
from sluice.supervision.rules.status import Health, HealthReport
from sluice.supervision.rules.timeline import Timeline, offsets


def assess_consumer(samples: Sequence[Sample], policy: Supervision, history: RestartHistory) -> HealthReport:
    """Health at the last of ``samples``; those whose clock contradicts its clock are left out."""
    if not samples:
        return HealthReport(Health.UNKNOWN, "nothing was observed")
    now = samples[-1]
    reasons = unknown_reasons(now)
    if now.begins is None or now.ends is None:
        reasons = reasons or ["the topic was not observed"]
    if reasons:
        report = unknown(now, reasons)
        return replace(report, details=report.details | {"samples": len(samples)})
    return _Consumer(samples, policy, history).assess()


class _Consumer(Rules):
    def __init__(self, samples: Sequence[Sample], policy: Supervision, history: RestartHistory) -> None:
        super().__init__(samples[-1], policy, history)
        self.timeline = Timeline(ordered(samples), policy, self.restarts)

    def rules(self) -> Sequence[Callable[[], HealthReport | None]]:
        return (
            self._suspended,
            self._recreated,
            self._lost,
            self.has_problem,
            self.not_started,
            self.login_refused,
            self.keeps_ending,
            self._ended,
            self._no_writer,
            self._nothing_to_do,
            self._waits_for_transaction,
            self._stalled,
            self._at_risk,
            self._unknown,
            self._rejecting,
            self._lagging,
            self._working,
        )

    def _suspended(self) -> HealthReport | None:
        if self.history.suspended is None:
            return None
        # Records that can still be saved need a person; lost ones may be the reason for the suspension.
        risk, suspended = self.timeline.risk, f"suspended {self.history.suspended}"
        if risk:
            return self.say(Health.DATA_AT_RISK, f"{suspended}; {risk}", True)
        loss = self.timeline.recreation or already_deleted(self.now)
        clauses = [suspended, loss, self.process.message(), self._waiting()]
        return self.say(Health.SUSPENDED, "; ".join(filter(None, clauses)), True)

    def _recreated(self) -> HealthReport | None:
        recreation = self.timeline.recreation
        if recreation is None:
            return None
        # A broker that has just restarted may show fewer offsets than it keeps, so they need two samples.
        is_final = bool(topic_id_changed(self.timeline.all)) or self.timeline.confirmed(
            lambda earlier: bool(topic_truncated(earlier))
        )
        message = f"{recreation}. Fix: give the stream a new table, or restore the topic"
        return self.say(Health.TOPIC_RECREATED, self._with_refusal(message), is_final)

    def _lost(self) -> HealthReport | None:
        loss = already_deleted(self.now)
        if loss is None:
            return None
        fix = "give the stream a new table, upload the files again, and raise the topic's retention.ms"
        return self.say(Health.DATA_LOST, self._with_refusal(f"{loss}. Fix: {fix}"), True)

    def login_refused(self) -> HealthReport | None:
        """Records that are deleted soon are the more urgent of the two."""
        report, risk = super().login_refused(), self.timeline.risk
        if report is None or risk is None:
            return report
        message = f"{risk}; login refused: {self.ended()}; {self._waiting()}"
        return replace(report, health=Health.DATA_AT_RISK, message=message)

    def _with_refusal(self, message: str) -> str:
        """With the refused login too, which is to be corrected first of all."""
        refused = self.process.is_login_refused
        return f"{message}; login refused: {self.ended()}" if refused else message

    def _ended(self) -> HealthReport | None:
        timeline = self.timeline
        if self.process.is_alive:
            return None
        ended = self.ended()
        is_fenced = self.process.exit_status == exits.FENCED
        if is_fenced and (not timeline.lag or timeline.is_recent(timeline.stall_timeout)):
            message = f"{ended}: writer epoch {timeline.epoch} is active; {self.context()}"
            return self.say(Health.FENCED, message, True)
        message = f"{ended}; {self._waiting()}"
        if self.process.is_misconfigured and _stopped_by_schema(self.process.description):
            return self.say(Health.INCOMPATIBLE_SCHEMA, f"{ended}; {self.context()}", True)
        if self.is_restarting:
            if self.timeline.risk:
                return self.say(Health.DATA_AT_RISK, f"{self.timeline.risk}; {message}", True)
            return self.say(Health.STARTING, message, False)
        is_final = timeline.confirmed(
            lambda earlier: (
                earlier.process is not None
                and earlier.process.identity == self.process.identity
                and not earlier.process.is_alive
            )
        )
        return self._unhealthy(Health.DOWN, message, is_final)

    def _no_writer(self) -> HealthReport | None:
        timeline, timeout = self.timeline, self.policy.startup_timeout_seconds
        if timeline.has_active_writer(self.now):
            return None
        message = f"{self.process.message()}: no active writer {timeline.age:.0f} s after its start"
        if timeline.age < timeout:
            return self.say(Health.STARTING, f"{message}; {self._waiting()}", False)
        is_final = timeline.confirmed(lambda earlier: not timeline.has_active_writer(earlier))
        return self._unhealthy(Health.STALLED, f"{message} (startup timeout {timeout} s)", is_final)

    def _nothing_to_do(self) -> HealthReport | None:
        if self.timeline.lag:
            return None
        if rejecting := self._rejecting():
            return rejecting
        if self.timeline.rates and self.timeline.rates[1]:
            return self.say(Health.HEALTHY, f"everything is published; {self._speed()}", True)
        message = f"everything is published, and nothing arrives; {self.process.message()}"
        return self.say(Health.IDLE, message, True)

    @property
    def _stuck(self) -> dict[int, float]:
        """Partition without progress for the stall timeout -> seconds."""
        timeline = self.timeline
        return {p: seconds for p, seconds in timeline.stuck.items() if seconds >= timeline.stall_timeout}

    def _waits_for_transaction(self) -> HealthReport | None:
        """No restart helps: committed records behind an open transaction are not read by anyone."""
        timeline, stuck = self.timeline, self._stuck
        if not stuck or not all(map(timeline.now.waits_for_transaction, stuck)):
            return None
        partition = max(stuck, key=lambda p: stuck[p])
        which = timeline.now.transactions.get(partition, "a producer that this user may not see")
        where = offsets({p: timeline.now.first_unread(p) for p in stuck})
        risk = f"; {timeline.risk}" if timeline.risk else ""
        message = (
            f"waits for {stuck[partition]:.0f} s for a transaction of {which}: nothing is read from {where} "
            f"on; {self._waiting()}{risk}. Fix: let its producer end it, or abort it (kafka-transactions.sh)"
        )
        return self.say(Health.WAITING_FOR_TRANSACTION, message, True)

    def _stalled(self) -> HealthReport | None:
        timeline, stuck = self.timeline, self._stuck
        if not stuck:
            return None
        where = offsets({p: timeline.now.first_unread(p) for p in stuck})
        what = "stream" if len(stuck) == len(timeline.unread) else f"{len(stuck)} partitions"
        return self._unhealthy(
            Health.STALLED,
            f"{self.process.message()}, {what} without progress for {max(stuck.values()):.0f} s "
            f"(stall timeout {timeline.stall_timeout:.0f} s) from {where} on; {self._waiting()}",
            True,
        )

    def _at_risk(self) -> HealthReport | None:
        if self.timeline.risk is None:
            return None
        # It takes longer to see whether it makes progress at all.
        return self.say(Health.DATA_AT_RISK, f"{self.timeline.risk}; {self._speed()}", self._is_recent())

    def _unknown(self) -> HealthReport | None:
        timeline = self.timeline
        if timeline.has_known_start or timeline.is_recent(timeline.stall_timeout):
            return None
        return self.say(
            Health.UNKNOWN,
            f"{self._waiting()}, and nothing was published in {timeline.still:.0f} s of observation: too "
            f"short to tell whether it is stalled (stall timeout {timeline.stall_timeout:.0f} s)",
            False,
        )

    def _rejecting(self) -> HealthReport | None:
        share, known = self.timeline.rejection(self.history.requested_at), self.now.published
        if share is None or known is None:
            return None
        newest = f"; newest: {known.newest_malformed}" if known.newest_malformed else ""
        # Its reason may say its own.
        fix = "; or" if ". Fix: " in newest else ". Fix:"
        message = (
            f"{share} were rejected and are in quarantine only, max_rejected_percent is "
            f"{self.policy.max_rejected_percent}{newest}{fix} correct what sends them, or the schema and "
            f"retry_quarantine; {self._waiting()}"
        )
        return self.say(Health.REJECTING, message, not self.timeline.lag or self._is_recent())

    def _lagging(self) -> HealthReport | None:
        growth = self.timeline.growth
        if growth is None or not self.timeline.is_far_behind:
            return None
        seconds, more = growth
        return self.say(
            Health.LAGGING,
            f"{self._waiting()}, {more} more than {seconds:.0f} s ago: it never catches up at this rate; "
            f"{self._speed()}",
            True,
        )

    def _working(self) -> HealthReport:
        timeline = self.timeline
        if not timeline.is_far_behind or timeline.rates is None:
            return self.say(Health.HEALTHY, f"{self._waiting()}; {self._speed()}", self._is_recent())
        arriving, publishing = timeline.rates
        estimate = "no estimate"
        if publishing > arriving:
            estimate = f"about {timeline.lag / (publishing - arriving):.0f} s to go"
        message = f"{self._waiting()}, {estimate}; {self._speed()}"
        return self.say(Health.CATCHING_UP, message, self._is_recent())

    def _unhealthy(self, health: Health, message: str, is_final: bool) -> HealthReport:
        risk = f"; {self.timeline.risk}" if self.timeline.risk else ""
        return self.unhealthy(health, f"{message}{risk}", is_final)

    def confirmed(self, shows: Callable[[Sample], bool]) -> bool:
        return self.timeline.confirmed(shows)

    def context(self) -> str:
        return "; ".join(filter(None, [self._waiting(), self.timeline.risk]))

    def _is_recent(self) -> bool:
        return self.timeline.is_recent(self.timeline.stall_timeout / 2)

    def _waiting(self) -> str:
        return f"{self.timeline.lag} records wait" if self.timeline.lag else "no record waits"

    def _speed(self) -> str:
        timeline = self.timeline
        writer = "no writer" if timeline.epoch is None else f"writer epoch {timeline.epoch}"
        if timeline.rates is None:
            return f"{writer}; {self.process.message()}{self.remark()}"
        arriving, publishing = timeline.rates
        speed = f"{arriving:.0f} records/s arrive, {publishing:.0f} records/s are published by {writer}"
        return f"{speed}{self.remark()}"

    def say(self, health: Health, message: str, is_final: bool) -> HealthReport:
        timeline = self.timeline
        return HealthReport(
            health,
            message,
            lag=timeline.lag,
            rate=timeline.rates[1] if timeline.rates else None,
            arrivals=timeline.rates[0] if timeline.rates else None,
            epoch=timeline.epoch,
            identity=self.process.identity,
            details=timeline.details() | {"suspended": self.history.suspended},
            is_final=is_final,
        )


def _stopped_by_schema(reason: str) -> bool:
    """Whether a process's last words are of a schema that its table cannot follow."""
    return code_in(reason) is ErrorCode.SCHEMA_NOT_FOLLOWED
