"""supervisord's answers in Sluice's words; the login never shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from xml.parsers.expat import ExpatError
from xmlrpc.client import Fault, ProtocolError, ResponseError

import pytest
from supervisor.xmlrpc import Faults

from sluice.clients import polling as retry
from sluice.clients.processes import supervisord
from sluice.clients.processes.supervisord import SupervisorRuntime, parse_status
from sluice.config.platform_sections.supervisor import Supervisor
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.processes import exits
from sluice.core.processes.restarts import RestartHistory, new_restarts
from sluice.core.processes.status import ProcessExit, ProcessState, ProcessStatus
from tests.support.raising import raising

INFO = {
    "name": "stream-x",
    "statename": "RUNNING",
    "pid": 42,
    "start": 1000,
    "exitstatus": 0,
    "spawnerr": "",
    "description": "pid 42, uptime 0:00:05",
}

STARTING, STOPPING, STOPPED, EXITED = (
    {**INFO, "statename": name} for name in ("STARTING", "STOPPING", "STOPPED", "EXITED")
)
NEVER_RAN = {**STOPPED, "pid": 0, "start": 0}
# supervisord's answer while there is no log file.
NO_LOG = ["", 0, False]
REPORT = {
    "parent": 42,
    "pid": 43,
    "since": 1000.5,
    "restarts": [],
    "refused": [],
    "last_exit": None,
    "restart_at": None,
}
REPORTED = f"{json.dumps(REPORT)}\n"
NOT_RUNNING = Fault(Faults.NOT_RUNNING, "NOT_RUNNING")


LOOKS = ("getProcessInfo", "tailProcessStderrLog")


class States(list[Any]):
    """Answers that follow one another; the last one is given again and again."""

    def pop(self, index: Any = -1) -> Any:
        return super().pop(index) if len(self) > 1 else self[0]


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


CLOCK = Clock()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (supervisord, retry):
        monkeypatch.setattr(module, "time", CLOCK)


class Rpc:
    """Answers each method with what was given for it, or raises it. ``now`` passes by sleeping only."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"tailProcessStderrLog": States([[REPORTED, len(REPORTED), False]]), **answers}
        CLOCK.now = 0.0
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    @property
    def now(self) -> float:
        return CLOCK.now

    def runtime(self) -> SupervisorRuntime:
        config = Supervisor("http://127.0.0.1:1/RPC2", "user", "hunter2")
        return SupervisorRuntime(config, rpc=self)

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


def parse_info(info: dict[str, Any]) -> ProcessStatus:
    """The status of a component whose parent process has reported its start."""
    return parse_status(info, REPORTED)


def runtime(**answers: Any) -> SupervisorRuntime:
    return Rpc(**answers).runtime()


def test_a_running_process() -> None:
    status = runtime(getProcessInfo=INFO).status("stream-x")
    assert (status.state, status.pid, status.since, status.is_alive) == (
        ProcessState.RUNNING,
        43,
        1000.5,
        True,
    )
    assert status.message() == "stream-x is RUNNING (pid 43)"


def test_a_process_that_never_ran() -> None:
    status = parse_status(NEVER_RAN, "")
    assert (status.pid, status.since, status.is_alive) == (None, None, False)


def test_a_state_that_is_not_known_is_unknown() -> None:
    assert parse_info({**INFO, "statename": "DREAMING"}).state is ProcessState.UNKNOWN


def test_a_process_that_ended_over_its_configuration_says_over_which() -> None:
    line = "SLU-101 ConfigError: stream.toml: unknown key 'x'"
    log = f"starting\n2026-11-25 ERROR spark_jobs: {line}\n"
    ended = {**EXITED, "pid": 0, "exitstatus": exits.CONFIGURATION, "description": "Nov 25 02:00 AM"}
    found = runtime(getProcessInfo=ended, tailProcessStdoutLog=States([[log, len(log), False]]))
    assert found.status("stream-x").message() == f"stream-x is EXITED ({line})"


def test_a_login_that_is_refused_says_so_while_the_runtime_tries_it_again() -> None:
    line = "SLU-210 LoginRefused: Kafka at k:1 refuses the login"
    log = f"starting\n2026-11-25 ERROR spark_jobs: {line}\nrestart 3: the process ended with code 77\n"
    last = {"at": 1009.0, "code": exits.LOGIN_REFUSED, "seconds": 8.0}
    tried = {"restarts": [1002.0, 1003.0], "refused": [1003.0]}
    report = json.dumps({**REPORT, **tried, "pid": None, "last_exit": last, "restart_at": 1041.0})
    found = runtime(
        getProcessInfo=INFO,
        tailProcessStderrLog=States([[report, len(report), False]]),
        tailProcessStdoutLog=States([[log, len(log), False]]),
    ).status("stream-x")
    assert (found.state, found.exit_status) == (ProcessState.BACKOFF, exits.LOGIN_REFUSED)
    assert found.message() == f"stream-x is BACKOFF ({line})"
    assert new_restarts(found, RestartHistory()) == [1002.0], "an attempt is no restart"


