"""Base of the triggers over a stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger

from sluice.clients.errors import ClientError, Unreachable
from sluice.hooks.platform import StreamMixin
from sluice.model.health.sample import Sample

T = TypeVar("T")
# Bound of one request to a system; clients have shorter deadlines of their own.
REQUEST_TIMEOUT_SECONDS = 90.0
# Key in a sample's errors, beside the systems'.
OBSERVER = "observer"


@dataclass(kw_only=True, eq=False, repr=False)
class StreamTrigger(StreamMixin, BaseTrigger):
    """A trigger over ``component`` of ``stream``. Its fields are serialized, so they hold no secret."""

    stream: str
    component: str = "consumer"

    def __post_init__(self) -> None:
        super().__init__()
        self.clock: Callable[[], float] = time.time
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.request_timeout_seconds = REQUEST_TIMEOUT_SECONDS

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {field.name: getattr(self, field.name) for field in fields(self)}

    async def ask(self, request: Callable[[], T]) -> T:
        """Run it in a thread: clients block, and all triggers share the triggerer's loop."""
        try:
            return await asyncio.wait_for(asyncio.to_thread(request), self.request_timeout_seconds)
        except TimeoutError as error:
            raise Unreachable(f"no answer within {self.request_timeout_seconds:g} s") from error

    async def observe(self) -> Sample:
        """A sample of the component, with errors if it cannot be observed. Raises ConfigError."""
        now = self.clock()
        try:
            return await self.ask(lambda: self.platform_hook.observer(self.spec, self.component).observe(now))
        except ClientError as error:
            return Sample(at=now, process=None, errors={OBSERVER: str(error)})

    async def cleanup(self) -> None:
        if "lake" in vars(self.platform_hook):
            await asyncio.to_thread(self.platform_hook.lake.close)
