"""The systems that a command works on: Kafka, S3 and the lake with a role's rights, and Airflow."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sluice.cli.base import UsageError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from sluice.cli.airflow_api import Airflow
    from sluice.clients.lake.catalog import Lake
    from sluice.config.platform import Platform

URL_VARIABLE, USER_VARIABLE, PASSWORD_VARIABLE = (
    "SLUICE_AIRFLOW_URL",
    "SLUICE_AIRFLOW_USER",
    "SLUICE_AIRFLOW_PASSWORD",
)


class Systems(Protocol):
    """What the package's commands need of an installation."""

    def is_running(self) -> bool: ...

    def platform(self, role: str) -> Platform: ...

    def lake(self, role: str) -> Lake: ...

    def source_s3(self) -> S3Client: ...

    def airflow(self) -> Airflow: ...


class ConfiguredSystems:
    """An installation by its platform files (SLUICE_PLATFORM_DIR) and Airflow's address."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

    def is_running(self) -> bool:
        """No process is this command's: a system that is down says so itself."""
        return True

    def platform(self, role: str) -> Platform:
        """The platform with a role's rights. Raises ConfigError."""
        from sluice.config import platform

        return platform.load(role, self._environ)

    def lake(self, role: str) -> Lake:
        """The lake's tables with a role's rights."""
        from sluice.clients.lake.catalog import Lake

        return Lake.open(self.platform(role))

    def source_s3(self) -> S3Client:
        """boto3's client as role airflow; whether that may write the source bucket is the installation's."""
        from sluice.clients.s3.requests import connect

        return connect(self.platform("airflow").s3)

    def airflow(self) -> Airflow:
        """Airflow's REST API. Raises UsageError without its address or login."""
        from sluice.cli.airflow_api import Airflow

        names = (URL_VARIABLE, USER_VARIABLE, PASSWORD_VARIABLE)
        missing = [name for name in names if not self._environ.get(name)]
        if missing:
            raise UsageError(
                f"{', '.join(missing)} is not set, so Airflow's REST API cannot be asked. "
                "Fix: set the address, and a user who may trigger the DAG"
            )
        url, user, password = (self._environ[name] for name in names)
        return Airflow(url.rstrip("/"), user, password)


@dataclass(frozen=True)
class Host:
    """What a command line runs on.

    `program`: how a person calls it. `systems`: opens them. `streams`: the usual folder of new streams, if
    there is one. `elsewhere`: commands that are not for here → what to do instead.
    """

    program: str = "sluice"
    systems: Callable[[], Systems] = ConfiguredSystems
    streams: Path | None = None
    elsewhere: Mapping[str, str] = field(default_factory=dict)


def check_running(systems: Systems) -> None:
    """Raises UsageError if the stack is down."""
    if not systems.is_running():
        raise UsageError("the stack does not run. Fix: make up")
