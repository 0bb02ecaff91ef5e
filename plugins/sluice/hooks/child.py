"""A process that a task starts, listens to, and ends with itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

# Of what it wrote to stderr, so many lines are kept for the reason of a failure.
KEPT_LINES = 200
LONGEST_LINE = 64 * 1024
POLL_SECONDS = 0.1
# How long its pipes may stay open behind it: a grandchild may have them.
DRAIN_SECONDS = 5.0


@dataclass(frozen=True)
class Ended:
    """How it ended: ``status`` is its exit status, or minus the signal that ended it. ``result``: the last
    line of its stdout that is not empty, None where it wrote none; ``errors``: the last lines of stderr."""

    status: int
    result: str | None
    errors: Sequence[str]


class Child:
    """One process, in a group of its own. Its lines go to ``say`` as they come: all of stderr, and of stdout
    what turns out not to be the last.

    The environment is inherited: what is secret does not stand in ``command``.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        say: Callable[[str], None],
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self.say = say
        self.drain_seconds = drain_seconds
        self._errors: deque[str] = deque(maxlen=KEPT_LINES)
        self._result: str | None = None
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # So that it can be killed with all that it has started.
            start_new_session=True,
        )
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, take), daemon=True)
            for pipe, take in ((self._process.stdout, self._stdout), (self._process.stderr, self._stderr))
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, seconds: float) -> Ended | None:
        """How it ended; None where it has not, after so many seconds."""
        try:
            # With a deadline, Popen asks again and again: a signal handler may look at the process meanwhile.
            status = self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        until = time.monotonic() + self.drain_seconds
        for reader in self._readers:
            reader.join(max(until - time.monotonic(), 0.0))
        return Ended(status, self._result, list(self._errors))

    def end(self, grace: float) -> None:
        """Tell it to end (SIGTERM), and kill its whole group after ``grace`` seconds. Does not collect it, so
        it may be called in a signal handler while :meth:`wait` waits; does nothing where it has ended."""
        if not self._is_alive():
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        until = time.monotonic() + grace
        while self._is_alive() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        if self._is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def _is_alive(self) -> bool:
        """Whether it runs; one that ended and was not waited for does not. Its id is its own until then."""
        if self._process.returncode is not None:
            return False
        try:
            return psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def _read(self, pipe: IO[bytes], take: Callable[[str], None]) -> None:
        with pipe:
            while line := pipe.readline(LONGEST_LINE):
                text = line.decode(errors="replace").strip()
                if text:
                    take(text)

    def _stdout(self, line: str) -> None:
        if self._result is not None:
            self.say(self._result)
        self._result = line

    def _stderr(self, line: str) -> None:
        self._errors.append(line)
        self.say(line)
