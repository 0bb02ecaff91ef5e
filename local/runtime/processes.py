"""The stack's processes, found by a label in their environment; a server in a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from typing import Self

import psutil

LABEL = "SLUICE_STACK_ID"


def stack_processes(stack_id: str) -> list[psutil.Process]:
    """Every living process of the stack, also those whose parent has ended."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(LABEL) == stack_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue  # it has just ended
        except psutil.AccessDenied:
            continue  # another user's: the stack's processes run as this user, or this user is root
    return found


def describe(process: psutil.Process) -> str:
    """`name(pid)`, for messages."""
    try:
        return f"{process.name()}({process.pid})"
    except psutil.NoSuchProcess:
        return f"({process.pid}, gone)"


def end_all(stack_id: str, grace_seconds: float = 8.0) -> list[str]:
    """End all processes of a stack: TERM, then KILL after the grace. Give those that had to be ended.

    Repeats until none is left, because a process may start another while it stops.
    """
    ended: list[str] = []
    deadline = time.monotonic() + grace_seconds
    terminated: set[int] = set()
    while left := stack_processes(stack_id):
        late = time.monotonic() > deadline
        for process in left:
            try:
                if late:
                    process.kill()
                elif process.pid not in terminated:
                    ended.append(describe(process))
                    terminated.add(process.pid)
                    process.terminate()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(left, timeout=0.5)
    return ended


class ServerThread(ABC):
    """A server in a thread `name`, from `with` to its end; once only."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None

    @abstractmethod
    async def _serve(self, end: asyncio.Event) -> None:
        """Serve until `end`, in the thread. Sets `_ready` when it accepts connections."""

    def __enter__(self) -> Self:
        """Raises OSError for a port that is taken."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        """Drop open connections. Idempotent."""
        if self._thread.is_alive() and self._loop is not None and self._end is not None:
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._begin())
        except OSError as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _begin(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        await self._serve(self._end)
