"""Blocking requests of a trigger: each in a thread of its own, with clients that no other request uses."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from sluice.core.error_codes import LOGINS, code_of
from sluice.core.errors import Unreachable


class Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)
T = TypeVar("T")

# Per owner: a system that hangs costs a triggerer two threads per owner, and blinds no other one.
MAX_ABANDONED = 2


class Abandoned:
    """When the requests began that were abandoned and have not returned, by owner. For threads."""

    def __init__(self) -> None:
        self._began: dict[str, list[float]] = {}
        self._lock = threading.Lock()

    def of(self, owner: str) -> list[float]:
        with self._lock:
            return list(self._began.get(owner, ()))

    def add(self, owner: str, at: float) -> None:
        with self._lock:
            self._began.setdefault(owner, []).append(at)

    def returned(self, owner: str, at: float) -> None:
        with self._lock:
            self._began[owner].remove(at)


# The process's: a thread that hangs outlives its trigger, and each run has triggers of its own.
ABANDONED = Abandoned()


class Requests(Generic[C]):
    """Sends requests for ``owner`` (a component, or a kind of look) with clients from ``connect``, one at a
    time.

    A request that gets no answer in time, or whose trigger is cancelled, is abandoned: a thread cannot be
    ended from outside. It keeps its clients, which are closed when it returns, and the next request gets new
    ones. All triggers of a process share the bound on what an owner has ``abandoned``. The threads are
    daemons, so that they do not hold up the end of the triggerer, and none is of the pool of its loop.
    """

    def __init__(self, owner: str, connect: Callable[[], C], abandoned: Abandoned | None = None) -> None:
        self.owner = owner
        self.connect = connect
        self.abandoned = abandoned or ABANDONED
        self._idle: C | None = None

    async def send(self, request: Callable[[C], T], seconds: float) -> T:
        """The answer. Raises Unreachable if there is none within ``seconds``, or too many are abandoned."""
        self._raise_if_blocked()
        clients, self._idle = self._idle or self.connect(), None
        future: Future[T] = Future()
        # From now on it cannot be cancelled: a trigger that is cancelled abandons it.
        future.set_running_or_notify_cancel()
        context = contextvars.copy_context()
        threading.Thread(
            target=lambda: context.run(_answer, future, request, clients),
            name=f"request of {self.owner}",
            daemon=True,
        ).start()
        answer = asyncio.wrap_future(future)
        try:
            await asyncio.wait({answer}, timeout=seconds)
        finally:
            if answer.done():
                self._keep(clients, future.exception())
            else:
                answer.cancel()
                self._abandon(future, clients)
        if answer.cancelled():
            raise Unreachable(f"no answer within {seconds:g} s")
        return answer.result()

    async def close(self, seconds: float) -> None:
        """Close the clients. Those of an abandoned request are closed when it returns."""
        if self._idle is not None:
            await self.send(lambda clients: clients.close(), seconds)
            self._idle = None

    def _keep(self, clients: C, error: BaseException | None) -> None:
        """For the next request; not those of a login that is refused: it may be corrected where they found
        it, and a trigger waits for days."""
        if error is None or code_of(error) not in LOGINS:
            self._idle = clients
            return
        threading.Thread(target=clients.close, name=f"closing of {self.owner}", daemon=True).start()

    def _raise_if_blocked(self) -> None:
        began = self.abandoned.of(self.owner)
        if len(began) >= MAX_ABANDONED:
            raise Unreachable(
                f"not asked: {len(began)} earlier requests of {self.owner} have not returned, the first for "
                f"{time.monotonic() - began[0]:.0f} s. Fix: see in make status which system hangs; a "
                "restarted triggerer drops them"
            )

    def _abandon(self, future: Future[Any], clients: C) -> None:
        at = time.monotonic()
        self.abandoned.add(self.owner, at)

        def returned(_: Future[Any]) -> None:
            self.abandoned.returned(self.owner, at)
            clients.close()

        future.add_done_callback(returned)


def _answer(future: Future[T], request: Callable[[C], T], clients: C) -> None:
    try:
        answer = request(clients)
    # Whatever it is, its trigger is to see it.
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(answer)
