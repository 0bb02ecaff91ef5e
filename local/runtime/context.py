"""The values of a stack that every service needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from local.base import REPO
from local.runtime.home import StackDir
from local.runtime.ports import HOST, Network
from local.runtime.processes import LABEL
from local.setup.cache import pyspark
from sluice.config import folders, overrides
from sluice.core.processes.environment import machine_environment

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Context:
    """One stack: its directory, network, secrets and artifacts.

    `external`: folder with the platform files of an external Kafka and S3. `feed`: the feeds that its
    producers read (local.services.replay). `overrides`: a file with other values for the streams.
    `notifications`: the user's file of them. `streams`: additional folders with streams. `java_options`: for
    every JVM of the stack. `installed`: a folder with the installed package, whose code runs instead of this
    checkout's. `airflow_settings`: additional ones, as `SECTION__KEY`. `spark_master`: where
    Airflow submits Spark jobs to. `is_embedded`: False if its services run in containers.
    """

    home: StackDir
    network: Network
    secrets: Mapping[str, str]
    python_env: Path
    spark_jars: Path
    spark_classes: Path
    kafka_jars: Path
    minio: Path
    java_home: Path
    external: str | None = None
    dags: str = str(REPO / "dags")
    installed: str | None = None
    feed: str = "public"
    overrides: str | None = None
    notifications: str | None = None
    streams: str = ""
    java_options: str = ""
    airflow_settings: Mapping[str, str] = field(default_factory=dict)
    spark_master: str = "local[2]"
    is_embedded: bool = True

    @property
    def ports(self) -> Mapping[str, int]:
        return self.network.ports

    @property
    def python(self) -> Path:
        return self.python_env / "bin" / "python"

    @property
    def java(self) -> Path:
        return self.java_home / "bin" / "java"

    @property
    def directory(self) -> Path:
        """Where programs of the package start: Python looks there first."""
        return Path(self.installed) if self.installed else REPO

    @property
    def search_path(self) -> dict[str, str]:
        """The variable by which Python finds the package."""
        return {"PYTHONPATH": self.installed or f"{REPO / 'plugins'}:{REPO}"}

    def environment(self) -> dict[str, str]:
        """The environment of all programs, with the label by which they are found."""
        return {
            # Others of the user's variables (credentials, PYTHON*, AIRFLOW*, AWS*, SPARK*) would make the
            # programs behave differently on every machine.
            **machine_environment(os.environ),
            "PATH": f"{self.python_env}/bin:{self.java_home}/bin:{_PATH}",
            "NO_PROXY": self._without_proxy(),
            "no_proxy": self._without_proxy(),
            "TMPDIR": str(self.home.tmp),
            LABEL: self.home.id,
            # Airflow renames its processes, which would overwrite the label in /proc.
            "SPT_NOENV": "1",
        }

    def _without_proxy(self) -> str:
        return ",".join(
            dict.fromkeys([HOST, "localhost", *self.network.hosts.values(), *self.network.brokers])
        )

    def job_environment(self) -> dict[str, str]:
        """The environment of Airflow and the streams: code, Spark's configuration, platform files and
        connections."""
        return {
            **self.environment(),
            **({overrides.VARIABLE: self.overrides} if self.overrides else {}),
            **({folders.VARIABLE: self.streams} if self.streams else {}),
            "SLUICE_PLATFORM_DIR": str(self.home.platform),
            "SLUICE_CONNECTIONS_DIR": str(self.home.connections),
            **self.search_path,
            "PYTHONUNBUFFERED": "1",
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "SPARK_CONF_DIR": str(self.home.conf / "spark"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # Otherwise Spark's shell script starts a Python to find it.
            "SPARK_HOME": str(pyspark(self.python_env)),
            # For the short-lived JVM that puts the real one's command together.
            "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "JAVA_HOME": str(self.java_home),
        }


def with_parent(*command: str | os.PathLike[str], signal: str = "TERM") -> list[str]:
    """The command, ended by the kernel when its parent dies: a kill -9 of supervisord, or of a component's
    parent process, leaves no process behind."""
    return ["setpriv", "--pdeathsig", signal, "--", *(os.fspath(part) for part in command)]
