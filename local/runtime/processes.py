"""The stack's processes, found by a mark in their environment: also those that lost their parent."""

from __future__ import annotations

import time

import psutil

MARK = "SLUICE_STACK_ID"


def of_stack(stack_id: str) -> list[psutil.Process]:
    """Every living process that was started by the stack, however deep and whoever its parent is now."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == stack_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue  # ended while we looked: exactly what is wanted of it
        except psutil.AccessDenied:
            continue  # another user's, so none of ours: all of ours run as us, or we are root
    return found


def describe(process: psutil.Process) -> str:
    """`name(pid)`, for messages."""
    try:
        return f"{process.name()}({process.pid})"
    except psutil.NoSuchProcess:
        return f"({process.pid}, gone)"


def end_all(stack_id: str, grace_seconds: float = 8.0) -> list[str]:
    """Ends all that is left of a stack: TERM, then KILL after the grace. Gives what had to be ended.

    Goes on until none is left, because a process may start another while it is being stopped.
    """
    ended: list[str] = []
    deadline = time.monotonic() + grace_seconds
    asked: set[int] = set()
    while left := of_stack(stack_id):
        late = time.monotonic() > deadline
        for process in left:
            try:
                if late:
                    process.kill()
                elif process.pid not in asked:
                    ended.append(describe(process))
                    asked.add(process.pid)
                    process.terminate()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(left, timeout=0.5)
    return ended
