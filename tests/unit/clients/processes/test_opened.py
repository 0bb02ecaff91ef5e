"""Which runtime a platform file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.clients.processes.kubernetes import KubernetesRuntime
from sluice.clients.processes.opened import open_runtime
from sluice.clients.processes.spark_operator import SparkOperatorRuntime
from sluice.clients.processes.supervisord import SupervisorRuntime
from sluice.config.platform import Platform, parse
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.config.platform_sections.supervisor import Supervisor
from sluice.config.reading.toml import ConfigError
from tests.support import kubeconfig
from tests.support.raising import raising

FILE = """
role = "airflow"
[kafka]
bootstrap_servers = "127.0.0.1:9092"
[s3]
access_key = "a"
secret_key = "b"
[lake]
warehouse = "s3://w/lake"
ledger = "s3://w/ledger"
[lake.catalog]
type = "sql"
uri = "postgresql://127.0.0.1:5432/d"
username = "u"
password = "p"
[source]
bucket = "s"
[checkpoints]
root = "s3a://w/checkpoints"
"""
SUPERVISOR = """
[supervisor]
url = "http://127.0.0.1:1"
username = "u"
password = "p"
"""
KUBERNETES = """
[kubernetes]
namespace = "sluice"
image = "x"
"""


def _platform(*sections: str) -> Platform:
    return parse("\n".join([FILE, *sections]), "airflow.toml")


def test_one_section_names_the_runtime(tmp_path: Path) -> None:
    assert isinstance(open_runtime(_platform(SUPERVISOR)), SupervisorRuntime)
    configured = f'{KUBERNETES}kubeconfig = "{kubeconfig.write(tmp_path)}"\n'
    assert type(open_runtime(_platform(configured))) is KubernetesRuntime
    assert isinstance(open_runtime(_platform(f'{configured}mode = "operator"\n')), SparkOperatorRuntime)


def test_two_runtimes_or_none_are_an_error() -> None:
    with raising(ConfigError, "'airflow'", "[kubernetes] and [supervisor]", "keep one"):
        open_runtime(_platform(SUPERVISOR, KUBERNETES))
    with raising(ConfigError, "'airflow'", "neither [supervisor] nor [kubernetes]"):
        open_runtime(_platform())


def test_what_the_sections_say() -> None:
    assert _platform(SUPERVISOR).supervisor == Supervisor("http://127.0.0.1:1", "u", "p")
    assert _platform(KUBERNETES).kubernetes == Kubernetes("sluice", "x", "native", "", "")
    with raising(ConfigError, "airflow.toml", "'yarn'", "native or operator"):
        _platform(f'{KUBERNETES}mode = "yarn"\n')
    with raising(ConfigError, "airflow.toml", "image"):
        _platform('[kubernetes]\nnamespace = "sluice"\n')


def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "missing"
    with raising(ConfigError, "[kubernetes]", path):
        open_runtime(_platform(f'{KUBERNETES}kubeconfig = "{path}"\n'))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with raising(ConfigError, "[kubernetes]", "service account of this pod", "set kubeconfig"):
        open_runtime(_platform(KUBERNETES))
