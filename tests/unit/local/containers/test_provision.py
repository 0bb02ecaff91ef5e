"""`configure` on folders instead of volumes: what it writes, and what it refuses to overwrite."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psycopg2
import pytest

from local.base import UnhealthyService, UsageError
from local.containers import layout, provision
from local.containers.stack import ContainerStack
from local.runtime.context import Context
from local.runtime.home import StackDir
from local.runtime.ports import DEFAULTS, Network
from local.runtime.secrets import complete_secrets
from local.stack import health
from tests.support.raising import raising

DEFAULT = "single-broker,single-drive"


class FakeArtifacts(ContainerStack):
    """With a context of paths that need not exist."""

    def __init__(self, context: Context, file: Path, profiles: str) -> None:
        super().__init__(file, {"SLUICE_PROFILES": profiles})
        brokers = layout.BROKERS if "cluster" in profiles else ()
        network = Network(DEFAULTS, bind=layout.ANY, hosts=layout.HOSTS, brokers=brokers)
        self._context = replace(context, network=network, secrets=self.secrets, home=layout.HOME)

    @property
    def context(self) -> Context:
        return self._context


def secrets_file(folder: Path, secrets: Mapping[str, str] | None = None) -> Path:
    file = folder / "secrets"
    file.write_text(json.dumps(secrets or complete_secrets({})))
    return file


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_it_writes_private_files_and_scripts_that_run(context: Context, tmp_path: Path) -> None:
    root = tmp_path / "volumes"
    assert provision.configure(FakeArtifacts(context, secrets_file(tmp_path), DEFAULT), root) == 0
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_file()}
    scripts = {path.name for path in root.glob("*/start/*")}
    assert scripts > {"kafka", "minio", "postgres", "airflow-scheduler", "streams"}
    assert {name for name, mode in modes.items() if mode == 0o700} == scripts
    assert {mode for name, mode in modes.items() if name not in scripts} == {0o600}
    for script in root.glob("*/start/*"):
        subprocess.run(["sh", "-n", script], check=True)
    assert "airflow-scheduler" not in {path.name for path in root.glob("airflow/start/*")}


def test_again_it_changes_nothing_and_says_what_must_be_started_again(
    context: Context, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, secrets = tmp_path / "volumes", complete_secrets({})
    file = secrets_file(tmp_path, secrets)
    provision.configure(FakeArtifacts(context, file, DEFAULT), root)
    before = contents(root)
    provision.configure(FakeArtifacts(context, file, DEFAULT), root)
    assert contents(root) == before
    assert capsys.readouterr().out == ""
    secrets_file(tmp_path, secrets | {"kafka_reader": "another"})
    provision.configure(FakeArtifacts(context, file, DEFAULT), root)
    [said] = capsys.readouterr().out.splitlines()
    assert said.endswith("the configuration of kafka changed. Fix: docker compose restart kafka")


def test_the_data_of_another_platform_are_left_alone(context: Context, tmp_path: Path) -> None:
    root = tmp_path / "volumes"
    provision.configure(FakeArtifacts(context, secrets_file(tmp_path), DEFAULT), root)
    before = contents(root)
    with raising(UsageError, "other secrets", "nothing was changed", "COMPOSE_PROJECT_NAME"):
        provision.configure(FakeArtifacts(context, secrets_file(tmp_path), DEFAULT), root)
    assert contents(root) == before


@pytest.mark.parametrize("profiles", ["cluster,single-drive", "single-broker,erasure"])
def test_data_keep_their_layout(profiles: str, context: Context, tmp_path: Path) -> None:
    root, file = tmp_path / "volumes", secrets_file(tmp_path)
    provision.configure(FakeArtifacts(context, file, DEFAULT), root)
    before = contents(root)
    with raising(UsageError, DEFAULT, ",".join(sorted(profiles.split(","))), "set them back"):
        provision.configure(FakeArtifacts(context, file, profiles), root)
    assert contents(root) == before
    # A Spark cluster may come and go.
    assert provision.configure(FakeArtifacts(context, file, f"{DEFAULT},spark"), root) == 0


@pytest.mark.parametrize(("text", "said"), [("{", "JSON"), ("[]", "JSON"), ('{"install": "a"}', "has no")])
def test_wrong_secrets_are_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text(text)
    with raising(UsageError, said, "make compose-env"):
        _ = ContainerStack(tmp_path / "secrets", {}).secrets


def test_a_platform_that_is_down_is_said_in_one_line(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> str:
        raise psycopg2.OperationalError("connection refused\n  by postgres")

    monkeypatch.setattr(health, "probe", refuses)
    monkeypatch.setattr(provision, "SECONDS", 0.1)
    stack = FakeArtifacts(context, secrets_file(tmp_path), "cluster,erasure")
    stack.home = StackDir(tmp_path / "home")
    with raising(UnhealthyService, "connection refused by postgres", "docker compose up --wait"):
        stack.is_running()
    assert stack.services("kafka") == ["kafka-1", "kafka-2", "kafka-3"]
    assert stack.services("minio") == ["minio-erasure"]
