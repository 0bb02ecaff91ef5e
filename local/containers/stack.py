"""The stack as the command line in a container sees it (`docker compose run --rm tools <command>`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from local.base import UnhealthyService, UsageError, one_line
from local.containers import layout, profiles
from local.progress import ProgressDisplay
from local.runtime.context import Context
from local.runtime.secrets import complete_secrets
from local.setup.bootstrap import java_home
from local.stack import health
from local.stack.base import BaseStack

# The secret that docker-compose.yaml makes of the variable SLUICE_SECRETS in `.env`.
SECRETS = Path("/run/secrets/sluice")
# Set in every container that has it.
PROFILES_VARIABLE = "SLUICE_PROFILES"
# The file that the variable SLUICE_NOTIFICATIONS in `.env` names; empty without one.
NOTIFICATIONS = Path("/run/secrets/notifications")
URL_VARIABLE = "SLUICE_URL"


class ContainerStack(BaseStack):
    """The systems in the other containers. Its own directory is not kept."""

    home = layout.HOME

    def __init__(self, secrets: Path = SECRETS, environ: Mapping[str, str] = os.environ) -> None:
        self._file = secrets
        self._environ = environ

    @cached_property
    def secrets(self) -> dict[str, str]:
        """Raises UsageError if there are none, or not all."""
        try:
            given = {str(name): str(value) for name, value in json.loads(self._file.read_text()).items()}
        except (OSError, ValueError, AttributeError) as error:
            raise UsageError(
                f"{self._file} cannot be read as JSON ({error}). Fix: make compose-env, which writes "
                "SLUICE_SECRETS into .env"
            ) from error
        missing = sorted(complete_secrets(given).keys() - given.keys())
        if missing:
            raise UsageError(
                f"SLUICE_SECRETS in .env has no {', '.join(missing)}. Fix: make compose-env, which adds them"
            )
        return given

    @property
    def profiles(self) -> frozenset[str]:
        return profiles.parse(self._environ.get(PROFILES_VARIABLE, ""))

    @cached_property
    def context(self) -> Context:
        url = self._environ.get(URL_VARIABLE, "http://127.0.0.1:8080")
        told = str(NOTIFICATIONS) if NOTIFICATIONS.exists() and NOTIFICATIONS.stat().st_size else None
        return layout.context(self.secrets, self.profiles, url, java_home(), self.home, told)

    def up(self, board: ProgressDisplay | None = None) -> None:
        """Write the platform files; compose starts the services, and these before this command."""
        self.home.prepare()
        self.write_platform_files()

    def is_running(self) -> bool:
        """Raises UnhealthyService if PostgreSQL does not answer."""
        self.up()
        try:
            health.probe("postgres", self.context)
        except health.UNREACHABLE as error:
            raise UnhealthyService(
                f"postgres does not answer ({one_line(error)}). Fix: docker compose up --wait"
            ) from error
        return True

    def services(self, name: str) -> list[str]:
        """A system's services in docker-compose.yaml, with these profiles."""
        if name == "kafka":
            return list(self.context.network.nodes)
        return ["minio-erasure" if name == "minio" and "erasure" in self.profiles else name]

    def advice(self, services: Sequence[str]) -> str:
        """What tells why services do not answer."""
        return f"docker compose ps, docker compose logs {' '.join(services)}"

    def next_steps(self, figures: Path, query: str) -> str:
        return f"Rows: docker compose run --rm tools sql '{query}'"
