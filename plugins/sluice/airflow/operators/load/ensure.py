"""Steps of a load: the consumer, or another component, runs."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sluice.airflow.failures import failed_attempt, final_failures
from sluice.airflow.operators.base import BACKSTOP, ComponentOperator
from sluice.airflow.triggers.lease import LEASE_SECONDS, LeaseTrigger, holds_lease
from sluice.airflow.triggers.wait import Outcome
from sluice.core.error_codes import ErrorCode
from sluice.core.processes.status import ENDED

if TYPE_CHECKING:
    from airflow.sdk import Context

POLL_SECONDS = 1.0


class EnsureConsumerOperator(ComponentOperator):
    """Start the stream's consumer unless it runs; wait until ``main`` shows that it holds the writer lease.

    If it holds the lease, which it usually does, the step ends at once; else it waits without a worker. Fails
    at once if it is suspended; with the end of its log if it ends meanwhile, and after 3 minutes. It is
    started at most once: two runs at once find one process.
    """

    does = "starts the consumer unless it runs, and waits until it holds the writer lease"
    fails_if = "it ends, is suspended, or does not hold the lease within 3 minutes"

    waits = (timedelta(seconds=LEASE_SECONDS) + BACKSTOP,)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(component="consumer", **kwargs)

    def work(self, context: Context) -> dict[str, Any]:
        self.check_not_suspended()
        position = self.platform_hook.lake.position(self.spec.table)
        before, began = position.epoch if position else 0, time.time()
        process = self.platform_hook.runtime.status(self.program)
        self.log.info("%s; main's epoch is %d", process.message(), before)
        started = False
        if process.state in ENDED:
            started = self.ensure(context["run_id"], process)
        elif position and holds_lease(process, position, before, began):
            return self._result(process.state.value, process.pid, position.epoch, started)
        return self.wait_for(
            LeaseTrigger,
            LEASE_SECONDS,
            "resume",
            {"started": started},
            poll_interval=POLL_SECONDS,
            before=before,
            began=began,
        )

    def resume(self, context: Context, event: dict[str, Any], started: bool) -> dict[str, Any]:
        """Return what holds the lease, or fail."""
        outcome, reason = Outcome(event["outcome"]), event["reason"]
        if outcome is Outcome.REACHED:
            self.log.info("%s: epoch=%d", reason, event["epoch"])
            return self._result(event["state"], event["pid"], event["epoch"], started)
        code = ErrorCode.COMPONENT_DOWN
        if outcome is Outcome.TIMED_OUT:
            code, reason = ErrorCode.LEASE_NOT_ACQUIRED, f"{reason} after {LEASE_SECONDS} s"
        with final_failures():
            if outcome is Outcome.PERMANENT:
                self.check_configured()
            raise failed_attempt(code, f"{reason}; {self.log_excerpt()}")

    def _result(self, state: str, pid: int | None, epoch: int, started: bool) -> dict[str, Any]:
        self.tables.note(self.spec.table)
        return {"program": self.program, "state": state, "pid": pid, "epoch": epoch, "started": started}


class EnsureComponentOperator(ComponentOperator):
    """Start the component unless it runs. Fails at once if it is suspended."""

    does = "starts the component unless it runs"
    fails_if = "it is suspended"

    # The process that it starts checks the tables.
    checked = None

    def work(self, context: Context) -> dict[str, Any]:
        self.check_not_suspended()
        process = self.platform_hook.runtime.status(self.program)
        self.log.info("%s", process.message())
        return {
            "program": self.program,
            "started": self.ensure(context["run_id"], process),
        }
