"""supervisord's answers in Sluice's words; the login never shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xmlrpc.client import Fault, ProtocolError

import pytest
from supervisor.xmlrpc import Faults

from sluice.clients.errors import Missing, Refused, Unreachable
from sluice.model.platform import Supervisor
from sluice.runtime import supervisor as module
from sluice.runtime.base import ProcessState
from sluice.runtime.supervisor import SupervisorRuntime, parse_info

INFO = {
    "name": "stream-x",
    "statename": "RUNNING",
    "pid": 42,
    "start": 1000,
    "exitstatus": 0,
    "spawnerr": "",
    "description": "pid 42, uptime 0:00:05",
}


class Rpc:
    """Answers each method with what was given for it, or raises it."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def answer(*arguments: Any) -> Any:
            self.asked.append((method, arguments))
            found = self.answers[method]
            if isinstance(found, list):
                found = found.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        return answer


def runtime(**answers: Any) -> SupervisorRuntime:
    made = SupervisorRuntime(Supervisor("http://127.0.0.1:1/RPC2", "user", "hunter2"))
    made._rpc = Rpc(**answers)
    return made


def test_a_running_process() -> None:
    status = runtime(getProcessInfo=INFO).status("stream-x")
    assert (status.state, status.pid, status.since, status.is_alive) == (
        ProcessState.RUNNING,
        42,
        1000.0,
        True,
    )
    assert status.sentence() == "stream-x is RUNNING (pid 42, uptime 0:00:05)"


def test_a_process_that_never_ran() -> None:
    status = parse_info({**INFO, "statename": "STOPPED", "pid": 0, "start": 0})
    assert (status.pid, status.since, status.is_alive) == (None, None, False)


def test_a_state_that_is_not_known_is_unknown() -> None:
    assert parse_info({**INFO, "statename": "DREAMING"}).state is ProcessState.UNKNOWN


def test_starting_twice_is_starting_once() -> None:
    assert runtime(startProcess=True).start("stream-x")
    assert not runtime(startProcess=Fault(Faults.ALREADY_STARTED, "ALREADY_STARTED")).start("stream-x")


def test_stopping_what_does_not_run_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    stopped = {**INFO, "statename": "STOPPED"}
    fault = Fault(Faults.NOT_RUNNING, "NOT_RUNNING")
    assert runtime(stopProcess=fault, getProcessInfo=stopped).stop("x", 1).state is ProcessState.STOPPED
    with pytest.raises(Unreachable, match="0 s after it was told to stop"):
        runtime(stopProcess=True, getProcessInfo={**INFO, "statename": "STOPPING"}).stop("x", 0)


def test_an_unknown_program_is_named() -> None:
    with pytest.raises(Missing, match="program 'stream-y' is unknown to supervisord"):
        runtime(getProcessInfo=Fault(Faults.BAD_NAME, "BAD_NAME")).status("stream-y")


def test_no_stderr_yet_is_no_error() -> None:
    no_file = Fault(Faults.NO_FILE, "NO_FILE")
    assert runtime(tailProcessStderrLog=no_file, tailProcessStdoutLog=no_file).tail("x") == []
    both = runtime(tailProcessStderrLog=[("", 0, False)], tailProcessStdoutLog=[("out\n", 3, False)])
    assert both.tail("x") == ["out"]
    made = runtime(tailProcessStderrLog=[("a\n\nb\n", 4, False)])
    assert made.tail("x") == ["a", "b"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ProtocolError("127.0.0.1:1/RPC2", 401, "Unauthorized", {}), Refused),
        (ProtocolError("127.0.0.1:1/RPC2", 500, "Oops", {}), Unreachable),
        (ConnectionRefusedError(111, "Connection refused"), Unreachable),
        (TimeoutError("timed out"), Unreachable),
        (Fault(Faults.SPAWN_ERROR, "SPAWN_ERROR"), Refused),
    ],
)
def test_errors_are_told_apart_and_hold_no_password(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        runtime(startProcess=error).start("stream-x")
    assert "hunter2" not in f"{caught.value!r} {caught.value}"
