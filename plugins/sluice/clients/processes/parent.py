"""Run a component and restart it when it ends: ``python -S -m sluice.clients.processes.parent COMMAND…``.

Little of the standard library only: one such process runs per component. Its stdout is the component's stdout
and stderr; its stderr is one JSON object per start and end, which ``runtime.supervisord`` reads.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

from sluice.clients.processes.variables import environment_of, role_in
from sluice.core.processes import exits

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT})
WATCHED_SIGNALS = STOP_SIGNALS | {signal.SIGCHLD}
MAX_DELAY_SECONDS = 60.0
# After a longer run the next restart has no delay. Not shorter: a component that always ends after just this
# time starts twice as often as one that ends at once.
WORKED_SECONDS = 30.0
RESTARTS_KEPT = 20
# As a shell says of a command that it cannot run.
NOT_STARTED = 126


def delay(ends: int) -> float:
    """Seconds until the restart after ``ends`` earlier ends in a row: 0, 1, 2, 4 … MAX_DELAY_SECONDS."""
    # The exponent has a bound: 2.0 to a power of 1024 is an error.
    return min(2.0 ** min(ends - 1, 10), MAX_DELAY_SECONDS) if ends else 0.0


class Parent:
    """The parent process of the component that ``command`` starts.

    ``pace`` multiplies the delays (tests). Blocks WATCHED_SIGNALS in this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        worked_seconds: float = WORKED_SECONDS,
        pace: float = 1.0,
        report: Callable[[str], None] = lambda line: _write(2, line),
    ) -> None:
        self._command = list(command)
        self._worked_seconds = worked_seconds
        self._pace = pace
        self._report_line = report
        self._stopping = False
        self._started = 0.0
        self._restarts: list[float] = []
        # Those after a refused login: attempts, and no restarts that count.
        self._refused: list[float] = []
        self._last_exit: dict[str, float] | None = None

    def run(self) -> int:
        """Keep the component running until SIGTERM or SIGINT (which it gets too), or until a final exit code.

        Returns this process's exit code: 0 after a stop, else the component's.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)
        ends, was_refused = 0, False
        while True:
            code = self._run_once()
            is_refused = code == exits.LOGIN_REFUSED
            if code in exits.FINAL or self._stopping:
                self._report(None)
                return code if code in exits.FINAL else 0
            ended = self._last_exit or {}
            # A login may be refused late in a start: that has not worked.
            if ended["seconds"] >= self._worked_seconds and not (is_refused and was_refused):
                ends = 0
            was_refused = is_refused
            seconds = delay(ends) * self._pace
            ends += 1
            self._report(None, time.time() + seconds)
            if signal.sigtimedwait(STOP_SIGNALS, seconds) is not None:
                self._stopping = True
                self._report(None)
                return 0
            _write(1, f"restart {len(self._restarts) + 1}: the process ended with code {code}")
            self._restarts.append(time.time())
            if is_refused:
                self._refused.append(self._restarts[-1])

    def _run_once(self) -> int:
        self._started = time.time()
        try:
            pid = os.posix_spawnp(
                self._command[0],
                self._command,
                # The component ends if this process ended before its parent-death signal was set.
                environment_of(role_in(self._command), os.environ) | {"SLUICE_PARENT_PID": str(os.getpid())},
                file_actions=[(os.POSIX_SPAWN_DUP2, 1, 2)],
                setsigmask=(),
                # Python ignores it, and a child inherits that.
                setsigdef=(signal.SIGPIPE,),
            )
        except OSError as error:
            _write(1, f"{self._command[0]} cannot be started: {error}")
            code = NOT_STARTED
        else:
            self._report(pid)
            code = self._wait(pid)
        now = time.time()
        self._last_exit = {"at": now, "code": code, "seconds": now - self._started}
        return code

    def _wait(self, pid: int) -> int:
        while True:
            code = _reap(pid)
            if code is not None:
                return code
            received = signal.sigwaitinfo(WATCHED_SIGNALS).si_signo
            if received != signal.SIGCHLD:
                self._stopping = True
                # Not reaped yet, so the id is still its own.
                os.kill(pid, received)

    def _report(self, pid: int | None, restart_at: float | None = None) -> None:
        self._report_line(
            json.dumps(
                {
                    "parent": os.getpid(),
                    "pid": pid,
                    "since": round(self._started, 3),
                    "restarts": [round(at, 3) for at in self._restarts[-RESTARTS_KEPT:]],
                    "refused": [round(at, 3) for at in self._refused[-RESTARTS_KEPT:]],
                    "last_exit": self._last_exit,
                    "restart_at": restart_at,
                }
            )
        )


def _reap(pid: int) -> int | None:
    """The exit code of ``pid`` if it has ended. Reaps others too: in a container this is process 1."""
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == 0:
            return None
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def _write(descriptor: int, line: str) -> None:
    try:
        os.write(descriptor, f"{line}\n".encode())
    except BrokenPipeError:
        # The reader has ended; this process follows by its parent-death signal.
        return


if __name__ == "__main__":
    sys.exit(Parent(sys.argv[1:]).run())
