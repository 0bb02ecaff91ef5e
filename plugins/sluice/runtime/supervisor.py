"""The runtime on one machine: supervisord, over its XML-RPC interface."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Collection
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, TypeVar
from urllib.parse import urlsplit
from xml.parsers.expat import ExpatError
from xmlrpc.client import Fault, ProtocolError, ResponseError, ServerProxy, Transport

from supervisor.xmlrpc import Faults

from sluice.clients.errors import Missing, Refused, Unreachable
from sluice.model.platform import Supervisor
from sluice.model.process import ENDED, ProcessState, ProcessStatus
from sluice.runtime.base import Runtime

T = TypeVar("T")
TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.2
# A hard stop: supervisord's stopwaitsecs (10 s for a stream) until it kills, and as long again twice.
HARD_SECONDS = 30.0


class _Transport(Transport):
    """HTTP with a deadline. The login is a header: in the URL it would show in every ProtocolError."""

    def __init__(self, timeout: float, secure: bool, headers: list[tuple[str, str]]) -> None:
        super().__init__(headers=headers)
        self._timeout = timeout
        self._kind: type[HTTPConnection] = HTTPSConnection if secure else HTTPConnection

    def make_connection(self, host: Any) -> HTTPConnection:
        # No kept connection: supervisord may have been restarted since the last question.
        return self._kind(str(host), timeout=self._timeout)


class SupervisorRuntime(Runtime):
    """supervisord at ``config.url``; each request has ``timeout`` seconds. ``rpc`` answers in its place."""

    def __init__(
        self,
        config: Supervisor,
        timeout: float = TIMEOUT_SECONDS,
        *,
        rpc: object | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.url = config.url
        self._clock, self._sleep = clock, sleep
        login = base64.b64encode(f"{config.username}:{config.password}".encode()).decode()
        transport = _Transport(
            timeout, urlsplit(config.url).scheme == "https", [("Authorization", f"Basic {login}")]
        )
        # Any: a ServerProxy's methods are made up as they are called.
        self._rpc: Any = rpc or ServerProxy(config.url, transport=transport).supervisor

    def status(self, program: str) -> ProcessStatus:
        return parse_info(self._ask(program, lambda: self._rpc.getProcessInfo(program)))

    def start(self, program: str) -> bool:
        try:
            self._ask(program, lambda: self._rpc.startProcess(program, False))
        except _Answered as answer:
            if answer.code == Faults.ALREADY_STARTED:
                return False
            raise
        status = self.status(program)
        if status.state is ProcessState.STOPPING:
            # supervisord says yes to this, and starts nothing.
            raise Unreachable(
                f"{status.sentence()} and cannot be started before it has ended; start it again"
            )
        return True

    def stop(self, program: str, grace: float, instance: str | None = None) -> ProcessStatus:
        began = self._clock()
        status = self.status(program)
        if instance not in (None, status.identity):
            return status
        # supervisord starts a program anew that ends while it is STARTING; its own stop does not let it.
        if grace > 0 and status.state is ProcessState.RUNNING:
            self._unless_gone(program, lambda: self._rpc.signalProcess(program, "TERM"))
            status = self._wait(program, grace, {*ENDED, ProcessState.BACKOFF}, instance)
        if status.state not in ENDED and instance in (None, status.identity):
            # The signal again; after stopwaitsecs supervisord kills the whole process group.
            self._unless_gone(program, lambda: self._rpc.stopProcess(program, False))
            status = self._wait(program, HARD_SECONDS, ENDED, instance)
        if status.state not in ENDED and instance in (None, status.identity):
            raise Unreachable(
                f"{status.sentence()}, {self._clock() - began:.0f} s after it was told to stop; "
                f"look at the process, and at supervisord's log"
            )
        return status

    def _wait(
        self, program: str, seconds: float, states: Collection[ProcessState], instance: str | None
    ) -> ProcessStatus:
        """The program's status once it is in one of ``states`` or another instance, or after ``seconds``."""
        until = self._clock() + seconds
        while True:
            status = self.status(program)
            is_other = instance not in (None, status.identity)
            if status.state in states or is_other or self._clock() >= until:
                return status
            self._sleep(POLL_SECONDS)

    def _unless_gone(self, program: str, request: Callable[[], object]) -> None:
        """Ask for what is needless once the program does not run."""
        try:
            self._ask(program, request)
        except _Answered as answer:
            if answer.code != Faults.NOT_RUNNING:
                raise

    def tail(self, program: str, size: int = 8192) -> list[str]:
        # With redirect_stderr the log of stderr is empty, and what went there is in that of stdout.
        for method in ("tailProcessStderrLog", "tailProcessStdoutLog"):
            log = getattr(self._rpc, method)
            try:
                text, _, _ = self._ask(program, partial(log, program, 0, size))
            except _Answered as answer:
                if answer.code != Faults.NO_FILE:
                    raise
                continue
            lines = [line for line in str(text).splitlines() if line.strip()]
            if lines:
                return lines
        return []

    def _ask(self, program: str, question: Callable[[], T]) -> T:
        try:
            return question()
        except Fault as fault:
            if fault.faultCode == Faults.BAD_NAME:
                raise Missing(
                    f"program {program!r} is unknown to supervisord at {self.url}; "
                    "its configuration needs one program per stream (make up writes it)"
                ) from fault
            raise _Answered(program, fault) from fault
        except ProtocolError as error:
            if error.errcode in (401, 403):
                raise Refused(
                    f"supervisord at {self.url} does not take this login ({error.errcode}); "
                    "correct [supervisor] in the platform file"
                ) from error
            raise Unreachable(f"supervisord at {self.url} answered {error.errcode} {error.errmsg}") from error
        except (OSError, HTTPException, ExpatError, ResponseError) as error:
            raise Unreachable(f"supervisord at {self.url} does not answer: {error}") from error


class _Answered(Refused):
    """supervisord said no, with a code of its own."""

    def __init__(self, program: str, fault: Fault) -> None:
        super().__init__(f"program {program!r}: supervisord says {fault.faultString}")
        self.code = int(fault.faultCode)


def parse_info(info: dict[str, Any]) -> ProcessStatus:
    """A ProcessStatus from the answer of ``getProcessInfo``."""
    state = str(info["statename"]).lower()
    known = state in ProcessState.__members__.values()
    return ProcessStatus(
        program=str(info["name"]),
        state=ProcessState(state) if known else ProcessState.UNKNOWN,
        pid=int(info["pid"]) or None,
        since=float(info["start"]) or None,
        exit_status=int(info["exitstatus"]),
        description=str(info.get("spawnerr") or info.get("description") or ""),
    )
