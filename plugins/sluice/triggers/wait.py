"""Waiting, in the triggerer, for what a component of a stream does."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from airflow.triggers.base import TriggerEvent

from sluice.clients.errors import ClientError
from sluice.model.health.sample import ENDED, ProcessState, ProcessStatus
from sluice.model.spec.config import ConfigError
from sluice.triggers.base import StreamTrigger, T

# The trigger ends itself at its deadline, with a reason; Airflow's timeout is for a triggerer that is gone.
BACKSTOP = timedelta(minutes=5)
# Supervision finds a dead component within one interval and starts it within the next.
GRACE_INTERVALS = 2.5
MAX_RESTARTS = 5
LOG_INTERVAL_SECONDS = 15.0
DOWN = frozenset({*ENDED, ProcessState.BACKOFF})


class Outcome(StrEnum):
    """How the waiting ended; the value is what the event carries."""

    REACHED = "reached"
    PERMANENT = "hopeless"
    TIMED_OUT = "timed out"


@dataclass(frozen=True)
class Progress:
    """How far the component is. ``outcome``: None to go on waiting; ``details``: for the event, as JSON."""

    message: str
    outcome: Outcome | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class ProcessWatch:
    """What a process did while we waited. ``grace``: seconds that it may be down, until it is restarted."""

    grace: float
    down_since: float | None = None
    pids: set[int] = field(default_factory=set)

    def failure(self, process: ProcessStatus, now: float) -> str | None:
        """Why waiting on is hopeless, or None. Call it with every observation; ``now`` in seconds."""
        if process.pid is not None:
            self.pids.add(process.pid)
        if len(self.pids) > MAX_RESTARTS + 1:
            return f"{process.program} was restarted {len(self.pids) - 1} times while the load waited for it"
        if process.state not in DOWN:
            self.down_since = None
            return None
        self.down_since = now if self.down_since is None else self.down_since
        down = now - self.down_since
        return f"{process.message()} for {down:.0f} s" if down >= self.grace else None


class WaitTrigger(StreamTrigger):
    """Fires when :meth:`check` says so, when ``component`` is down for ``grace`` seconds, or at ``deadline``.

    ``deadline``: seconds since 1970, so that another triggerer goes on with the same one. A system that does
    not answer is asked again every ``poll_interval`` seconds until the deadline, and then named.
    """

    names: tuple[str, ...] = ("stream", "role", "deadline", "poll_interval", "grace", "component")

    def __init__(
        self, *, stream: str, role: str, deadline: float, poll_interval: float, grace: float, component: str
    ) -> None:
        super().__init__(stream=stream, role=role)
        self.deadline = deadline
        self.poll_interval = poll_interval
        self.grace = grace
        self.component = component

    @abstractmethod
    def check(self) -> Progress:
        """Ask the systems; in a thread. Raises ClientError to be asked again, ConfigError to end."""

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

    async def _try(self, question: Callable[[], T], errors: list[str]) -> T | None:
        """The answer; None, with the reason in ``errors``, if there is none."""
        try:
            return await self.ask(question)
        except ClientError as error:
            errors.append(str(error))
            return None
