"""Starting, stopping and killing real components under a real supervisord on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xmlrpc.client import ServerProxy

import pytest

from local.base import REPO
from local.runtime.supervisord import STREAM_OPTIONS, Program, render
from local.services.streams import restarted
from sluice.clients.processes.supervisord import SupervisorRuntime
from sluice.config.platform_sections.supervisor import Supervisor
from sluice.core.errors import Unreachable
from sluice.core.processes.status import ENDED, ProcessState, ProcessStatus
from tests.support.raising import raising

# Each writes its pid (and its child's) to the file that it is given, then does as its name says.
CHILDREN = {
    "finishes": "signal.signal(signal.SIGTERM, "
    "lambda *_: (time.sleep(0.5), open(out + '.done', 'w'), sys.exit()))",
    "ignores": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "fenced": "signal.signal(signal.SIGTERM, lambda *_: sys.exit(76))",
    "parent": "pids.append(subprocess.Popen([sys.executable, '-c', "
    "'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)']).pid)",
}
SCRIPT = """
import os, signal, subprocess, sys, time
out, pids = sys.argv[1], [os.getpid()]
{begin}
with open(out + ".part", "w") as file:
    file.write(" ".join(map(str, pids)))
os.rename(out + ".part", out)
while True:
    time.sleep(0.1)
