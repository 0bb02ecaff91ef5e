"""Steps of a load: the consumer, or another component, runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sluice.hooks.failures import failed_attempt
from sluice.model.error_codes import ErrorCode
from sluice.model.health.sample import ENDED, Position, ProcessState, ProcessStatus
from sluice.operators.base import ComponentOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

DEADLINE_SECONDS = 180
# Two clocks: the runtime's says when the process started, the driver's when the snapshot was made.
CLOCK_SLACK_SECONDS = 2.0
# One exit may be an accident; a second has a cause, which the log names.
MAX_RESTARTS = 1


def holds_lease(process: ProcessStatus, position: Position, before: int, now: float, deadline: float) -> bool:
    """Whether the running process is the active writer; ``before``: the epoch when the wait began.

    It is if the lease was acquired during the wait, or after the process's start; for a process older than
    ``deadline``, whose epoch-start snapshot may have expired, if there is any epoch. RUNNING alone is not
    enough: it acquires the lease some ten seconds after its start.
    """
    if process.state is not ProcessState.RUNNING:
        return False
    if position.epoch > before or process.since is None:
        return position.epoch > before
    acquired = position.acquired_at
    is_since_start = acquired is not None and acquired >= process.since - CLOCK_SLACK_SECONDS
    return is_since_start or now - process.since > deadline


def has_failed(expected: bool, began: float, process: ProcessStatus) -> bool:
    """Whether the process ended for good though it is ``expected`` to run, or the runtime has restarted it
    more than MAX_RESTARTS times since ``began`` (seconds since 1970)."""
    return (expected and process.state in ENDED) or len(process.restarts_since(began)) > MAX_RESTARTS


class EnsureConsumerOperator(ComponentOperator):
    """Start the stream's consumer unless it runs; wait until ``main`` shows that it holds the writer lease.

    Fails at once if it is suspended; with the end of its log if it ends meanwhile, and after ``deadline``
    seconds. It is started at most once: two runs at once find one process.
    """

    does = "starts the consumer unless it runs, and waits until it holds the writer lease"
    fails_if = "it ends, is suspended, or does not hold the lease within 3 minutes"

    poll_seconds = 1.0

    def __init__(self, *, deadline: float = DEADLINE_SECONDS, **kwargs: Any) -> None:
        super().__init__(component="consumer", **kwargs)
        self.deadline = deadline

    def work(self, context: Context) -> dict[str, Any]:
        runtime = self.platform_hook.runtime
        until = time.monotonic() + self.deadline
        self.check_not_suspended()
        position = self._position()
        before = position.epoch if position else 0
        process = runtime.status(self.program)
        self.log.info("%s; main's epoch is %d", process.message(), before)
        started = expected = False
        began = time.time()
        while True:
            if process.state in ENDED and not expected:
                started = self.lifecycle.ensure(context["run_id"], process)
            elif has_failed(expected, began, process):
                raise failed_attempt(
                    ErrorCode.COMPONENT_DOWN, self._failure(process, "ended before it acquired the lease")
                )
            expected = True
            position = self._position()
            if position and holds_lease(process, position, before, time.time(), self.deadline):
                break
            if time.monotonic() > until:
                epoch = position.epoch if position else 0
                message = f"no writer lease after {self.deadline:g} s (epoch {epoch})"
                raise failed_attempt(ErrorCode.LEASE_NOT_ACQUIRED, self._failure(process, message))
            time.sleep(self.poll_seconds)
            process = runtime.status(self.program)
        self.log.info("%s holds the writer lease: epoch=%d", process.message(), position.epoch)
        return {
            "program": self.program,
            "state": process.state.value,
            "pid": process.pid,
            "epoch": position.epoch,
            "started": started,
        }

    def _position(self) -> Position | None:
        # No table before the consumer's first start; the deadline bounds the wait for it.
        return self.platform_hook.lake.position(self.spec.table)

    def _failure(self, process: ProcessStatus, what: str) -> str:
        return f"{process.message()}: {what}; {self.log_excerpt()}"


class EnsureComponentOperator(ComponentOperator):
    """Start the component unless it runs. Fails at once if it is suspended."""

    does = "starts the component unless it runs"
    fails_if = "it is suspended"

    def work(self, context: Context) -> dict[str, Any]:
        self.check_not_suspended()
        process = self.platform_hook.runtime.status(self.program)
        self.log.info("%s", process.message())
        return {
            "program": self.program,
            "started": self.lifecycle.ensure(context["run_id"], process),
        }
