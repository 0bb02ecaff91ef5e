"""Airflow's Variables in memory."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse


class Variables:
    """``is_down``: Airflow's API answers with errors, which the SDK tells from a missing Variable in ``keys``
    only."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.is_down = False

    def keys(self, prefix: str) -> Sequence[str]:
        if self.is_down:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
        return [key for key in self.values if key.startswith(prefix)]

    def get(self, key: str, default: str | None = None) -> str:
        if key in self.values and not self.is_down:
            return self.values[key]
        if default is None:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND))
        return default

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def delete(self, key: str) -> None:
        self.values.pop(key, None)
