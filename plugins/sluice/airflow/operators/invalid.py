"""The step that says what is wrong with a declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from sluice.airflow.failures import failed
from sluice.airflow.operators.base import StreamOperator
from sluice.core.error_codes import ErrorCode

if TYPE_CHECKING:
    from airflow.sdk import Context


class InvalidDeclarationOperator(StreamOperator):
    """Fail with the ``reason`` that was found when the DAG file was parsed."""

    does = "fails with what is wrong, and how to correct it"
    fails_if = "always: the DAG exists while something is wrong"

    # Its declaration, which names the tables, cannot be read.
    checked = None

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def work(self, context: Context) -> NoReturn:
        raise failed(ErrorCode.INVALID_CONFIGURATION, self.reason)
