"""The base of all components' rules: a process's end, problem and restarts; and when health is unknown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sluice.config.sections.supervision import Supervision
from sluice.core.messages import summarize
from sluice.core.processes import exits
from sluice.core.processes.restarts import RestartHistory, new_restarts
from sluice.core.processes.status import ENDED, Problem, ProcessState, ProcessStatus
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import ATTEMPT_DUE, RESTARTABLE, Health, HealthReport

_NOT_STARTED = ENDED | {ProcessState.STARTING, ProcessState.BACKOFF}
# Problem -> states of the process in which it is the health, however the stream is. A lost node has its
# last known state. A process that starts again after it was killed at its memory limit is
# what it is now. With executors preempted a process may still make progress (``Rules.unhealthy``).
_COUNTS_IN: Mapping[Problem, frozenset[ProcessState]] = {
    Problem.NODE_LOST: frozenset(ProcessState),
    Problem.OUT_OF_MEMORY: _NOT_STARTED - {ProcessState.STARTING},
    Problem.IMAGE_MISSING: _NOT_STARTED,
    Problem.QUOTA_EXCEEDED: _NOT_STARTED,
    Problem.UNSCHEDULABLE: _NOT_STARTED,
    Problem.NOT_STARTED: _NOT_STARTED,
    Problem.EXECUTOR_PREEMPTED: frozenset(),
}

# The problems that lead to RESTARTABLE.
_RESTARTABLE_PROBLEMS = frozenset({Problem.NODE_LOST, Problem.OUT_OF_MEMORY})


def problem_of(process: ProcessStatus) -> Problem | None:
    """The problem that is the process's health. None after an end that says more: fenced, misconfigured."""
    if process.problem is None or (process.state in ENDED and process.exit_status in exits.FINAL):
        return None
    return process.problem if process.state in _COUNTS_IN[process.problem] else None


