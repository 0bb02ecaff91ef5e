"""The runtime on one machine: supervisord, by XML-RPC.

supervisord runs a parent process (``runtime.parent``) per component, which restarts it. The parent's stderr
is its reports, its stdout the component's output.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, TypeVar
from urllib.parse import urlsplit
from xml.parsers.expat import ExpatError
from xmlrpc.client import Fault, ProtocolError, ResponseError, ServerProxy, Transport

from supervisor.xmlrpc import Faults

from sluice.clients.polling import wait_for
from sluice.clients.processes.base import TIMEOUT_SECONDS, Runtime
from sluice.config.platform_sections.supervisor import Supervisor
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.messages import failure_reason
from sluice.core.processes.status import ALIVE, ENDED, ProcessExit, ProcessState, ProcessStatus

T = TypeVar("T")
# A hard stop: supervisord's stopwaitsecs (10 s for a stream) until it kills, and as long again twice.
HARD_SECONDS = 30.0
# Several of the parent process's reports.
REPORT_BYTES = 8192


class _Transport(Transport):
    """HTTP with a deadline. The login is a header: every ProtocolError shows the URL."""

    def __init__(self, timeout: float, secure: bool, headers: list[tuple[str, str]]) -> None:
        super().__init__(headers=headers)
        self._timeout = timeout
        self._kind: type[HTTPConnection] = HTTPSConnection if secure else HTTPConnection

    def make_connection(self, host: Any) -> HTTPConnection:
        # A new connection: supervisord may have restarted.
        return self._kind(str(host), timeout=self._timeout)


def connect(config: Supervisor, timeout: float) -> Any:
    """The `supervisor` namespace of its XML-RPC API, a dynamic proxy. Not thread-safe."""
    login = base64.b64encode(f"{config.username}:{config.password}".encode()).decode()
    secure = urlsplit(config.url).scheme == "https"
    transport = _Transport(timeout, secure, [("Authorization", f"Basic {login}")])
    return ServerProxy(config.url, transport=transport).supervisor


class SupervisorRuntime(Runtime):
    """supervisord at ``config.url``; each request has ``timeout`` seconds. ``rpc`` answers in its place."""

    def __init__(
        self, config: Supervisor, timeout: float = TIMEOUT_SECONDS, *, rpc: object | None = None
    ) -> None:
        self.url = config.url
        self._rpc: Any = rpc or connect(config, timeout)

    def status(self, program: str) -> ProcessStatus:
        info = self._ask(program, lambda: self._rpc.getProcessInfo(program))
        status = parse_status(info, self._log(program, "tailProcessStderrLog", REPORT_BYTES))
        if not status.is_misconfigured and not status.is_login_refused:
            return status
        return replace(status, description=failure_reason(self.tail(program)))

    def start(self, program: str) -> bool:
        try:
            self._ask(program, lambda: self._rpc.startProcess(program, False))
        except _Answered as answer:
            if answer.fault_code == Faults.ALREADY_STARTED:
                return False
            raise
        status = self.status(program)
        if status.state is ProcessState.STOPPING:
            # supervisord accepts the request, but starts nothing.
            raise Unreachable(f"{status.message()} and cannot be started before it has ended; start it again")
        return True

    def stop(self, program: str, grace: float, instance: str | None = None) -> ProcessStatus:
        began = time.monotonic()
        status = self.status(program)
        if instance not in (None, status.identity):
            return status
        # supervisord restarts a program that ends while it is STARTING, unless by its own stop.
        if grace > 0 and status.state is ProcessState.RUNNING:
            self._unless_gone(program, lambda: self._rpc.signalProcess(program, "TERM"))
            status = self._wait(program, grace, {*ENDED, ProcessState.BACKOFF}, instance)
        if status.state not in ENDED and instance in (None, status.identity):
            # The signal again; after stopwaitsecs supervisord kills the whole process group.
            self._unless_gone(program, lambda: self._rpc.stopProcess(program, False))
            status = self._wait(program, HARD_SECONDS, ENDED, instance)
        if status.state not in ENDED and instance in (None, status.identity):
            raise Unreachable(
                f"{status.message()}, {time.monotonic() - began:.0f} s after the stop request. "
                f"Fix: check the process, and supervisord's log"
            )
        return status

    def _wait(
        self, program: str, seconds: float, states: Collection[ProcessState], instance: str | None
    ) -> ProcessStatus:
        return wait_for(
            lambda: self.status(program),
            seconds,
            is_done=lambda status: status.state in states or instance not in (None, status.identity),
        )

    def _unless_gone(self, program: str, request: Callable[[], object]) -> None:
        try:
            self._ask(program, request)
        except _Answered as answer:
            if answer.fault_code != Faults.NOT_RUNNING:
                raise

    def tail(self, program: str, size: int = 8192) -> list[str]:
        text = self._log(program, "tailProcessStdoutLog", size)
        return [line for line in text.splitlines() if line.strip()]

    def _log(self, program: str, method: str, size: int) -> str:
        # Empty without a file, by supervisord.
        text, _, _ = self._ask(program, partial(getattr(self._rpc, method), program, 0, size))
        return str(text)

    def _ask(self, program: str, request: Callable[[], T]) -> T:
        try:
            return request()
        except Fault as fault:
            if fault.faultCode == Faults.BAD_NAME:
                raise Missing(
                    f"program {program!r} is unknown to supervisord at {self.url}. "
                    "Fix: make up, which adds the program of each component"
                ) from fault
            raise _Answered(program, fault) from fault
        except ProtocolError as error:
            if error.errcode in (401, 403):
                raise Refused(
                    f"supervisord at {self.url} rejects this login ({error.errcode}). "
                    "Fix: correct [supervisor] in the platform file"
                ) from error
            raise Unreachable(f"supervisord at {self.url} answered {error.errcode} {error.errmsg}") from error
        except (OSError, HTTPException, ExpatError, ResponseError) as error:
            raise Unreachable(f"supervisord at {self.url} does not answer: {error}") from error


class _Answered(Refused):
    """A fault of supervisord."""

    def __init__(self, program: str, fault: Fault) -> None:
        super().__init__(f"program {program!r}: supervisord says {fault.faultString}")
        self.fault_code = int(fault.faultCode)


def parse_status(info: dict[str, Any], reports: str) -> ProcessStatus:
    """A ProcessStatus from the answer of ``getProcessInfo`` and the end of the parent process's ``reports``
    (empty before the first)."""
    name = str(info["statename"]).lower()
    state = ProcessState(name) if name in ProcessState.__members__.values() else ProcessState.UNKNOWN
    status = ProcessStatus(
        program=str(info["name"]),
        state=state,
        pid=int(info["pid"]) or None,
        since=float(info["start"]) or None,
        exit_status=int(info["exitstatus"]),
        description=str(info.get("spawnerr") or info.get("description") or ""),
    )
    report = _newest_report(reports)
    # A report from before this start (whole seconds) is of an earlier parent process.
    known = report if report is not None and report["since"] >= int(info["start"]) else None
    if state in ALIVE:
        return _alive(status, known if known and known["parent"] == status.pid else None)
    if known is None:
        return status
    last_exit = _last_exit(known)
    # If it is reported as running, it was killed together with its parent process.
    reported = last_exit if known["pid"] is None else None
    return replace(
        status,
        pid=None,
        since=known["since"],
        exit_status=reported.code if reported else status.exit_status,
        restarts=tuple(known["restarts"]),
        refused=tuple(known["refused"]),
        last_exit=last_exit,
    )


def _alive(status: ProcessStatus, report: dict[str, Any] | None) -> ProcessStatus:
    if report is None:
        description = "its parent process is starting"
        return replace(status, state=ProcessState.STARTING, pid=None, description=description)
    last_exit, restarts = _last_exit(report), tuple(report["restarts"])
    how = f"restart {len(restarts)} by the runtime, after {last_exit}" if restarts else ""
    if report["pid"] is not None:
        state, description = ProcessState.RUNNING, ", ".join(filter(None, [f"pid {report['pid']}", how]))
    elif report["restart_at"] is not None:
        state, description = ProcessState.BACKOFF, f"{last_exit}; the runtime restarts it"
    else:
        state, description = ProcessState.STOPPING, f"{last_exit}; its parent process is ending"
    return replace(
        status,
        state=state,
        pid=report["pid"],
        since=report["since"],
        exit_status=last_exit.code if last_exit else status.exit_status,
        description=description,
        restarts=restarts,
        refused=tuple(report["refused"]),
        last_exit=last_exit,
        restart_at=report["restart_at"],
    )


def _last_exit(report: dict[str, Any]) -> ProcessExit | None:
    return ProcessExit(**report["last_exit"]) if report["last_exit"] else None


def _newest_report(reports: str) -> dict[str, Any] | None:
    for line in reversed(reports.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue  # truncated at the tail's beginning, or a traceback of the parent process
        if isinstance(found, dict) and "parent" in found:
            return found
    return None
