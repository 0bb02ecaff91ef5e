"""What every step over a stream has: its declaration, its role's clients, the stream's ledger and history."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sluice.hooks.platform import PlatformHook
from sluice.model.spec import stream as streams

if TYPE_CHECKING:
    from sluice.clients.history import History
    from sluice.clients.ledger import Ledger
    from sluice.model.spec.stream import StreamSpec


class StreamMixin:
    """``stream`` (a folder of spark_jobs/) and ``role`` (a platform file); both are read when a task runs."""

    stream: str
    role: str

    @cached_property
    def spec(self) -> StreamSpec:
        return streams.load(self.stream)

    @cached_property
    def platform_hook(self) -> PlatformHook:
        return PlatformHook(self.role)

    @cached_property
    def ledger(self) -> Ledger:
        return self.platform_hook.ledger(self.stream)

    @cached_property
    def history(self) -> History:
        return self.platform_hook.history(self.stream)
