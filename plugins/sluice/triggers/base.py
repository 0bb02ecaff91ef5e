"""The frame of waiting for a stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger

from sluice.clients.errors import ClientError, Unreachable
from sluice.hooks.platform import PlatformHook
from sluice.model.health.sample import Sample
from sluice.model.spec import stream as streams
from sluice.model.spec.stream import StreamSpec

T = TypeVar("T")
# No question to a system may hold the others up for longer; clients have shorter deadlines of their own.
QUESTION_SECONDS = 90.0
# Beside the systems that a look asks, the key of a sample's trouble.
OBSERVER = "observer"


class StreamTrigger(BaseTrigger):
    """A trigger over ``stream`` with the clients of ``role``: names only, secrets stay in the role's file.

    What it needs to go on in another triggerer is what ``names`` lists: they are serialised, as they were
    given to its constructor.
    """

    names: tuple[str, ...] = ("stream", "role")

    def __init__(self, *, stream: str, role: str) -> None:
        super().__init__()
        self.stream = stream
        self.role = role
        self.clock: Callable[[], float] = time.time
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.question_seconds = QUESTION_SECONDS

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in self.names}

    @cached_property
    def hook(self) -> PlatformHook:
        return PlatformHook(self.role)

    @cached_property
    def spec(self) -> StreamSpec:
        """The stream's declaration. Raises ConfigError."""
        return streams.load(self.stream)

    async def ask(self, question: Callable[[], T]) -> T:
        """Ask in a thread: the clients block, and the triggerer's loop belongs to every trigger."""
        try:
            return await asyncio.wait_for(asyncio.to_thread(question), self.question_seconds)
        except TimeoutError as error:
            raise Unreachable(f"no answer within {self.question_seconds:g} s") from error

    async def observe(self, component: str) -> Sample:
        """One observation; if even that is not possible, the sample says so. Raises ConfigError."""
        now = self.clock()
        try:
            return await self.ask(lambda: self.hook.observer(self.spec, component).look(now))
        except ClientError as error:
            return Sample(at=now, process=None, errors={OBSERVER: str(error)})

    async def cleanup(self) -> None:
        if "lake" in vars(self.hook):
            await asyncio.to_thread(self.hook.lake.close)
