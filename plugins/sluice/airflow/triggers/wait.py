"""Wait, in the triggerer, for the work of a stream's component."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import TriggerEvent

from sluice.airflow.triggers.base import StreamTrigger, T
from sluice.config.reading.references import SecretNotFound
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import with_code
from sluice.core.errors import ClientError
from sluice.core.processes.status import ENDED, ProcessState, ProcessStatus

if TYPE_CHECKING:
    from sluice.airflow.hook import StreamClients

# Supervision finds a component that is down within one interval and starts it within the next.
GRACE_INTERVALS = 2.5
MAX_RESTARTS = 5
LOG_INTERVAL_SECONDS = 15.0
DOWN = frozenset({*ENDED, ProcessState.BACKOFF})


class Outcome(StrEnum):
    """How the wait ended, as the event carries it."""

    REACHED = "reached"
    # Another instance works in place of the one that was waited for.
    REPLACED = "replaced"
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
        if process.is_login_refused:
            # It goes on by itself once that is corrected: an attempt is no restart.
            self.down_since, self.pids = None, set()
            return None
        if process.pid is not None:
            self.pids.add(process.pid)
        if process.is_misconfigured:
            return process.message()
        if len(self.pids) > MAX_RESTARTS + 1:
            return f"{process.program} was restarted {len(self.pids) - 1} times during the wait"
        if process.state not in DOWN:
            self.down_since = None
            return None
        self.down_since = now if self.down_since is None else self.down_since
        down = now - self.down_since
        return f"{process.message()} for {down:.0f} s" if down >= self.grace else None


@dataclass(kw_only=True, eq=False, repr=False)
class PollTrigger(StreamTrigger):
    """Polls every ``poll_interval`` seconds until there is an outcome, or until ``deadline`` (seconds since
    1970, so that another triggerer continues with the same one)."""

    deadline: float
    poll_interval: float

    async def run(self) -> AsyncIterator[TriggerEvent]:
        outcome, progress = await self.wait()
        yield TriggerEvent({"outcome": outcome.value, "reason": progress.message, **progress.details})

    @abstractmethod
    async def poll(self) -> Progress:
        """ConfigError: end."""

    async def wait(self) -> tuple[Outcome, Progress]:
        last_logged, next_log = "", 0.0
        while True:
            try:
                progress = await self.poll()
            except SecretNotFound as error:
                progress = Progress(with_code(error.code, error))
            except ConfigError as error:
                return Outcome.PERMANENT, Progress(str(error))
            if progress.outcome is not None:
                return progress.outcome, progress
            now = self.clock()
            if progress.message != last_logged and now >= next_log:
                self.log.info("%s", progress.message)
                last_logged, next_log = progress.message, now + LOG_INTERVAL_SECONDS
            if now >= self.deadline:
                return Outcome.TIMED_OUT, progress
            await self.sleep(self.poll_interval)


@dataclass(kw_only=True, eq=False, repr=False)
class WaitTrigger(PollTrigger):
    """Fires when :meth:`check` has an outcome, when the component is down for ``grace`` seconds, or at the
    deadline. A system that does not answer is asked again; at the deadline the reason names it.
    """

    grace: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._progress, self._watch = Progress("nothing was observed yet"), ProcessWatch(self.grace)

    @abstractmethod
    def check(self, clients: StreamClients) -> Progress:
        """Blocks. ClientError: retry; ConfigError: end."""

    async def poll(self) -> Progress:
        program, errors = self.spec.component(self.component).program, list[str]()
        self._progress = progress = await self._try(self.check, errors) or self._progress
        if progress.outcome is not None:
            return progress
        process = await self._try(lambda clients: clients.platform_hook.runtime.status(program), errors)
        failure = process and self._watch.failure(process, self.clock())
        if failure:
            return replace(progress, message=f"{failure}; {progress.message}", outcome=Outcome.PERMANENT)
        refused = [process.message()] if process and process.is_login_refused else []
        return replace(progress, message="; ".join([progress.message, *refused, *errors]))

    async def _try(self, request: Callable[[StreamClients], T], errors: list[str]) -> T | None:
        try:
            return await self.ask(request)
        except ClientError as error:
            errors.append(str(error))
            return None
