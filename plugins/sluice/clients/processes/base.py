"""The interface of a runtime: start, stop and observe one process. Idempotent, and with deadlines."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sluice.core.processes.status import ProcessStatus

# A request's default timeout.
TIMEOUT_SECONDS = 10.0


class Runtime(ABC):
    """Each method raises Missing for an unknown program, Refused for a wrong login, and Unreachable if the
    runtime does not answer in time."""

    @abstractmethod
    def status(self, program: str) -> ProcessStatus:
        """The program's status now."""

    @abstractmethod
    def start(self, program: str) -> bool:
        """Request a start, without waiting for it. False if the program is running or starting already."""

    @abstractmethod
    def stop(self, program: str, grace: float, instance: str | None = None) -> ProcessStatus:
        """Stop the program gracefully, and after ``grace`` seconds (0: at once) hard. Returns once it ended.

        ``instance``: stop only that instance (``ProcessStatus.identity``); another one's status is returned.
        Graceful: only the leader gets a signal, so it can finish. Hard: the whole process group is killed.
        Raises Unreachable if it has not ended 30 s after the grace.
        """

    @abstractmethod
    def tail(self, program: str, size: int = 8192) -> list[str]:
        """The last lines of its log, about ``size`` bytes."""
