"""Wait until a component is as healthy as expected."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sluice.airflow.failures import failed
from sluice.airflow.sensors.base import StreamSensor
from sluice.airflow.triggers.expected_health import ExpectedHealthTrigger
from sluice.airflow.triggers.wait import Outcome, PollTrigger
from sluice.core.error_codes import ErrorCode
from sluice.supervision.rules.status import WELL, Health

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.exceptions import AirflowFailException

TIMEOUT = timedelta(minutes=30)
POKE_SECONDS = 15.0


class StreamHealthSensor(StreamSensor):
    """Wait until the health of a component is one of ``health``; by default until it works.

    It observes by itself, and acts on nothing: it works also while the stream's supervision is paused.
    """

    def __init__(
        self,
        *,
        health: Collection[Health | str] = WELL - {Health.STARTING},
        poke_interval: timedelta | float = POKE_SECONDS,
        timeout: timedelta | float = TIMEOUT,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        # Raises ValueError for a word that is none.
        self.health = sorted(Health(one).value for one in health)
        self.does = f"waits until the {self.component} is {' or '.join(self.health)}"

    def condition(self, context: Context) -> tuple[type[PollTrigger], dict[str, Any]]:
        return ExpectedHealthTrigger, {"expected": self.health}

    def failure(self, outcome: Outcome, reason: str) -> AirflowFailException:
        expected = " or ".join(self.health)
        return failed(
            ErrorCode.COMPONENT_DOWN,
            f"the {self.component} of {self.stream} is not {expected}, {outcome.value}: {reason}. Fix: see "
            f"the page of streams, and the last run of {self.stream}_stream",
        )