"""
KILL_AFTER = 1.0


class Daemon:
    """supervisord with one program per kind of child, and ``starting``, which is STARTING for a minute."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        (folder / "logs").mkdir()
        options = STREAM_OPTIONS | {"startsecs": "0", "stopwaitsecs": str(KILL_AFTER)[0]}
        programs = [self._program(name, begin, options) for name, begin in CHILDREN.items()]
        programs.append(self._program("starting", "pass", options | {"startsecs": "60"}))
        conf = folder / "supervisord.conf"
        conf.write_text(render(programs, folder, f"127.0.0.1:{port}", "secret"))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", conf],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.runtime = SupervisorRuntime(Supervisor(f"http://127.0.0.1:{port}/RPC2", "sluice", "secret"))
        # Any: a ServerProxy's methods are made up as they are called.
        self.rpc: Any = ServerProxy(f"http://sluice:secret@127.0.0.1:{port}/RPC2").supervisor
        until(self._answers)

    def _program(self, name: str, begin: str, options: dict[str, str]) -> Program:
        script = self.folder / f"{name}.py"
        script.write_text(SCRIPT.format(begin=begin))
        command = restarted(Path(sys.executable), sys.executable, script, self.folder / name)
        if name == "starting":
            command, options = command[-3:], options | {"redirect_stderr": "true"}
        return Program(name, command, {"PYTHONPATH": str(REPO / "plugins")}, 1, self.folder, options)

    def _answers(self) -> bool:
        try:
            self.runtime.status("finishes")
        except Unreachable:
            return False
        return True

    def begin(self, name: str) -> list[int]:
        """Start a program; its pid, and its child's where it has one, once both are there."""
        (self.folder / name).unlink(missing_ok=True)
        assert self.runtime.start(name)
        until((self.folder / name).exists)
        return [int(pid) for pid in (self.folder / name).read_text().split()]

    def restarted(self, name: str, before: ProcessStatus) -> ProcessStatus:
        """The status once another instance runs than ``before``."""

        def is_another() -> bool:
            status = self.runtime.status(name)
            return status.state is ProcessState.RUNNING and status.pid != before.pid

        until(is_another)
        return self.runtime.status(name)

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def until(holds: Callable[[], bool], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{holds} does not hold within {seconds} s"
        time.sleep(0.05)


def is_there(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    made = Daemon(tmp_path_factory.mktemp("supervisord"), port)
    yield made
    made.end()


def is_stopped(daemon: Daemon, name: str) -> bool:
    return daemon.runtime.status(name).state is ProcessState.STOPPED


def timed_stop(daemon: Daemon, name: str, grace: float) -> tuple[ProcessStatus, float]:
    began = time.monotonic()
    status = daemon.runtime.stop(name, grace)
    return status, time.monotonic() - began


def test_a_start_is_made_once_and_a_stop_lets_it_finish(daemon: Daemon) -> None:
    (pid,) = daemon.begin("finishes")
    before = daemon.runtime.status("finishes")
    assert (before.state, before.pid, before.is_alive) == (ProcessState.RUNNING, pid, True)
    assert not daemon.runtime.start("finishes")
    status, seconds = timed_stop(daemon, "finishes", 10)
    assert (daemon.folder / "finishes.done").exists()
    assert (status.state, status.exit_status, is_there(pid)) == (ProcessState.EXITED, 0, False)
    # It ended by itself, in half a second, and not because supervisord killed it.
    assert 0.4 < seconds < 5
    # The same start, dead; another start is another.
    assert status.identity == before.identity != "0"
    assert timed_stop(daemon, "finishes", 10)[0].state is ProcessState.EXITED
    # A start is known by its second.
    until(lambda: time.time() >= (status.since or 0) + 1)
    daemon.begin("finishes")
    assert daemon.runtime.status("finishes").identity != before.identity
    daemon.runtime.stop("finishes", 0)


def test_what_ignores_the_signal_is_killed_after_its_grace(daemon: Daemon) -> None:
    (pid,) = daemon.begin("ignores")
    status, seconds = timed_stop(daemon, "ignores", 1)
    assert status.state is ProcessState.STOPPED
    until(lambda: not is_there(pid))
    assert 1 + KILL_AFTER <= seconds < 10
    (pid,) = daemon.begin("ignores")
    status, seconds = timed_stop(daemon, "ignores", 0)
    assert status.state is ProcessState.STOPPED
    until(lambda: not is_there(pid))
    assert KILL_AFTER <= seconds < 5


def test_what_is_suspended_is_killed_with_its_child(daemon: Daemon) -> None:
    leader, child = daemon.begin("parent")
    for pid in (leader, child):
        os.kill(pid, signal.SIGSTOP)
    assert daemon.runtime.status("parent").is_alive
    status, _ = timed_stop(daemon, "parent", 0)
    assert status.state is ProcessState.STOPPED
    until(lambda: not is_there(leader) and not is_there(child))


def test_a_stop_while_it_starts_is_not_followed_by_a_start(daemon: Daemon) -> None:
    (pid,) = daemon.begin("starting")
    assert daemon.runtime.status("starting").state is ProcessState.STARTING
    assert timed_stop(daemon, "starting", 5)[0].state is ProcessState.STOPPED
    stopped = time.monotonic()
    # supervisord would try again after a second.
    until(lambda: time.monotonic() >= stopped + 1.5 or not is_stopped(daemon, "starting"))
    assert is_stopped(daemon, "starting")
    assert not is_there(pid)


def test_what_is_being_stopped_cannot_be_started(daemon: Daemon) -> None:
    daemon.begin("ignores")
    daemon.rpc.stopProcess("ignores", False)
    with raising(Unreachable, "ignores", "STOPPING"):
        daemon.runtime.start("ignores")
    assert timed_stop(daemon, "ignores", 5)[0].state is ProcessState.STOPPED


def kill(pid: int | None) -> None:
    assert pid
    os.kill(pid, signal.SIGKILL)


def test_a_killed_component_is_restarted_at_once_and_its_exit_is_seen(daemon: Daemon) -> None:
    daemon.begin("finishes")
    before = daemon.runtime.status("finishes")
    killed = time.time()
    kill(before.pid)
    after = daemon.restarted("finishes", before)
    assert after.last_exit is not None
    assert (after.last_exit.code, len(after.restarts)) == (-signal.SIGKILL, 1)
    # supervisord's log carries milliseconds, the clock more.
    assert killed - 0.001 <= after.last_exit.at <= after.restarts[0] + 0.001 < killed + 5
    # The second end in a row: the next restart waits for a second, and a stop ends that.
    kill(after.pid)
    until(lambda: daemon.runtime.status("finishes").state is ProcessState.BACKOFF)
    waiting = daemon.runtime.status("finishes")
    assert (waiting.pid, waiting.is_alive, waiting.identity) == (None, False, after.identity)
    stopped, seconds = timed_stop(daemon, "finishes", 10)
    assert (stopped.state in ENDED, seconds < 5) == (True, True)
    assert stopped.last_exit is not None, "how it ended is still there"


def test_a_killed_parent_process_takes_its_component_along_and_is_restarted(daemon: Daemon) -> None:
    daemon.begin("finishes")
    before = daemon.runtime.status("finishes")
    # What is suspended obeys no gentler signal.
    assert before.pid
    os.kill(before.pid, signal.SIGSTOP)
    kill(int(daemon.rpc.getProcessInfo("finishes")["pid"]))
    daemon.restarted("finishes", before)
    until(lambda: not is_there(before.pid or 0))
    daemon.runtime.stop("finishes", 0)


def test_a_fenced_component_is_not_restarted(daemon: Daemon) -> None:
    (pid,) = daemon.begin("fenced")
    os.kill(pid, signal.SIGTERM)
    until(lambda: daemon.runtime.status("fenced").state is ProcessState.EXITED)
    ended = time.monotonic()
    until(lambda: time.monotonic() >= ended + 1.5)
    status = daemon.runtime.status("fenced")
    assert (status.state, status.exit_status, status.restarts) == (ProcessState.EXITED, 76, ())
