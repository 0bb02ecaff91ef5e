"""The frames of a step over a stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from sluice.hooks.failures import final_failures
from sluice.hooks.stream import StreamMixin
from sluice.model.spec.ledger import history_name

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.history import History


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


class PartOperator(StreamOperator):
    """One step over ``part`` of the stream."""

    def __init__(self, *, part: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.part = part

    @cached_property
    def program(self) -> str:
        """supervisord's. Raises ConfigError for a part that the stream does not have."""
        return self.spec.part(self.part).program

    @cached_property
    def history(self) -> History:
        """The part's own."""
        return self.platform_hook.history(history_name(self.stream, self.spec.part(self.part).name))
