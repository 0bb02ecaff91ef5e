"""Requests that hang: what they hold, what they do not, and what becomes of their clients."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sluice.airflow.triggers import requests
from sluice.airflow.triggers.requests import MAX_ABANDONED, Requests
from sluice.clients.s3.errors import S3LoginRefused
from sluice.core.errors import Unreachable
from tests.support.raising import raising

SECONDS = 0.05


class Clients:
    """Notes who uses it, and whether two do at once. ``release`` ends a request that hangs."""

    made: list[Clients]
    release: threading.Event

    def __init__(self) -> None:
        self.users = 0
        self.shared = False
        self.closed = threading.Event()
        Clients.made.append(self)

    def hang(self) -> str:
        return self._use(lambda: "late" if Clients.release.wait(20) else "never")

    def answer(self) -> str:
        return self._use(lambda: "answer")

    def _use(self, work: Callable[[], str]) -> str:
        self.users += 1
        self.shared |= self.users > 1 or self.closed.is_set()
        try:
            return work()
        finally:
            self.users -= 1

    def close(self) -> None:
        self.shared |= self.users > 0
        self.closed.set()


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    Clients.made, Clients.release = [], threading.Event()
    yield
    Clients.release.set()


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def hang(sender: Requests[Clients]) -> None:
    with pytest.raises(Unreachable, match=f"no answer within {SECONDS} s"):
        await sender.send(Clients.hang, SECONDS)


def test_requests_use_the_same_clients_while_they_answer() -> None:
    sender = Requests("a", Clients)

    async def both() -> list[str]:
        return [await sender.send(Clients.answer, 20) for _ in range(2)]

    assert asyncio.run(both()) == ["answer", "answer"]
    asyncio.run(sender.close(20))
    (clients,) = Clients.made
    assert (clients.closed.is_set(), clients.shared) == (True, False)


def test_after_a_refused_login_come_new_clients() -> None:
    """Which read the secret again."""
    sender = Requests("a", Clients)

    def refuse(error: Exception) -> Callable[[Clients], str]:
        def asked(_: Clients) -> str:
            raise error

        return asked

    async def all_of_them() -> str:
        for error in (S3LoginRefused("S3 refuses the login"), Unreachable("it is away")):
            with raising(type(error), str(error)):
                await sender.send(refuse(error), 20)
        return await sender.send(Clients.answer, 20)

    assert asyncio.run(all_of_them()) == "answer"
    refused, used = Clients.made
    until(refused.closed.is_set)
    assert not used.closed.is_set(), "what is away says nothing of the login"


def test_after_a_request_that_hangs_come_new_clients_and_its_own_are_closed_when_it_returns() -> None:
    sender = Requests("a", Clients)

    async def both() -> str:
        await hang(sender)
        return await sender.send(Clients.answer, 20)

    assert asyncio.run(both()) == "answer"
    asyncio.run(sender.close(20))
    first, second = Clients.made
    assert (first.users, first.closed.is_set(), second.closed.is_set()) == (1, False, True)
    Clients.release.set()
    until(first.closed.is_set)
    assert not any(clients.shared for clients in Clients.made)
    assert not requests.ABANDONED.of("a")


def test_hanging_requests_leave_the_pool_of_the_loop_free() -> None:
    async def pool_is_free() -> bool:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        await hang(Requests("a", Clients))
        return await asyncio.wait_for(asyncio.to_thread(lambda: True), 5)

    assert asyncio.run(pool_is_free())


def test_few_hanging_requests_of_a_component_may_exist_and_they_blind_no_other() -> None:
    async def ask() -> str:
        for _ in range(MAX_ABANDONED):
            await hang(Requests("a", Clients))
        before = threading.active_count()
        with raising(Unreachable, "2 earlier requests of a have not returned", "for 0 s", "Fix: "):
            await Requests("a", Clients).send(Clients.answer, 20)
        assert threading.active_count() == before
        return await Requests("b", Clients).send(Clients.answer, 20)

    assert asyncio.run(ask()) == "answer"
    Clients.release.set()
    until(lambda: not requests.ABANDONED.of("a"))
    assert asyncio.run(Requests("a", Clients).send(Clients.answer, 20)) == "answer"


def test_a_cancelled_trigger_abandons_its_request_and_closes_no_client_in_use() -> None:
    sender = Requests("a", Clients)

    async def cancelled() -> None:
        asking = asyncio.ensure_future(sender.send(Clients.hang, 20))
        while not (Clients.made and Clients.made[0].users):
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await sender.close(20)

    asyncio.run(cancelled())
    (clients,) = Clients.made
    assert (clients.closed.is_set(), len(requests.ABANDONED.of("a"))) == (False, 1)
    Clients.release.set()
    until(clients.closed.is_set)
    assert not clients.shared


def test_two_requests_at_once_share_nothing() -> None:
    sender = Requests("a", Clients)

    async def both() -> None:
        await asyncio.gather(hang(sender), hang(sender))

    asyncio.run(both())
    assert [(clients.users, clients.shared) for clients in Clients.made] == [(1, False)] * 2


@pytest.mark.parametrize("error", [Unreachable("away"), TimeoutError("its own"), SystemExit(3)])
def test_what_a_request_raises_is_raised(error: BaseException) -> None:
    def fail(_: Clients) -> None:
        raise error

    sender = Requests("a", Clients)
    with pytest.raises(type(error)):
        asyncio.run(sender.send(fail, 20))
    assert asyncio.run(sender.send(Clients.answer, 20)) == "answer"
    assert len(Clients.made) == 1


def test_a_request_logs_as_its_trigger_does() -> None:
    """Airflow routes a trigger's log lines by context variables."""
    of: contextvars.ContextVar[Any] = contextvars.ContextVar("of")

    async def ask() -> Any:
        of.set("trigger 7")
        return await Requests("a", Clients).send(lambda _: of.get(), 20)

    assert asyncio.run(ask()) == "trigger 7"


def test_hanging_requests_do_not_hold_up_the_end_of_the_triggerer() -> None:
    asyncio.run(hang(Requests("a", Clients)))
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "request of a"] == [True]
