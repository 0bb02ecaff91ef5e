"""Base of the sensors over a stream."""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.sensor import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowSensorTimeout

from sluice.airflow.operators.base import BACKSTOP, ComponentOperator
from sluice.airflow.triggers.wait import Outcome, PollTrigger, Progress
from sluice.config.stream import CONSUMER

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.exceptions import AirflowFailException


class StreamSensor(ComponentOperator, BaseSensorOperator):
    """Wait for ``component`` of ``stream`` until the trigger of :meth:`condition` has an outcome.

    Waits in the triggerer, for ``timeout`` at most. Without ``deferrable`` a worker asks the trigger every
    ``poke_interval``, by ``mode``. Returns the trigger's event; fails without retries for any other outcome.
    """

    fails_if = "the timeout is over"
    # Its trigger looks at what the condition needs.
    checked = None

    def __init__(
        self,
        *,
        component: str = CONSUMER,
        deferrable: bool = True,
        soft_fail: bool = False,
        never_fail: bool = False,
        **kwargs: Any,
    ) -> None:
        if soft_fail or never_fail:
            raise ValueError(
                f"{type(self).__name__}: soft_fail and never_fail are refused, because a check that passes "
                "by failing softly is none. Fix: leave them out, or give later tasks another trigger_rule"
            )
        super().__init__(component=component, **kwargs)
        self.deferrable = deferrable
        self._last = Progress("nothing was observed yet")
        self._trigger: PollTrigger | None = None

    @property
    def waits(self) -> Sequence[timedelta]:
        return (timedelta(seconds=self.timeout) + BACKSTOP,)

    @abstractmethod
    def condition(self, context: Context) -> tuple[type[PollTrigger], dict[str, Any]]:
        """The trigger that ends the wait, and its own fields."""

    @abstractmethod
    def failure(self, outcome: Outcome, reason: str) -> AirflowFailException:
        """The failure of a wait that ended otherwise."""

    def seconds(self, context: Context) -> float:
        """How long this run waits at most."""
        return float(self.timeout)

    def work(self, context: Context) -> Any:
        if self.deferrable:
            kind, fields = self.condition(context)
            self.wait_for(kind, self.seconds(context), "resume", poll_interval=self.poke_interval, **fields)
        self.timeout = self.seconds(context)
        try:
            return BaseSensorOperator.execute(self, context)
        except AirflowSensorTimeout as error:
            raise self.failure(Outcome.TIMED_OUT, self._last.message) from error

    def poke(self, context: Context) -> PokeReturnValue | bool:
        self._last = progress = asyncio.run(_poll(self._asked(context)))
        if progress.outcome is None:
            self.log.info("%s", progress.message)
            return False
        event = {"outcome": progress.outcome.value, "reason": progress.message, **progress.details}
        return PokeReturnValue(True, self.resume(context, event))

    def _asked(self, context: Context) -> PollTrigger:
        """One trigger for all pokes of a worker: it remembers what it saw."""
        if self._trigger is None:
            kind, fields = self.condition(context)
            self._trigger = kind(
                stream=self.stream,
                component=self.component,
                # The sensor itself keeps the time.
                deadline=math.inf,
                poll_interval=self.poke_interval,
                **fields,
            )
        return self._trigger

    def resume(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Return the trigger's event, or fail."""
        outcome, reason = Outcome(event["outcome"]), event["reason"]
        if outcome is not Outcome.REACHED:
            raise self.failure(outcome, reason)
        self.log.info("%s", reason)
        return event


async def _poll(trigger: PollTrigger) -> Progress:
    try:
        return await trigger.poll()
    finally:
        await trigger.cleanup()
