"""Supervision: what no restart mends is red."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk.exceptions import AirflowFailException

from sluice.hooks.observation import seen
from sluice.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class AlarmOperator(StreamOperator):
    """Fail with the one line that says what is wrong and what mends it."""

    def __init__(self, *, observed: str = "observe", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.observed = observed

    def work(self, context: Context) -> NoReturn:
        diagnosis = seen(context, self.observed).diagnosis
        raise AirflowFailException(f"{self.stream} is {diagnosis.verdict.value}: {diagnosis.sentence}")
