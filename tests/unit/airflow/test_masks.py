"""Secrets of platform files and exported connections, as they read in a log of Airflow's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from airflow.sdk._shared.secrets_masker import reset_secrets_masker
from airflow.sdk.log import mask_logs

from sluice import systems
from sluice.airflow import connections
from sluice.airflow.hook import PlatformHook
from sluice.clients.s3 import remove_objects
from sluice.config.platform import DIRECTORY_VARIABLE
from sluice.config.reading.toml import dump
from tests.support.memory_s3 import MemoryS3

PLATFORM = {
    "role": "airflow",
    "kafka": {
        "bootstrap_servers": "b:9092",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "username": "sluice-user",
        "password": "kafka/pass@word",
    },
    "s3": {"access_key": "access-key", "secret_key": "secret-key-of-s3", "session_token": "token-of-s3"},
    "lake": {
        "warehouse": "s3://w/lake",
        "ledger": "s3://w/ledger",
        "catalog": {
            "type": "sql",
            "uri": "postgresql://127.0.0.1:5432/lake",
            "username": "airflow",
            "password": "catalog:pass/word",
        },
    },
    "source": {"bucket": "source"},
    "checkpoints": {"root": "/checkpoints"},
    "supervisor": {"url": "http://127.0.0.1:1/RPC2", "username": "sluice", "password": "supervisor-password"},
    "feeds": {"wiki_changes": "https://reader:feed-password@h/feed"},
}
SECRETS = (
    "kafka/pass@word",
    "secret-key-of-s3",
    "token-of-s3",
    "catalog:pass/word",
    "supervisor-password",
    "feed-password",
)


@pytest.fixture(autouse=True)
def _masker() -> Iterator[None]:
    reset_secrets_masker()
    yield
    reset_secrets_masker()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    for role in ("airflow", "maintenance"):
        path = tmp_path / f"{role}.toml"
        path.write_text(dump({**PLATFORM, "role": role}))
        path.chmod(0o600)
    return tmp_path


def logged(text: str) -> str:
    """The text as Airflow writes it into a task's log."""
    return str(mask_logs(logging.getLogger(), "info", {"event": text})["event"])


def test_secrets_of_the_platform_file_are_masked(folder: Path) -> None:
    text = " ".join(f"{secret} {quote(secret, safe='')}" for secret in SECRETS)
    assert logged(text) == text, "nothing was read yet"
    platform = PlatformHook().platform
    assert logged(text) == " ".join(["***"] * 2 * len(SECRETS))
    # As an error of SQLAlchemy shows it.
    assert "***@127.0.0.1:5432" in logged(platform.lake.pyiceberg(platform.s3)["uri"])
    assert logged("sluice-user reads s3://w/lake, access-key") == "sluice-user reads s3://w/lake, access-key"


def test_an_empty_secret_masks_nothing(folder: Path) -> None:
    document = {**PLATFORM, "kafka": {"bootstrap_servers": "127.0.0.1:9092"}}
    (folder / "airflow.toml").write_text(dump(document))
    assert PlatformHook().platform.kafka.password == ""
    assert logged("a b") == "a b"
    assert logged("secret-key-of-s3") == "***"


def test_the_role_that_deletes_is_masked_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "maintenance.toml").write_text(
        dump({**PLATFORM, "role": "maintenance", "s3": {"access_key": "m", "secret_key": "key-that-deletes"}})
    )
    monkeypatch.setattr(systems, "connect", lambda config: MemoryS3().as_client())
    monkeypatch.setattr(remove_objects, "remove", lambda client, bucket, keys: None)
    PlatformHook().remove_objects("bucket", [])
    assert logged("key-that-deletes") == "***"


def test_an_exported_connection_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "postgres://writer:results%2Fpassword@127.0.0.1:5432/results"
    monkeypatch.setenv("AIRFLOW_CONN_SLUICE_RESULTS", uri)
    database = connections.database("sluice_results")
    assert database.password == "results/password"
    assert logged(str(database.sqlalchemy()["url"].render_as_string(hide_password=False))) == (
        "postgresql+psycopg2://writer:***@127.0.0.1:5432/results?sslmode=disable"
    )
    assert logged("results/password") == "***"
