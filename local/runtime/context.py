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
    """One stack: its directory, network, secrets and artifacts."""

    home: StackDir
    """The stack directory; its id labels the stack's processes."""
    network: Network
    """Where its services listen and are reached."""
    secrets: Mapping[str, str]
    """Name (`kafka_consumer`, `postgres_admin`, …) -> password, key or id, made at the first start."""
    python_env: Path
    """The environment whose Python runs Airflow, the services and the streams."""
    spark_jars: Path
    """Folder of the jars that Spark loads besides PySpark's."""
    spark_classes: Path
    """Folder of the class archive with which Spark's JVMs start faster."""
    kafka_jars: Path
    """Folder of the broker's jars."""
    minio: Path
    """Folder with the binary `minio`."""
    java_home: Path
    """The JDK or JRE of Kafka and Spark."""
    registry: Path | None = None
    """Folder with the schema registry and its Java; None: the stack runs none."""
    rest_catalog: Path | None = None
    """Folder with the jars of Iceberg's REST catalog; None: the stack runs none."""
    external: str | None = None
    """Folder with the platform files of an external Kafka and S3; None: the stack has its own."""
    dags: str = str(REPO / "dags")
    """Airflow's DAGs folder."""
    installed: str | None = None
    """Folder of the installed package, whose code runs instead of this checkout's; None: the checkout's."""
    feed: str = "public"
    """The feeds that the producers read: `public` or `replay` (local.services.replay)."""
    overrides: str | None = None
    """File with other values for the streams; None: as they declare."""
    notifications: str | None = None
    """The user's notifications.toml; None: no person is told."""
    streams: str = ""
    """Additional folders with streams, as in SLUICE_STREAMS; empty: none."""
    airflow_history_days: str = ""
    """How long Airflow's database keeps what ended; empty: as long as usual."""
    java_options: str = ""
    """For every JVM of the stack."""
    airflow_settings: Mapping[str, str] = field(default_factory=dict)
    """Additional ones, as `SECTION__KEY`; they replace the stack's own."""
    spark_master: str = "local[2]"
    """Where Airflow submits Spark jobs to: `local[2]`, or a cluster's `spark://host:port`."""
    is_embedded: bool = True
    """False if its services run in containers."""

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
