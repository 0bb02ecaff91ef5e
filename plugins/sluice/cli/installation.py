"""The installation that a command works on: its systems with a role's rights, and Airflow."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sluice.cli.base import UsageError
from sluice.systems import Systems

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from sluice.cli.airflow_api import Airflow

URL_VARIABLE, USER_VARIABLE, PASSWORD_VARIABLE = (
    "SLUICE_AIRFLOW_URL",
    "SLUICE_AIRFLOW_USER",
    "SLUICE_AIRFLOW_PASSWORD",
)


class Installation(Protocol):
    """What the package's commands need of it."""

    def is_running(self) -> bool: ...

    def systems(self, role: str) -> Systems: ...

    def source_s3(self) -> S3Client: ...

    def airflow(self) -> Airflow: ...


class ConfiguredInstallation:
    """An installation by its platform files (SLUICE_PLATFORM_DIR) and Airflow's address."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

    def is_running(self) -> bool:
        """No process is this command's: a system that is down says so itself."""
        return True

    def systems(self, role: str) -> Systems:
        """The clients with a role's rights."""
        return Systems(role, environ=self._environ)

    def source_s3(self) -> S3Client:
        """boto3's client as role airflow; whether that may write the source bucket is the installation's."""
        return self.systems("airflow").s3

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

    `program`: how a person calls it. `installation`: opens it. `streams`: the usual folder of new streams, if
    there is one. `elsewhere`: commands that are not for here → what to do instead. `add_streams`: gives
    streams that are new in that folder their rights and processes; None if a person does. `allow_reading`:
    gives the roles the least rights on a topic of others; False, or None: a person does.
    """

    program: str = "sluice"
    installation: Callable[[], Installation] = ConfiguredInstallation
    streams: Path | None = None
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    add_streams: Callable[[], None] | None = None
    allow_reading: Callable[[str], bool] | None = None


def check_running(installation: Installation) -> None:
    """Raises UsageError if the stack is down."""
    if not installation.is_running():
        raise UsageError("the stack does not run. Fix: make up")
