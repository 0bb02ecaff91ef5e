"""Texts of Airflow's secrets backends, for references of platform files: in Airflow's own processes only.

Airflow's own API is asked, so that a text is where Airflow is configured to find it: its database, its
environment, Vault, AWS Secrets Manager (``[secrets] backend``).
"""

from __future__ import annotations

from typing import Any

from sluice.config.reading.references import VARIABLE


def read(kind: str, name: str, part: str) -> str | None:
    """A variable, or a ``part`` of a connection; None if there is none, or it has none, or a backend failed,
    which Airflow logs and does not say. Raises PermissionError if Airflow refuses it to this process."""
    from airflow.sdk import BaseHook, Variable
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        if kind == VARIABLE:
            found: Any = Variable.get(name, default=None)
        else:
            found = getattr(BaseHook.get_connection(name), part)
    except AirflowNotFoundException:
        return None
    return None if found is None else str(found)
