"""Airflow connections: find one, and export a database's to a process outside Airflow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from sluice.airflow.failures import failed
from sluice.airflow.masks import masked
from sluice.config import connection as databases
from sluice.config.connection import DIRECTORY_VARIABLE, Database
from sluice.config.reading.files import is_private, write_private
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode

if TYPE_CHECKING:
    from sluice.config.platform_sections.kubernetes import Kubernetes


def get(name: str) -> Any:
    """The connection. Raises AirflowFailException if there is none."""
    try:
        return BaseHook.get_connection(name)
    except AirflowNotFoundException as error:
        raise failed(
            ErrorCode.CONNECTION_NOT_FOUND,
            f"connection {name!r} not found. Fix: add it in Airflow under Admin, or set "
            f"AIRFLOW_CONN_{name.upper()}",
        ) from error


def database(name: str) -> Database:
    """The connection as a sink's database. Raises ConfigError if no sink can write to such a one."""
    return masked(databases.from_connection(get(name), name))


def export(connection: str, database: Database, cluster: Kubernetes | None) -> bool:
    """Write it for the streams' processes; whether it changed. They read it when they start.

    ``cluster``: where they run as pods, which do not see this one's files: it becomes a key of a Secret, and
    Kubernetes shows a change of it in their mounted files within about a minute.
    Raises ConfigError, Refused, Unreachable.
    """
    if cluster is None:
        return write_connection_file(connection, database)
    from sluice.clients.kubernetes.connections_secret import ConnectionsSecret

    return ConnectionsSecret(cluster).put(connection, database.dump())


def is_exported(connection: str, database: Database) -> bool:
    """Whether its file is as :func:`export` writes it. Raises ConfigError as that does."""
    return is_private(_connection_file(connection), database.dump())


def write_connection_file(connection: str, database: Database) -> bool:
    """Write it to where ``database.load`` reads it, atomically and readable for its user alone.

    Returns whether it changed. Raises ConfigError if the folder is not configured or does not exist.
    """
    return write_private(_connection_file(connection), database.dump())


def _connection_file(connection: str) -> Path:
    folder = os.environ.get(DIRECTORY_VARIABLE)
    if not folder or not Path(folder).is_dir():
        raise ConfigError(
            f"{DIRECTORY_VARIABLE} is {folder!r}, which is no folder. Fix: set it to one that Airflow's user "
            "and the streams' processes share, with mode 700"
        )
    return Path(folder) / f"{connection}.toml"