class Rules(ABC):
    """Rules over the newest of several samples: the first that answers decides."""

    def __init__(self, now: Sample, policy: Supervision, history: RestartHistory) -> None:
        if now.process is None:
            raise ValueError(f"the sample of {now.at} has no process; check unknown_reasons() first")
        self.now = now
        self.process = now.process
        self.policy = policy
        self.history = history
        recent = [at for at in new_restarts(self.process, history) if at >= history.counted_from]
        self.restarts = [
            at for at in (*history.restarts, *recent) if abs(now.at - at) <= policy.restart_window_seconds
        ]

    @abstractmethod
    def rules(self) -> Sequence[Callable[[], HealthReport | None]]: ...

    @abstractmethod
    def confirmed(self, shows: Callable[[Sample], bool]) -> bool:
        """Whether an earlier sample, taken long enough before the newest, shows it too."""

    @abstractmethod
    def context(self) -> str:
        """What waits, or what the component did last."""

    @abstractmethod
    def say(self, health: Health, message: str, is_final: bool) -> HealthReport: ...

    def assess(self) -> HealthReport:
        return next(found for rule in self.rules() if (found := rule()))

    @property
    def is_flapping(self) -> bool:
        return len(self.restarts) >= self.policy.max_restarts or self.history.left_since is not None

    def ended(self) -> str:
        """End of the process that is down, and its next restart."""
        process = self.process
        how = process.last_exit or f"exit status {process.exit_status}"
        message = f"{process.message()}, {how}"
        if process.state is not ProcessState.BACKOFF:
            return message
        wait = "" if process.restart_at is None else f" in {max(process.restart_at - self.now.at, 0):.0f} s"
        return f"{message}; the runtime restarts it{wait}"

    def login_refused(self) -> HealthReport | None:
        """Not flapping, however often it was tried: what is tried again is no restart. By supervision, if
        its runtime does not."""
        if not self.process.is_login_refused:
            return None
        report = self.say(Health.LOGIN_REFUSED, f"{self.ended()}; {self.context()}", True)
        return (
            report if self.is_restarting else replace(report, details={**report.details, ATTEMPT_DUE: True})
        )

    @property
    def is_restarting(self) -> bool:
        """In BACKOFF, and its runtime is not late with the restart."""
        process = self.process
        due = process.restart_at or (process.last_exit.at if process.last_exit else process.created)
        late = 0.0 if due is None else self.now.at - due
        return process.state is ProcessState.BACKOFF and late < self.policy.startup_timeout_seconds

    def not_started(self) -> HealthReport | None:
        """A cluster has made its pod, and does not start it: another one would not start either."""
        process, timeout = self.process, self.policy.startup_timeout_seconds
        if process.state is not ProcessState.STARTING or process.since or process.created is None:
            return None
        seconds = self.now.at - process.created
        if seconds < timeout:
            return None
        message = f"{process.message()} for {seconds:.0f} s (startup timeout {timeout} s); {self.context()}"
        return self.say(Health.NOT_STARTED, message, True)

    def has_problem(self) -> HealthReport | None:
        """A problem outside of the process; final only if an earlier sample shows it too, because a pod that
        was just created may have no node yet."""
        problem, state = problem_of(self.process), self.process.state
        if problem is None:
            return None
        if state is ProcessState.BACKOFF and not self.is_restarting and problem in _RESTARTABLE_PROBLEMS:
            return None  # down: its runtime does not do what it should
        health, is_final = Health(problem.value), self.confirmed(self._has_same_problem)
        if health not in RESTARTABLE:
            # How an earlier instance ended is not its cause.
            return self.say(health, f"{self.process.message()}; {self.context()}", is_final)
        is_down = state in ENDED or state is ProcessState.BACKOFF
        message = f"{self.ended() if is_down else self.process.message()}; {self.context()}"
        return self.unhealthy(health, message, is_final and state is not ProcessState.BACKOFF)

    def _has_same_problem(self, earlier: Sample) -> bool:
        before = earlier.process
        return before is not None and (before.problem, before.identity) == (
            self.process.problem,
            self.process.identity,
        )

    def keeps_ending(self) -> HealthReport | None:
        """Flapping although the runtime restarts it: a new instance counts as working only after the startup
        timeout."""
        age = self.now.at - (self.now.at if self.process.since is None else self.process.since)
        is_new = self.process.is_alive and age < self.policy.startup_timeout_seconds
        if self.process.last_exit is None or not self.is_flapping:
            return None
        if self.process.state is ProcessState.BACKOFF:
            return self.unhealthy(Health.DOWN, self.ended(), False)
        cause = f" ({self.process.problem})" if self.process.problem is Problem.OUT_OF_MEMORY else ""
        before = f"before that it ended with {self.process.last_exit}{cause}"
        message = f"{self.process.message()} for {age:.0f} s; {before}"
        return self.unhealthy(Health.DOWN, message, False) if is_new else None

    def remark(self) -> str:
        """Mention that a process makes progress with fewer executors."""
        problem = self.process.problem
        return f"; {problem}" if problem is Problem.EXECUTOR_PREEMPTED else ""

    def unhealthy(self, health: Health, message: str, is_final: bool) -> HealthReport:
        if health is Health.STALLED and self.process.problem is Problem.EXECUTOR_PREEMPTED:
            # The next instance would get no executor either.
            return self.say(Health.EXECUTOR_PREEMPTED, message, is_final)
        if self.is_flapping:
            message = f"{health.value}: {message}; {self._futile()}"
            health = Health.FLAPPING
        return self.say(health, message, is_final)

    def _futile(self) -> str:
        """Why no further restart is made."""
        if len(self.restarts) >= self.policy.max_restarts or self.history.left_since is None:
            window = self.policy.restart_window_seconds
            return f"restarted {len(self.restarts)} times within {window} s without recovery"
        seconds = self.now.at - self.history.left_since
        return f"restarts did not help, and no person has acted for {seconds:.0f} s"


def unknown_reasons(now: Sample) -> list[str]:
    """Empty if every system answered."""
    reasons = [f"{system}: {reason}" for system, reason in sorted(now.errors.items())]
    if now.process is None:
        return reasons or ["the process was not observed"]
    if now.process.state is ProcessState.UNKNOWN:
        reasons.append(f"{now.process.message()}: its runtime does not know its state")
    elif reasons:
        reasons.append(now.process.message())
    return reasons


def unknown(now: Sample, reasons: Sequence[str]) -> HealthReport:
    return HealthReport(
        Health.UNKNOWN,
        summarize(reasons),
        epoch=now.published.epoch if now.published else None,
        identity=now.process.identity if now.process else None,
        details={"at": now.at, "errors": dict(now.errors)},
    )
