"""A component's process, as any runtime (supervisord, Kubernetes) reports it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sluice.core.json_record import JsonRecord
from sluice.core.processes import exits


class ProcessState(StrEnum):
    """supervisord's states; other runtimes map theirs to these."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    EXITED = "exited"
    FATAL = "fatal"
    UNKNOWN = "unknown"


class Problem(StrEnum):
    """What keeps a process from running, or from its executors, outside of the process; of a cluster's
    runtime. Each is a Health of the same value."""

    # Its node does not answer.
    NODE_LOST = "node lost"
    # The kernel killed it at its memory limit.
    OUT_OF_MEMORY = "out of memory"
    # Its image cannot be pulled.
    IMAGE_MISSING = "image missing"
    # The namespace's quota has no room for it.
    QUOTA_EXCEEDED = "quota exceeded"
    # No node has room for it.
    UNSCHEDULABLE = "unschedulable"
    # Its runtime does not start it, for another reason.
    NOT_STARTED = "not started"
    # It runs, and another pod of a higher priority took an executor's place.
    EXECUTOR_PREEMPTED = "executor preempted"


ALIVE = frozenset({ProcessState.STARTING, ProcessState.RUNNING})
# The runtime does not restart it: it was stopped, or ended with one of ``exits.FINAL``. In BACKOFF it does.
ENDED = frozenset({ProcessState.STOPPED, ProcessState.EXITED, ProcessState.FATAL})


@dataclass(frozen=True)
class ProcessExit:
    """End of an instance. ``at``: seconds since 1970; ``code``: negative for a signal; ``seconds``: run."""

    at: float
    code: int
    seconds: float

    def __str__(self) -> str:
        how = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        return f"{how} after {self.seconds:.0f} s"


@dataclass(frozen=True)
class ProcessStatus(JsonRecord):
    """A component's process; times in seconds since 1970.

    ``program``: its name at the runtime; ``state``: as the runtime says; ``exit_status``: of its last end,
    None if unknown.
    ``pid`` and ``since`` (its start): of the component, not of the parent process that restarts it.
    ``restarts``: starts by the runtime itself since the last start on request, oldest first, the newest 20;
    ``refused``: those of them that followed a refused login. ``last_exit``: since then, too. ``restart_at``:
    of the next restart, in BACKOFF. ``problem``: None if nothing outside of the process is wrong;
    ``description`` then says more of it. ``created``: when a runtime made what it has not started yet.
    """

    program: str
    state: ProcessState
    pid: int | None = None
    since: float | None = None
    exit_status: int | None = None
    description: str = ""
    restarts: tuple[float, ...] = ()
    last_exit: ProcessExit | None = None
    restart_at: float | None = None
    problem: Problem | None = None
    created: float | None = None
    refused: tuple[float, ...] = ()

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE

    @property
    def is_misconfigured(self) -> bool:
        """It ended over its configuration, so a restart finds the same; ``description`` says over which."""
        return self.state in ENDED and self.exit_status == exits.CONFIGURATION

    @property
    def is_login_refused(self) -> bool:
        """A system refused its login, and it does not run; ``description`` has the system's words."""
        is_down = self.state in ENDED or self.state is ProcessState.BACKOFF
        return is_down and self.exit_status == exits.LOGIN_REFUSED

    def restarts_since(self, at: float) -> list[float]:
        return [restart for restart in self.restarts if restart >= at]

    @property
    def identity(self) -> str:
        """Instance id: the second of its start, or of its creation before it starts; "0" before the first. No
        pid: a runtime forgets it when the instance ends."""
        return str(int(self.since or self.created or 0))

    def message(self) -> str:
        detail = f" ({self.description})" if self.description else ""
        return f"{self.program} is {self.state.value.upper()}{detail}"
