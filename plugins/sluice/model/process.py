"""What a runtime shows of one program: plain values, so that pure functions can judge them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


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


# With this, a process says that another one owns its work now: nobody must start it again. EX_PROTOCOL of
# sysexits.h is near enough.
SUPERSEDED_STATUS = 76
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

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"state": self.state.value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ProcessStatus:
        return cls(**(data | {"state": ProcessState(data["state"])}))
