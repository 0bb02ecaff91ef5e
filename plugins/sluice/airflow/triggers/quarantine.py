"""Wait until the quarantine holds what the stream rejected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.airflow.triggers.wait import Outcome, PollTrigger, Progress
from sluice.core.errors import ClientError

if TYPE_CHECKING:
    from sluice.clients.lake.catalog import Lake
    from sluice.config.stream import StreamSpec


def is_settled(lake: Lake, spec: StreamSpec) -> bool:
    """Whether the quarantine holds what the stream says: after a batch or a change its rejected records
    follow, and what is published leaves it."""
    position = lake.position(spec.table)
    return position is None or lake.rejected_held(spec.quarantine_table) == position.rejected


@dataclass(kw_only=True, eq=False, repr=False)
class QuarantineTrigger(PollTrigger):
    """Fires when the quarantine is settled, or at ``deadline``."""

    async def poll(self) -> Progress:
        spec = self.spec
        try:
            settled = await self.ask(lambda clients: is_settled(clients.platform_hook.lake, spec))
        except ClientError as error:
            return Progress(f"{spec.quarantine_table}: {error}")
        if settled:
            return Progress(f"{spec.quarantine_table} holds what the stream rejected", Outcome.REACHED)
        return Progress(f"{spec.quarantine_table} does not hold what the stream rejected")
