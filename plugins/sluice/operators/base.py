"""Frames: a task over a stream, over a component.

The frames of a step over a stream.

The frame of a load's steps that see to it that a part of the stream runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from sluice.hooks.failures import failed, final_failures
from sluice.hooks.platform import StreamMixin
from sluice.model.error_codes import ErrorCode
from sluice.model.health.sample import ENDED
from sluice.model.spec.ledger import history_name

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.ledger import History
    from sluice.model.health.sample import ProcessStatus


class StreamOperator(StreamMixin, BaseOperator):
    """One step over ``stream``, done by :meth:`work` with the clients of ``role``."""

    template_fields: Sequence[str] = ("stream",)

    def __init__(self, *, stream: str, role: str = "airflow", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.role = role

    def execute(self, context: Context) -> Any:
        with final_failures():
            return self.work(context)

    def work(self, context: Context) -> Any:
        """The step itself. What it returns is the task's return value: small, and without secrets."""
        raise NotImplementedError(f"{type(self).__name__} has no work()")


class ComponentOperator(StreamOperator):
    """One step over ``component`` of the stream."""

    def __init__(self, *, component: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.component = component

    @cached_property
    def program(self) -> str:
        """supervisord's. Raises ConfigError for a part that the stream does not have."""
        return self.spec.component(self.component).program

    @cached_property
    def history(self) -> History:
        """The part's own."""
        return self.platform_hook.history(history_name(self.stream, self.spec.component(self.component).name))


class StartingOperator(ComponentOperator):
    """A step about ``component`` of the stream. Its start is an event of the part's history."""

    def check_not_suspended(self) -> None:
        """Raises AirflowFailException where somebody holds it: another try would find the same."""
        suspended = self.history.suspended()
        if suspended is not None:
            raise failed(
                ErrorCode.SUSPENDED,
                f"the {self.component} of {self.stream} is suspended by {suspended.get('who')} since "
                f"{suspended['at']}: "
                f"{suspended.get('reason') or 'no reason given'}; resume it: trigger "
                f"{self.stream}_stream with "
                "action start",
            )

    def ensure_runs(self, context: Context) -> bool:
        """Start the component unless it runs; whether this run started it. Raises as
        :meth:`check_not_suspended`."""
        self.check_not_suspended()
        process = self.platform_hook.runtime.status(self.program)
        self.log.info("%s", process.message())
        return process.state in ENDED and self.start(context, process)

    def start(self, context: Context, process: ProcessStatus) -> bool:
        """Start what is as ``process`` says; False where another run was faster."""
        if not self.platform_hook.runtime.start(self.program):
            self.log.info("%s was started by another run", self.program)
            return False
        self.log.info("started %s", self.program)
        who = f"load {context['run_id']}"
        document = {"who": who, "reason": process.message(), "run": context["run_id"], "requested": True}
        self.history.record("start", document, datetime.now(UTC))
        return True
