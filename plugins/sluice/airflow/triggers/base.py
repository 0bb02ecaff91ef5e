"""Base of the triggers over a stream."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.base import BaseTrigger

from sluice.airflow.hook import StreamClients
from sluice.airflow.triggers.requests import Requests
from sluice.config import streams
from sluice.core.errors import ClientError, Unreachable
from sluice.supervision.observer.live import FRESH_SECONDS, OBSERVER
from sluice.supervision.rules.sample import Sample

if TYPE_CHECKING:
    from sluice.config.stream import StreamSpec

T = TypeVar("T")
# Bound of one request to a system; clients have shorter deadlines of their own.
REQUEST_TIMEOUT_SECONDS = 90.0
# Between two questions to the observer.
POLL_SECONDS = 2.0


@dataclass(kw_only=True, eq=False, repr=False)
class StreamTrigger(BaseTrigger):
    """A trigger over ``component`` of ``stream``. Its fields are serialized, so they hold no secret.

    It has no clients of its own: each request gets those that it may use.
    """

    stream: str
    component: str = "consumer"

    def __post_init__(self) -> None:
        super().__init__()
        self.clock: Callable[[], float] = time.time
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.request_timeout_seconds = REQUEST_TIMEOUT_SECONDS
        self.looks_itself = False
        self._began = math.inf
        self.requests = Requests(self.sender, lambda: StreamClients(self.stream, self.component))

    @property
    def sender(self) -> str:
        """Who sends the requests: those of one that hang do not stop those of another."""
        return f"{self.stream} {self.component}"

    @cached_property
    def spec(self) -> StreamSpec:
        """Raises ConfigError."""
        return streams.load(self.stream)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {field.name: getattr(self, field.name) for field in fields(self)}

    async def ask(self, request: Callable[[StreamClients], T]) -> T:
        """Run it in a thread: clients block, and all triggers share the triggerer's loop."""
        return await self.requests.send(request, self.request_timeout_seconds)

    async def observe(self) -> Sample:
        """A sample of the component, with errors if it cannot be observed. Raises ConfigError."""
        now, spec = self.clock(), self.spec

        def request(clients: StreamClients) -> Sample:
            return clients.platform_hook.sampler(spec, self.component).observe(now)

        try:
            return await self.ask(request)
        except ClientError as error:
            return Sample(at=now, process=None, errors={OBSERVER: str(error)})

    async def samples(self, known: list[Sample]) -> list[Sample]:
        """The observer's, the newest of which began after this trigger did. If it has none in time, ``known``
        (from before, which grows), with one of now: no check depends on it. With one of now also if a system
        did not answer the observer: that asks each system once for all streams. ``looks_itself`` says which.
        Raises ConfigError."""
        try:
            found = await self._observed()
        except ClientError as error:
            if not self.looks_itself:
                self.log.warning("%s; so this check looks for itself", error)
            self.looks_itself = True
            known.append(await self.observe())
            return list(known)
        self.looks_itself = False
        return [*found, await self.observe()] if found[-1].errors else found

    async def _observed(self) -> list[Sample]:
        """What was before the trigger began is no answer to it: a person may have just repaired something."""
        spec = self.spec
        self._began = min(self._began, self.clock())
        until = self._began + FRESH_SECONDS
        while True:
            found = await self.ask(lambda clients: clients.platform_hook.observed(spec, self.component))
            if found[-1].at >= self._began:
                return found
            if self.clock() >= until:
                raise Unreachable(f"the observer has no sample of {FRESH_SECONDS:g} s")
            await self.sleep(POLL_SECONDS)

    async def cleanup(self) -> None:
        await self.requests.close(self.request_timeout_seconds)
