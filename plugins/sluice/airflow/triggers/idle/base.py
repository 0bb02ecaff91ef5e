"""End a task for which there is nothing to do, before it takes a worker."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from airflow.triggers.base import StartTriggerArgs, TaskSuccessEvent, TriggerEvent

from sluice.airflow.triggers.base import StreamTrigger

if TYPE_CHECKING:
    from sluice.airflow.hook import StreamClients

# Airflow's own timeout, for a triggerer that is gone, or in which too many looks wait; one that has begun
# ends itself before.
LOOK_TIMEOUT = timedelta(minutes=4)
# At once in a triggerer: each has a thread, and connections to the catalog and to S3. All streams' begin at
# the same minute.
MAX_LOOKS = 8
_places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def places() -> asyncio.Semaphore:
    """One for each look that this loop, all of a triggerer, may have at once."""
    return _places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_LOOKS))


def unlooked(error: Exception) -> dict[str, Any]:
    """What a trigger would fire for a look that did not end: no triggerer was there, or it failed there."""
    return {"reason": f"not looked at in the triggerer: {error}"}


class WorkNeeded(Exception):
    """The task has work to do, or may have: why, for its log."""


@dataclass(kw_only=True, eq=False, repr=False)
class IdleTrigger(StreamTrigger):
    """Ends its task, green, if :meth:`look` finds nothing to do. Else it fires ``{"reason": …}``, also if
    it could not look: the worker then meets the same, and fails with its own message.

    The scheduler creates it (``start_from_trigger``).
    """

    @property
    @abstractmethod
    def sender(self) -> str:
        """This kind of look alone: one that hangs must not blind the health checks of a component."""

    @abstractmethod
    def look(self, clients: StreamClients) -> dict[str, Any]:
        """The task's return value. Blocks, and changes nothing but the ledger. Raises WorkNeeded; whatever
        else it raises needs a worker too."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            # The time of its request begins with its place. A request that is abandoned keeps none.
            async with places():
                result = await self.ask(self.look)
        except WorkNeeded as reason:
            yield self._leave(str(reason))
        # Whatever it is: only the task itself may say what failed, and how to repair it.
        except Exception as error:
            yield self._leave(f"{type(error).__name__}: {error}")
        else:
            self.log.info("nothing to do: %s", result)
            yield TaskSuccessEvent(xcoms={"return_value": result})

    def start(self, method: str) -> StartTriggerArgs:
        """With which a task starts; ``method``: its own, with the event, if it needs a worker."""
        path, values = self.serialize()
        return StartTriggerArgs(
            trigger_cls=path, next_method=method, trigger_kwargs=values, timeout=LOOK_TIMEOUT
        )

    def _leave(self, reason: str) -> TriggerEvent:
        self.log.info("left to a worker: %s", reason)
        return TriggerEvent({"reason": reason})
