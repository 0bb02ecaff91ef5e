"""What a home keeps, and who may read it."""

from __future__ import annotations

import base64
from pathlib import Path

from local.base import UsageError
from local.runtime.home import StackDir
from sluice.config.reading.files import write_private
from tests.support.raising import raising


def test_secrets_are_made_once_and_differ(tmp_path: Path) -> None:
    home = StackDir(tmp_path)
    first = home.secrets()
    assert home.secrets() == first
    assert len(set(first.values())) == len(first)
    assert all(len(value) >= 22 for value in first.values())
    assert home.secrets_file.stat().st_mode & 0o777 == 0o600
    assert StackDir(tmp_path / "other").secrets()["minio_root"] != first["minio_root"]


def test_a_secret_that_came_later_is_added(tmp_path: Path) -> None:
    home = StackDir(tmp_path)
    before = home.secrets()
    text = home.secrets_file.read_text().replace('"supervisor"', '"an_older_name"')
    write_private(home.secrets_file, text)
    after = home.secrets()
    assert after["supervisor"] != before["supervisor"]
    assert after["minio_root"] == before["minio_root"]


def test_the_cluster_id_is_a_uuid_for_kafka(tmp_path: Path) -> None:
    assert len(base64.urlsafe_b64decode(StackDir(tmp_path).secrets()["kafka_cluster"] + "==")) == 16


def test_a_damaged_file_is_named_with_the_fix(tmp_path: Path) -> None:
    home = StackDir(tmp_path)
    home.secrets_file.write_text("{half")
    with raising(UsageError, home.secrets_file, "make destroy"):
        home.secrets()


def test_two_at_once_on_one_home(tmp_path: Path) -> None:
    home = StackDir(tmp_path)
    with home.locked(), raising(UsageError, tmp_path), home.locked():
        pass
