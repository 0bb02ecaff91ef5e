"""The frame of a load's step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from sluice.hooks.failures import final_failures
from sluice.hooks.stream import StreamMixin

if TYPE_CHECKING:
    from airflow.sdk import Context


class StreamOperator(StreamMixin, BaseOperator):
    """One step of a load of ``stream``, done by :meth:`work` with the clients of ``role``."""

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