@pytest.mark.parametrize("code", [0, 1, exits.FENCED])
def test_no_other_end_reads_the_log(code: int) -> None:
    ended = {**EXITED, "pid": 0, "exitstatus": code, "description": "Nov 25 02:00 AM"}
    assert runtime(getProcessInfo=ended).status("stream-x").description == "Nov 25 02:00 AM"


def test_an_identity_is_a_start_and_not_a_pid() -> None:
    running = parse_info(INFO)
    assert running.identity == "1000"
    assert parse_info({**INFO, "statename": "EXITED", "pid": 0}).identity == running.identity
    assert parse_info({**INFO, "start": 1001}).identity != running.identity
    assert parse_status(NEVER_RAN, "").identity == "0"


def test_a_status_survives_json() -> None:
    status = replace(
        parse_info({**INFO, "exitstatus": 76}), restarts=(1.5, 2.5), last_exit=ProcessExit(2.4, -9, 0.9)
    )
    read = ProcessStatus.from_json(json.loads(json.dumps(status.to_json())))
    assert read == status
    assert read.state is ProcessState.RUNNING


def test_starting_twice_is_starting_once() -> None:
    assert runtime(startProcess=True, getProcessInfo=STARTING).start("stream-x")
    assert not runtime(startProcess=Fault(Faults.ALREADY_STARTED, "ALREADY_STARTED")).start("stream-x")


def test_starting_what_is_being_stopped_is_an_error_and_not_a_yes() -> None:
    with raising(Unreachable, "stream-x", "STOPPING"):
        runtime(startProcess=True, getProcessInfo=STOPPING).start("stream-x")


def stopped_with(
    grace: float, *infos: dict[str, Any], **answers: Any
) -> tuple[list[str], ProcessStatus, float]:
    """What is asked, each once, when the program's states follow one another, of which the last one stays;
    how it is in the end; and how long that takes."""
    rpc = Rpc(getProcessInfo=States(infos), **answers)
    status = rpc.runtime().stop("stream-x", grace)
    assert all(arguments[0] == "stream-x" for _, arguments in rpc.asked)
    asked = [f"{name}{arguments[1:]}" for name, arguments in rpc.asked if name not in LOOKS]
    return asked, status, rpc.now


def test_a_graceful_stop_sends_one_signal_to_the_leader() -> None:
    asked, status, took = stopped_with(20, INFO, INFO, INFO, EXITED, signalProcess=True)
    assert (asked, status.state) == (["signalProcess('TERM',)"], ProcessState.EXITED)
    assert took == pytest.approx(0.4)


def test_after_the_grace_it_is_stopped_hard() -> None:
    infos = [INFO] * 102 + [STOPPING] * 3
    asked, status, took = stopped_with(20, *infos, STOPPED, signalProcess=True, stopProcess=True)
    assert asked == ["signalProcess('TERM',)", "stopProcess(False,)"]
    assert status.state is ProcessState.STOPPED
    assert took == pytest.approx(20.6, abs=0.3)


def test_without_grace_it_is_stopped_hard_at_once() -> None:
    asked, _, took = stopped_with(0, INFO, STOPPED, stopProcess=True)
    assert (asked, took) == (["stopProcess(False,)"], 0)


@pytest.mark.parametrize("state", ["STARTING", "BACKOFF", "STOPPING"])
def test_what_does_not_run_yet_or_any_more_gets_no_grace(state: str) -> None:
    infos = {**INFO, "statename": state}, STOPPED
    unreported = States([NO_LOG])
    asked, _, _ = stopped_with(20, *infos, stopProcess=NOT_RUNNING, tailProcessStderrLog=unreported)
    assert asked == ["stopProcess(False,)"]


def test_what_is_started_again_while_it_has_grace_is_stopped_hard() -> None:
    backoff = {**INFO, "statename": "BACKOFF"}
    asked, _, took = stopped_with(20, INFO, backoff, STOPPED, signalProcess=True, stopProcess=True)
    assert asked == ["signalProcess('TERM',)", "stopProcess(False,)"]
    assert took == 0


@pytest.mark.parametrize("ended", ["STOPPED", "EXITED", "FATAL"])
def test_stopping_what_does_not_run_is_done(ended: str) -> None:
    asked, status, _ = stopped_with(20, {**INFO, "statename": ended})
    assert (asked, status.state.value) == ([], ended.lower())


def test_what_ends_before_the_signal_is_stopped() -> None:
    asked, status, _ = stopped_with(20, INFO, EXITED, signalProcess=NOT_RUNNING)
    assert (len(asked), status.state) == (1, ProcessState.EXITED)
    asked, status, _ = stopped_with(0, INFO, EXITED, stopProcess=NOT_RUNNING)
    assert (len(asked), status.state) == (1, ProcessState.EXITED)


