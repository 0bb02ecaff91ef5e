"""What a runtime shows of one program: plain values, so that pure functions can judge them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sluice.model import exits
from sluice.model.health.json_record import JsonRecord


class ProcessState(StrEnum):
    """supervisord's states, which other runtimes map theirs to."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    EXITED = "exited"
    FATAL = "fatal"
    UNKNOWN = "unknown"


SUPERSEDED_STATUS = exits.FENCED
ALIVE = frozenset({ProcessState.STARTING, ProcessState.RUNNING})
# The runtime does not restart it: it was stopped, or ended with one of ``exits.FINAL``. In BACKOFF it does.
ENDED = frozenset({ProcessState.STOPPED, ProcessState.EXITED, ProcessState.FATAL})


@dataclass(frozen=True)
class ProcessExit:
    """How an instance of a process ended. ``at``: seconds since 1970; ``code``: negative for a signal, as in
    ``subprocess``; ``seconds``: for how long it had run."""

    at: float
    code: int
    seconds: float

    def __str__(self) -> str:
        how = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        return f"{how} after {self.seconds:.0f} s"


@dataclass(frozen=True)
class ProcessStatus(JsonRecord):
    """One observation of a component's process.

    ``pid`` and ``since`` (start time, seconds since 1970; None before the first) are those of the component
    itself, not of the parent process that restarts it. ``restarts``: start times of the instances that the
    runtime itself started after one had ended, oldest first, since the last start on request (by Airflow or a
    person), the newest 20. ``last_exit``: of the newest instance that ended since then. In BACKOFF
    ``restart_at`` is the time of the next restart.
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

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE

    def restarts_since(self, at: float) -> list[float]:
        """The runtime's own restarts from ``at`` (seconds since 1970) on."""
        return [restart for restart in self.restarts if restart >= at]

    @property
    def identity(self) -> str:
        """Which start of the program this is: the second in which it started, ``"0"`` if it never did.

        No pid: a runtime remembers when the last instance started, but not its pid, so an instance keeps its
        identity when it ends.
        """
        return str(int(self.since or 0))

    def sentence(self) -> str:
        """One line for a log or an error."""
        detail = f" ({self.description})" if self.description else ""
        return f"{self.program} is {self.state.value.upper()}{detail}"
