"""Bases of the tasks over a stream and over one of its components."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator

from sluice.hooks.failures import failed, final_failures, log_excerpt
from sluice.hooks.lifecycle import Lifecycle
from sluice.hooks.platform import StreamMixin
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.ledger import history_name
from sluice.triggers.wait import GRACE_INTERVALS

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.ledger import History
    from sluice.triggers.base import StreamTrigger

# A trigger ends itself at its deadline, with a reason; Airflow's timeout is for a triggerer that is gone.
BACKSTOP = timedelta(minutes=5)


class StreamOperator(StreamMixin, BaseOperator):
    """One step over ``stream``, done by :meth:`work`."""

    template_fields: Sequence[str] = ("stream",)

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream

    def execute(self, context: Context) -> Any:
        with final_failures():
            return self.work(context)

    def work(self, context: Context) -> Any:
        """The step. Its result is the task's return value: small, and without secrets."""
        raise NotImplementedError(f"{type(self).__name__} has no work()")

    def check_no_problems(
        self, code: ErrorCode, problems: Sequence[str], failure: str, fix: str = ""
    ) -> None:
        """Log each problem. Raises AirflowFailException with all of them, if any."""
        for problem in problems:
            self.log.error("%s", problem)
        if problems:
            raise failed(code, f"{failure}: {'; '.join(problems)}{fix}")


class ComponentOperator(StreamOperator):
    """One step over ``component`` of the stream. Raises ConfigError if the stream has no such component."""

    def __init__(self, *, component: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.component = component

    @property
    def program(self) -> str:
        return self.spec.component(self.component).program

    @cached_property
    def history(self) -> History:
        return self.platform_hook.history(history_name(self.stream, self.spec.component(self.component).name))

    @property
    def lifecycle(self) -> Lifecycle:
        return Lifecycle(self.spec, self.platform_hook.runtime, self.history, self.component)

    @property
    def grace(self) -> float:
        """Seconds that the component may be down: supervision needs as long to restart it."""
        return self.spec.supervision.interval_seconds * GRACE_INTERVALS

    def log_excerpt(self) -> str:
        return log_excerpt(self.platform_hook.runtime, self.program, self.log)

    def check_not_suspended(self) -> None:
        """Raises AirflowFailException: a retry would find it suspended too."""
        suspended = self.history.suspended()
        if suspended is not None:
            raise failed(
                ErrorCode.SUSPENDED,
                f"the {self.component} of {self.stream} is suspended by {suspended.get('who')} since "
                f"{suspended['at']}: {suspended.get('reason') or 'no reason given'}. Fix: trigger "
                f"{self.stream}_stream with action start",
            )

    def wait_for(self, trigger: StreamTrigger, seconds: float, method: str, **kwargs: Any) -> NoReturn:
        """Defer until the trigger fires; it ends itself after ``seconds``."""
        timeout = timedelta(seconds=seconds) + BACKSTOP
        self.defer(trigger=trigger, method_name=method, kwargs=kwargs, timeout=timeout)