def test_what_never_ends_is_an_error_after_the_grace_and_30_s() -> None:
    rpc = Rpc(getProcessInfo=INFO, signalProcess=True, stopProcess=True)
    with raising(Unreachable, "stream-x", "RUNNING", "50 s"):
        rpc.runtime().stop("stream-x", 20)
    assert rpc.now == pytest.approx(50, abs=1)


@pytest.mark.parametrize("method", ["signalProcess", "stopProcess"])
def test_a_signal_that_is_refused_is_an_error(method: str) -> None:
    with raising(Refused, "stream-x", "FAILED"):
        stopped_with(
            1, INFO, **{"signalProcess": True, "stopProcess": True, method: Fault(Faults.FAILED, "FAILED")}
        )


def test_an_unknown_program_is_named() -> None:
    with raising(Missing, "stream-y"):
        runtime(getProcessInfo=Fault(Faults.BAD_NAME, "BAD_NAME")).status("stream-y")


def test_a_log_that_is_not_there_yet_is_no_error() -> None:
    assert runtime(tailProcessStdoutLog=[NO_LOG]).tail("x") == []
    assert runtime(tailProcessStdoutLog=[("a\n\nb\n", 4, False)]).tail("x") == ["a", "b"]


EXIT = {"at": 1010.5, "code": -9, "seconds": 9.5}
DOWN = {**REPORT, "pid": None, "last_exit": EXIT}
AGAIN = {**REPORT, "pid": 44, "since": 1011.0, "restarts": [1011.0], "last_exit": EXIT}


def reported(info: dict[str, Any], *reports: Any, before: str = "") -> ProcessStatus:
    lines = before + "".join(f"{json.dumps(report)}\n" for report in reports)
    return runtime(getProcessInfo=info, tailProcessStderrLog=[(lines, len(lines), False)]).status("stream-x")


def test_a_status_is_that_of_the_component_and_not_of_its_parent_process() -> None:
    status = reported(INFO, REPORT, before='"cut": off}\nTraceback\n')
    assert (status.state, status.pid, status.since) == (ProcessState.RUNNING, 43, 1000.5)
    down = reported(INFO, REPORT, {**DOWN, "restart_at": 1012.0})
    assert (down.state, down.pid, down.identity) == (ProcessState.BACKOFF, None, status.identity)
    assert (down.last_exit, down.exit_status) == (ProcessExit(1010.5, -9, 9.5), -9)
    assert (down.restart_at, down.is_alive) == (1012.0, False)
    assert "signal 9 after 10 s" in down.message()
    again = reported(INFO, REPORT, DOWN, AGAIN)
    assert (again.state, again.pid, again.restarts) == (ProcessState.RUNNING, 44, (1011.0,))
    assert again.identity != status.identity
    assert reported(INFO, DOWN).state is ProcessState.STOPPING, "it ends with its component"


def test_a_parent_process_that_has_said_nothing_yet_is_starting() -> None:
    for reports in ((), (REPORT | {"parent": 7},), (REPORT | {"since": 900.0},)):
        status = reported(INFO, *reports)
        assert (status.state, status.pid, status.since) == (ProcessState.STARTING, None, 1000.0)


def test_what_ended_keeps_its_start_and_says_how_it_ended() -> None:
    ended = {**INFO, "statename": "EXITED", "pid": 0, "exitstatus": 76}
    status = reported(ended, REPORT, {**DOWN, "last_exit": {**EXIT, "code": 76}})
    assert (status.state, status.exit_status, status.since) == (ProcessState.EXITED, 76, 1000.5)
    killed = reported({**ended, "exitstatus": -1}, DOWN, AGAIN)
    assert (killed.pid, killed.exit_status, killed.since) == (None, -1, 1011.0), "with its parent process"
    earlier = reported({**ended, "start": 2000}, REPORT)
    assert (earlier.since, earlier.last_exit) == (2000.0, None), "a report of an earlier parent process"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ProtocolError("127.0.0.1:1/RPC2", 401, "Unauthorized", {}), Refused),
        (ProtocolError("127.0.0.1:1/RPC2", 500, "Oops", {}), Unreachable),
        (ConnectionRefusedError(111, "Connection refused"), Unreachable),
        (TimeoutError("timed out"), Unreachable),
        (ExpatError("syntax error"), Unreachable),
        (ResponseError(), Unreachable),
        (Fault(Faults.SPAWN_ERROR, "SPAWN_ERROR"), Refused),
    ],
)
def test_errors_are_told_apart_and_hold_no_password(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        runtime(startProcess=error).start("stream-x")
    assert "hunter2" not in f"{caught.value!r} {caught.value}"
