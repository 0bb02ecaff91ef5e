"""What every service needs to know of the stack it is part of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from local.base import REPO
from local.runtime.home import StackDir
from local.runtime.processes import LABEL
from sluice.model.spec import overrides, stream

# What programs of the stack get from the person's environment: the rest (credentials, PYTHON*, AIRFLOW*,
# AWS*, SPARK*) would make it behave differently on every machine.
_INHERITED = (
    *("HOME", "USER", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *("AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"),
)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Context:
    """One stack: its home, its ports and secrets, and the artifacts it is built of.

    `feed`: whose feeds its producers read, as local.services.replay says. `overrides`: a file with other
    values for the streams, as sluice.model.spec.stream reads it. `streams`: further folders with streams.
    `java_options`: for every JVM of the stack. `airflow_settings`: other ones of Airflow's, as in
    `SECTION__KEY`.
    """

    home: StackDir
    ports: Mapping[str, int]
    secrets: Mapping[str, str]
    python_env: Path
    spark_jars: Path
    kafka_jars: Path
    minio: Path
    java_home: Path
    external: Path | None
    dags: Path = REPO / "dags"
    feed: str = "public"
    overrides: Path | None = None
    streams: str = ""
    java_options: str = ""
    airflow_settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        return self.python_env / "bin" / "python"

    @property
    def java(self) -> Path:
        return self.java_home / "bin" / "java"

    def environment(self) -> dict[str, str]:
        """The environment that all programs have in common, with the mark by which they are found."""
        return {
            **{name: os.environ[name] for name in _INHERITED if name in os.environ},
            "PATH": f"{self.python_env}/bin:{self.java_home}/bin:{_PATH}",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "TMPDIR": str(self.home.tmp),
            LABEL: self.home.id,
            # Airflow renames its processes, which would overwrite the mark in what others see of them.
            "SPT_NOENV": "1",
        }

    def job_environment(self) -> dict[str, str]:
        """What Airflow and the streams have besides: the code, Spark's configuration, the platform files,
        the connections that it hands to streams."""
        overriding = {overrides.VARIABLE: str(self.overrides)} if self.overrides else {}
        if self.streams:
            overriding[stream.VARIABLE] = self.streams
        return {
            **self.environment(),
            **overriding,
            "SLUICE_PLATFORM_DIR": str(self.home.platform),
            "SLUICE_CONNECTIONS_DIR": str(self.home.connections),
            "PYTHONPATH": f"{REPO / 'plugins'}:{REPO}",
            "PYTHONUNBUFFERED": "1",
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "SPARK_CONF_DIR": str(self.home.conf / "spark"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_HOME": str(self.java_home),
        }


def with_parent(*command: str | os.PathLike[str], signal: str = "TERM") -> list[str]:
    """The command, ended by the kernel when the process that started it dies: a kill -9 of supervisord, or of
    a component's parent process, leaves nothing behind."""
    return ["setpriv", "--pdeathsig", signal, "--", *(os.fspath(part) for part in command)]
