"""Wait until the stream's consumer holds the writer lease."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.airflow.triggers.wait import Outcome, PollTrigger, Progress
from sluice.core.errors import ClientError
from sluice.core.processes.status import ENDED, ProcessState, ProcessStatus
from sluice.core.tables.position import Position
from sluice.supervision.rules.lease import has_acquired

if TYPE_CHECKING:
    from sluice.airflow.hook import StreamClients

# How long the wait for the lease lasts; the epoch-start snapshot of an older process may have expired.
LEASE_SECONDS = 180
# One exit may be an accident; a second has a cause, which the log names.
MAX_RESTARTS = 1


def holds_lease(process: ProcessStatus, position: Position, before: int, now: float) -> bool:
    """Whether the running process is the active writer; ``before``: the epoch when the wait began.

    It is if the lease was acquired during the wait, or since the process's start. RUNNING is not enough: it
    acquires the lease some ten seconds after its start.
    """
    if process.state is not ProcessState.RUNNING:
        return False
    is_new = position.epoch > before
    return is_new or (process.since is not None and has_acquired(position, process.since, now, LEASE_SECONDS))


def has_failed(began: float, process: ProcessStatus) -> bool:
    """Whether the process, which is to run, ended for good, or the runtime has restarted it more than
    MAX_RESTARTS times since ``began`` (seconds since 1970)."""
    return process.state in ENDED or len(process.restarts_since(began)) > MAX_RESTARTS


@dataclass(kw_only=True, eq=False, repr=False)
class LeaseTrigger(PollTrigger):
    """Fires when the consumer holds the writer lease, has failed, or at ``deadline``.

    ``before``, ``began``: the epoch and the time when the wait began.
    """

    before: int
    began: float

    async def poll(self) -> Progress:
        program, table = self.spec.component(self.component).program, self.spec.table

        def observe(clients: StreamClients) -> tuple[ProcessStatus, Position | None]:
            hook = clients.platform_hook
            return hook.runtime.status(program), hook.lake.position(table)

        try:
            process, position = await self.ask(observe)
        except ClientError as error:
            return Progress(f"no writer lease seen: {error}")
        if has_failed(self.began, process):
            return Progress(f"{process.message()}: ended before it acquired the lease", Outcome.PERMANENT)
        if position and holds_lease(process, position, self.before, self.clock()):
            details = {"state": process.state.value, "pid": process.pid, "epoch": position.epoch}
            return Progress(f"{process.message()} holds the writer lease", Outcome.REACHED, details)
        # No table before the consumer's first start; the deadline bounds the wait for it.
        epoch = position.epoch if position else 0
        return Progress(f"{process.message()}: no writer lease (epoch {epoch})")
