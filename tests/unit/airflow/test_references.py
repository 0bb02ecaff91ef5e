"""References of platform files to Airflow's secrets, by Airflow's own API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied

from sluice.airflow.hook import PlatformHook
from sluice.config.platform import DIRECTORY_VARIABLE
from sluice.config.reading.toml import ConfigError
from sluice.systems import Systems
from sluice.web.data.sources import Sources
from tests.support.raising import raising
from tests.unit.config.test_platform import PLATFORM

REFERENCES = {
    'secret_key = "hidden"': 'secret_key = { airflow_variable = "s3_key" }',
    'password = "p@ss/word"': 'password = { airflow_connection = "lake" }',
    'username = "consumer"': 'username = { airflow_connection = "lake", part = "login" }',
    'role = "consumer"': 'role = "airflow"',
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    text = PLATFORM
    for old, new in REFERENCES.items():
        text = text.replace(old, new)
    (tmp_path / "airflow.toml").write_text(text)
    (tmp_path / "airflow.toml").chmod(0o600)
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    monkeypatch.setenv("AIRFLOW_VAR_S3_KEY", "key-of-the-variable")
    login = {"conn_type": "postgres", "login": "lake_airflow", "password": "password-of-the-connection"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(login))
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_tasks_triggers_and_pages_read_airflows_secrets() -> None:
    for found in (PlatformHook().platform, Sources()._systems.platform):
        assert found.s3.secret_key == "key-of-the-variable"
        assert found.lake.catalog.username == "lake_airflow"
        assert found.lake.catalog.password == "password-of-the-connection"


@pytest.mark.usefixtures("folder")
def test_a_process_that_is_none_of_airflows_is_told_so() -> None:
    with raising(ConfigError, "airflow_variable 's3_key' is known to Airflow's tasks, triggers and pages"):
        Systems().platform  # noqa: B018


@pytest.mark.usefixtures("folder")
def test_what_airflow_does_not_have_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_VAR_S3_KEY")
    with raising(ConfigError, "airflow_variable 's3_key' not found. Fix: add it in Airflow under Admin"):
        PlatformHook().platform  # noqa: B018
    monkeypatch.setenv("AIRFLOW_VAR_S3_KEY", "key")
    monkeypatch.delenv("AIRFLOW_CONN_LAKE")
    with raising(ConfigError, "airflow_connection 'lake' not found. Fix: add it in Airflow"):
        PlatformHook().platform  # noqa: B018


def test_they_are_found_in_the_secrets_backend_that_airflow_has(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_VAR_S3_KEY")
    monkeypatch.delenv("AIRFLOW_CONN_LAKE")
    (folder / "variables.json").write_text(json.dumps({"s3_key": "key-of-the-backend"}))
    (folder / "connections.json").write_text(json.dumps({"lake": "postgres://lake:backend-password@h/lake"}))
    backend = "airflow.secrets.local_filesystem.LocalFilesystemBackend"
    files = {f"{kind}_file_path": str(folder / f"{kind}.json") for kind in ("variables", "connections")}
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", backend)
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND_KWARGS", json.dumps(files))
    found = PlatformHook().platform
    assert found.s3.secret_key == "key-of-the-backend"
    assert (found.lake.catalog.username, found.lake.catalog.password) == ("lake", "backend-password")


@pytest.mark.usefixtures("folder")
def test_what_airflow_refuses_is_not_taken_for_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(key: str, **_: object) -> str:
        raise AirflowSecretsBackendAccessDenied("denied")

    monkeypatch.setattr("airflow.sdk.Variable.get", denied)
    with raising(ConfigError, "airflow.toml s3 secret_key: airflow_variable 's3_key': Airflow refuses it to"):
        PlatformHook().platform  # noqa: B018
