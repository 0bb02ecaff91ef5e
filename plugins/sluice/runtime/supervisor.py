"""The runtime on one machine: supervisord, over its XML-RPC interface."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, TypeVar
from urllib.parse import urlsplit
from xmlrpc.client import Fault, ProtocolError, ServerProxy, Transport

from supervisor.xmlrpc import Faults

from sluice.clients.errors import Missing, Refused, Unreachable
from sluice.model.platform import Supervisor
from sluice.runtime.base import ENDED, ProcessState, ProcessStatus, Runtime

T = TypeVar("T")
TIMEOUT_SECONDS = 10.0


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
    """supervisord at ``config.url``; each request has ``timeout`` seconds."""

    def __init__(self, config: Supervisor, timeout: float = TIMEOUT_SECONDS) -> None:
        self.url = config.url
        login = base64.b64encode(f"{config.username}:{config.password}".encode()).decode()
        transport = _Transport(
            timeout, urlsplit(config.url).scheme == "https", [("Authorization", f"Basic {login}")]
        )
        # Any: a ServerProxy's methods are made up as they are called.
        self._rpc: Any = ServerProxy(config.url, transport=transport).supervisor

    def status(self, program: str) -> ProcessStatus:
        return parse_info(self._ask(program, lambda: self._rpc.getProcessInfo(program)))

    def start(self, program: str) -> bool:
        try:
            self._ask(program, lambda: self._rpc.startProcess(program, False))
        except _Answered as answer:
            if answer.code == Faults.ALREADY_STARTED:
                return False
            raise
        return True

    def stop(self, program: str, deadline: float) -> ProcessStatus:
        try:
            self._ask(program, lambda: self._rpc.stopProcess(program, False))
        except _Answered as answer:
            if answer.code != Faults.NOT_RUNNING:
                raise
        until = time.monotonic() + deadline
        while (status := self.status(program)).state not in ENDED:
            if time.monotonic() > until:
                raise Unreachable(f"{status.sentence()}, {deadline:g} s after it was told to stop")
            time.sleep(0.5)
        return status

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
        except (OSError, HTTPException) as error:
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
