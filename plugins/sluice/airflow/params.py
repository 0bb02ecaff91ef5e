"""Fields of forms: Airflow's, which check what they have checked already once only."""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk.definitions import param as airflows
from airflow.sdk.definitions._internal.types import NOTSET
from airflow.sdk.exceptions import ParamValidationError

# Values and schemas, as JSON, that fit: those of 300 streams take 5 MB.
MAX_KNOWN = 10_000
_known: set[str] = set()


class Param(airflows.Param):
    """Airflow checks each field of each DAG, and its schema by the schema of schemas, four times whenever it
    reads a file of DAGs, which took most of that time. A value that was found to fit is not checked again.
    """

    def resolve(self, value: Any = NOTSET, suppress_exception: bool = False) -> Any:
        """As Airflow's."""
        if value is not NOTSET:
            self._check_json(value)
        found = self.value if value is NOTSET else value
        if found is NOTSET:
            return super().resolve(value, suppress_exception)
        key = json.dumps([found, self.schema], sort_keys=True)
        if key not in _known:
            try:
                super().resolve(value)
            except ParamValidationError:
                if suppress_exception:
                    return None
                raise
            if len(_known) >= MAX_KNOWN:
                _known.clear()
            _known.add(key)
        self.value = found
        return found


# Airflow writes no other class than its own into its database.
Param.__module__ = airflows.__name__
