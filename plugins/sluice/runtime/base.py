"""What every runtime offers: start, stop and look at one program. Idempotent, and with deadlines.

A runtime knows processes, not streams: whether a stream is healthy is for pure functions to say, given what
a runtime and the lake show.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum


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


# Going, or about to.
ALIVE = frozenset({ProcessState.STARTING, ProcessState.RUNNING})
# Nothing will start it again but somebody who asks for it.
ENDED = frozenset({ProcessState.STOPPED, ProcessState.EXITED, ProcessState.FATAL})


@dataclass(frozen=True)
class ProcessStatus:
    """One look at a program. ``since``: when it last started, seconds since 1970, None if it never did."""

    program: str
    state: ProcessState
    pid: int | None = None
    since: float | None = None
    exit_status: int | None = None
    description: str = ""

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE

    def sentence(self) -> str:
        """One line for a log or an error."""
        detail = f" ({self.description})" if self.description else ""
        return f"{self.program} is {self.state.value.upper()}{detail}"


class Runtime(ABC):
    """Where programs run. Each method raises ``clients.errors``: Missing for a program that it does not know,
    Refused for a login that it does not take, Unreachable when it does not answer within its deadline."""

    @abstractmethod
    def status(self, program: str) -> ProcessStatus:
        """How the program is now."""

    @abstractmethod
    def start(self, program: str) -> bool:
        """Ask for the program to run, without waiting until it does. False where it was going already."""

    @abstractmethod
    def stop(self, program: str, deadline: float) -> ProcessStatus:
        """Stop the program and wait until it has ended, ``deadline`` seconds at most (then Unreachable)."""

    @abstractmethod
    def tail(self, program: str, size: int = 8192) -> list[str]:
        """The last lines that it wrote to stderr, about ``size`` bytes of them; empty where it wrote none.

        Where the runtime keeps one log of stderr and stdout, the last lines of that.
        """
