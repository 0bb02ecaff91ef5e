"""Consumer and other components run.

Step 2 of a load: the consumer runs and owns the stream.

A step of a load: one of the stream's other processes runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.hooks.failures import failed_attempt, log_excerpt
from sluice.model.error_codes import ErrorCode
from sluice.model.health.sample import ENDED, ProcessState, ProcessStatus
from sluice.operators.base import StartingOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

DEADLINE_SECONDS = 180
# Two clocks: the runtime's says when the process started, the driver's when the snapshot was made.
CLOCK_SLACK_SECONDS = 2.0
# One end may be an accident; what ends again has a reason, which its log says.
MAX_RESTARTS = 1


@dataclass(frozen=True)
class Ownership:
    """Who owns the stream, as ``main`` tells: epoch 0 before anybody does; ``since``: seconds since 1970."""

    epoch: int = 0
    since: float | None = None


def is_owned(process: ProcessStatus, seen: Ownership, before: Ownership, now: float, deadline: float) -> bool:
    """Whether the process that runs is the one that took over last.

    It is when a take-over happened while we looked, or later than the process's start; and for a process
    older than ``deadline``, whose take-over maintenance may have expired, when there is any owner. Alive
    alone is not enough: the tables are made, and the stream is taken over, some ten seconds after the start.
    """
    if process.state is not ProcessState.RUNNING or not seen.epoch:
        return False
    if seen.epoch > before.epoch or process.since is None:
        return seen.epoch > before.epoch
    taken_since_start = seen.since is not None and seen.since >= process.since - CLOCK_SLACK_SECONDS
    return taken_since_start or now - process.since > deadline


def has_failed(expected: bool, began: float, process: ProcessStatus) -> bool:
    """Whether the process ended for good though it is ``expected`` to run, or the runtime has restarted it
    more than MAX_RESTARTS times since ``began`` (seconds since 1970)."""
    return (expected and process.state in ENDED) or len(process.restarts_since(began)) > MAX_RESTARTS


class EnsureConsumerOperator(StartingOperator):
    """Start the stream's consumer if it does not run; wait until ``main`` shows that it took over.

    Red at once where somebody holds the stream. Red with the last lines of its stderr when it dies meanwhile,
    and when ``deadline`` seconds pass. A second start is never made: two runs at once find one process.
    """

    does = "starts the consumer unless it runs, and waits until it owns the stream"
    fails_if = "it dies, is held, or does not own it in 3 minutes"

    poll_seconds = 1.0

    def __init__(self, *, deadline: float = DEADLINE_SECONDS, **kwargs: Any) -> None:
        super().__init__(component="consumer", **kwargs)
        self.deadline = deadline

    def work(self, context: Context) -> dict[str, Any]:
        runtime = self.platform_hook.runtime
        until = time.monotonic() + self.deadline
        self.check_not_suspended()
        before = self._ownership()
        process = runtime.status(self.program)
        self.log.info("%s; main's epoch is %d", process.message(), before.epoch)
        started = expected = False
        began = time.time()
        while True:
            if process.state in ENDED and not expected:
                started = self.start(context, process)
            elif has_failed(expected, began, process):
                raise failed_attempt(
                    ErrorCode.COMPONENT_DOWN, self._obituary(process, "ended before it owned the stream")
                )
            expected = True
            seen = self._ownership()
            if is_owned(process, seen, before, time.time(), self.deadline):
                break
            if time.monotonic() > until:
                raise failed_attempt(
                    ErrorCode.LEASE_NOT_ACQUIRED,
                    self._obituary(
                        process, f"does not own the stream after {self.deadline:g} s (epoch {seen.epoch})"
                    ),
                )
            time.sleep(self.poll_seconds)
            process = runtime.status(self.program)
        self.log.info("%s owns the stream with epoch %d", process.message(), seen.epoch)
        return {
            "program": self.program,
            "state": process.state.value,
            "pid": process.pid,
            "epoch": seen.epoch,
            "started": started,
        }

    def _ownership(self) -> Ownership:
        # Before the consumer's first start there is no table; the deadline bounds the wait for it.
        position = self.platform_hook.lake.position(self.spec.table)
        return Ownership(position.epoch, position.acquired_at) if position else Ownership()

    def _obituary(self, process: ProcessStatus, what: str) -> str:
        words = log_excerpt(self.platform_hook.runtime, self.program, self.log)
        return f"{process.message()}: {what}; {words}"


class EnsureComponentOperator(StartingOperator):
    """Start the part if it does not run. Whether it does its work, a later step waits to see.

    Red at once where somebody holds it. A second start is never made: two runs at once find one process.
    """

    does = "starts the component unless it runs"
    fails_if = "it is held"

    def work(self, context: Context) -> dict[str, Any]:
        return {"program": self.program, "started": self.ensure_runs(context)}
