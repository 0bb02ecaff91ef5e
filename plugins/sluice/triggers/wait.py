"""Wait, in the triggerer, for the work of a stream's component."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow.triggers.base import TriggerEvent

from sluice.clients.errors import ClientError
from sluice.model.health.sample import ENDED, ProcessState, ProcessStatus
from sluice.model.spec.config import ConfigError
from sluice.triggers.base import StreamTrigger, T

# Supervision finds a component that is down within one interval and starts it within the next.
GRACE_INTERVALS = 2.5
MAX_RESTARTS = 5
LOG_INTERVAL_SECONDS = 15.0
DOWN = frozenset({*ENDED, ProcessState.BACKOFF})


class Outcome(StrEnum):
    """How the wait ended, as the event carries it."""

    REACHED = "reached"
    PERMANENT = "permanent"
    TIMED_OUT = "timed out"


@dataclass(frozen=True)
class Progress:
    """Progress of the component. ``outcome``: None to continue; ``details``: for the event, as JSON."""

    message: str
    outcome: Outcome | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class ProcessWatch:
    """Restarts and down time of a process during the wait. ``grace``: seconds that it may be down."""

    grace: float
    down_since: float | None = None
    pids: set[int] = field(default_factory=set)

    def failure(self, process: ProcessStatus, now: float) -> str | None:
        """Why the wait cannot succeed, or None. Call it with every observation; ``now`` in seconds."""
        if process.pid is not None:
            self.pids.add(process.pid)
        if len(self.pids) > MAX_RESTARTS + 1:
            return f"{process.program} was restarted {len(self.pids) - 1} times during the wait"
        if process.state not in DOWN:
            self.down_since = None
            return None
        self.down_since = now if self.down_since is None else self.down_since
        down = now - self.down_since
        return f"{process.message()} for {down:.0f} s" if down >= self.grace else None


@dataclass(kw_only=True, eq=False, repr=False)
class WaitTrigger(StreamTrigger):
    """Fires when :meth:`check` has an outcome, when the component is down for ``grace`` seconds, or at
    ``deadline`` (seconds since 1970, so that another triggerer continues with the same one).

    A system that does not answer is asked again every ``poll_interval`` seconds; at the deadline the reason
    names it.
    """

    deadline: float
    poll_interval: float
    grace: float

    @abstractmethod
    def check(self) -> Progress:
        """Blocks. ClientError: retry; ConfigError: end."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        self._progress = Progress("nothing was observed yet")
        try:
            outcome, reason = await self._wait()
        except ConfigError as error:
            outcome, reason = Outcome.PERMANENT, str(error)
        yield TriggerEvent({"outcome": outcome.value, "reason": reason, **self._progress.details})

    async def _wait(self) -> tuple[Outcome, str]:
        program = self.spec.component(self.component).program
        watch, last_logged, next_log = ProcessWatch(self.grace), "", 0.0
        while True:
            errors: list[str] = []
            self._progress = progress = await self._try(self.check, errors) or self._progress
            if progress.outcome is not None:
                return progress.outcome, progress.message
            process = await self._try(lambda: self.hook.runtime.status(program), errors)
            failure = process and watch.failure(process, self.clock())
            if failure:
                return Outcome.PERMANENT, f"{failure}; {progress.message}"
            message, now = "; ".join([progress.message, *errors]), self.clock()
            if message != last_logged and now >= next_log:
                self.log.info("%s", message)
                last_logged, next_log = message, now + LOG_INTERVAL_SECONDS
            if now >= self.deadline:
                return Outcome.TIMED_OUT, message
            await self.sleep(self.poll_interval)

    async def _try(self, request: Callable[[], T], errors: list[str]) -> T | None:
        try:
            return await self.ask(request)
        except ClientError as error:
            errors.append(str(error))
            return None
