"""What every runtime offers: start, stop and look at one program. Idempotent, and with deadlines.

A runtime knows processes, not streams: whether a stream is healthy is for ``model.health`` to say, given what
a runtime, Kafka and the lake show.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from sluice.model.health.sample import ProcessStatus


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
    def stop(self, program: str, grace: float, instance: str | None = None) -> ProcessStatus:
        """Stop the program: gracefully, and after ``grace`` seconds hard. Returns once it has ended.

        ``instance``: stop that instance only (``ProcessStatus.identity``); another one is left alone, and its
        status returned.

        Graceful: its leader alone is told to end, so that it can finish what it is doing. Hard: its whole
        process group is killed, without ``grace`` at once. What does not run is stopped already. Raises
        Unreachable when it has not ended 30 s after the grace.
        """

    @abstractmethod
    def tail(self, program: str, size: int = 8192) -> list[str]:
        """The last lines that it wrote to stderr, about ``size`` bytes of them; empty where it wrote none.

        Where the runtime keeps one log of stderr and stdout, the last lines of that.
        """
