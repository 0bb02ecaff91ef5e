"""The processes of a stack's components: found, signalled, suspended at a chosen moment."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

from local.runtime.processes import LABEL, stack_processes
from tests.support.stream import StreamUnderTest

# Stage and publish are less than a tenth of a second apart, so the moment may be missed.
TRIES = 12


def process_tree(pid: int) -> list[psutil.Process]:
    """A process and its descendants; empty if it has ended. Raises ValueError for the first process:
    to signal its descendants is to end the machine."""
    if pid == 1:
        raise ValueError("process 1 is no process of a stack")
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def signal_all(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        # psutil checks the start time: the id may be another process's by now.
        if process.is_running():
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:
                continue  # it ended with its parent


def listening(argument: str, label: str = "") -> set[tuple[str, int]]:
    """Hosts and ports where descendants of this process listen that have such a text in an argument and, if
    one is given, a stack's label. Empty if there is none."""
    found: set[tuple[str, int]] = set()
    for process in psutil.Process().children(recursive=True):
        # Any of them may end meanwhile; one that is not waited for yet has no arguments.
        with suppress(psutil.NoSuchProcess):
            if any(argument in word for word in process.cmdline()) and (
                not label or process.environ().get(LABEL) == label
            ):
                found |= {
                    (each.laddr.ip.removeprefix("::ffff:"), each.laddr.port)
                    for each in process.net_connections("tcp")
                    if each.status == psutil.CONN_LISTEN
                }
    return found


def component_processes(stream: StreamUnderTest, program: str) -> list[psutil.Process]:
    """The processes of a component, without its parent process."""
    pid = stream.status(program).pid
    return process_tree(pid) if pid is not None else []


def suspend_between_stage_and_publish(
    stream: StreamUnderTest,
    send_batch: Callable[[], object],
    processes: Callable[[], list[psutil.Process]] | None = None,
) -> list[psutil.Process]:
    """Suspend a consumer after a batch is staged and before its publish; give its processes.

    `processes`: by default the managed consumer's. Retries with another `send_batch` if the moment is missed;
    raises TimeoutError after TRIES.
    """
    for _ in range(TRIES):
        before, known = stream.metadata_location(), stream.snapshot_files()
        send_batch()
        caught = processes() if processes else component_processes(stream, stream.spec.program)
        stream.wait_for_staged(known)
        signal_all(caught, signal.SIGSTOP)
        if stream.metadata_location() == before:
            return caught
        signal_all(caught, signal.SIGCONT)
    raise TimeoutError(f"missed the moment between stage and publish {TRIES} times")


def resume_all(stream: StreamUnderTest) -> list[psutil.Process]:
    """Resume every suspended process of the stack; give them."""
    suspended = [p for p in stack_processes(stream.stack.home.id) if _status(p) == psutil.STATUS_STOPPED]
    signal_all(suspended, signal.SIGCONT)
    return suspended


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return ""
