"""Base of the triggers over a stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.base import BaseTrigger

from sluice.clients.errors import ClientError, Unreachable
from sluice.hooks.platform import PlatformHook
from sluice.model.health.sample import Sample
from sluice.model.spec import stream as streams
from sluice.model.spec.ledger import history_name
from sluice.model.spec.stream import StreamSpec

if TYPE_CHECKING:
    from sluice.clients.ledger import History

T = TypeVar("T")
# Bound of one request to a system; clients have shorter deadlines of their own.
REQUEST_TIMEOUT_SECONDS = 90.0
# Key in a sample's errors, beside the systems'.
OBSERVER = "observer"


@dataclass(kw_only=True, eq=False, repr=False)
class StreamTrigger(BaseTrigger):
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

    @cached_property
    def hook(self) -> PlatformHook:
        return PlatformHook()

    @cached_property
    def spec(self) -> StreamSpec:
        """Raises ConfigError."""
        return streams.load(self.stream)

    @cached_property
    def history(self) -> History:
        return self.hook.history(history_name(self.stream, self.component))

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
            return await self.ask(lambda: self.hook.observer(self.spec, self.component).observe(now))
        except ClientError as error:
            return Sample(at=now, process=None, errors={OBSERVER: str(error)})

    async def cleanup(self) -> None:
        if "lake" in vars(self.hook):
            await asyncio.to_thread(self.hook.lake.close)
