"""A role's files that are not for who checks: said as such, and never well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.config import platform as platforms
from sluice.config.platform import DIRECTORY_VARIABLE, Platform
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.platform_sections.kubernetes import Strimzi
from sluice.connection_check import check as checking
from sluice.connection_check.check import check, elsewhere, roles_here
from sluice.connection_check.files import named, unreadable
from sluice.connection_check.needs import Needs
from sluice.connection_check.rows import Row, summary
from sluice.connection_check.run import End
from tests.unit.config.test_platform import PLATFORM

USUAL = platforms.parse(PLATFORM, "consumer.toml")


@pytest.fixture(autouse=True)
def _one_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of those that would be asked."""

    def ends_of(found: Platform, _: Needs) -> list[End]:
        return [End(Row(found.role, "kafka", "there"), lambda rows: None)]

    monkeypatch.setattr(checking, "ends_of", ends_of)


def seen(load: Callable[[str], Platform], *own: str) -> list[Row]:
    return check(["consumer"], load, Needs([]), own=own)


def by_certificate(folder: Path) -> Platform:
    kafka = Kafka(
        "127.0.0.1:1",
        "SSL",
        ssl_certificate_location=f"{folder}/own.crt",
        ssl_key_location=f"{folder}/own.key",
    )
    return replace(USUAL, kafka=kafka)


def test_each_kind_of_file_is_known(tmp_path: Path) -> None:
    kafka = Kafka(
        "127.0.0.1:1",
        "SASL_SSL",
        "OAUTHBEARER",
        ssl_ca_location="/kafka-ca",
        sasl_oauthbearer_token_endpoint_url="file:///kafka-token",
    )
    catalog = replace(USUAL.lake.catalog, sslrootcert="/ca", sslcert="/crt", sslkey="/key")
    found = replace(
        USUAL,
        kafka=kafka,
        s3=replace(USUAL.s3, web_identity_token_file="/s3-token", ca_location="/s3-ca"),
        lake=replace(USUAL.lake, catalog=catalog),
        strimzi=Strimzi("kafka", "kafka", "/kubeconfig"),
    )
    assert set(named(found)) == {
        *("/kafka-ca", "/kafka-token", "/s3-token", "/s3-ca", "/ca", "/crt", "/key", "/kubeconfig"),
    }
    assert named(USUAL) == []
    assert unreadable(replace(USUAL, s3=replace(USUAL.s3, ca_location=str(tmp_path / "gone")))) == [
        f"{tmp_path}/gone: No such file or directory"
    ]


def test_files_of_another_role_are_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "own.crt").touch()
    (row,) = seen(lambda _: by_certificate(tmp_path))
    assert row.state == "not looked at"
    assert f"it names {tmp_path}/own.key: No such file or directory. Fix: run " in row.not_looked_at
    assert "--role consumer as role consumer" in row.not_looked_at
    (tmp_path / "own.key").touch()
    (row,) = seen(lambda _: by_certificate(tmp_path))
    assert (row.end, row.state) == ("kafka", "ok")


def test_files_of_its_own_role_are_a_failure(tmp_path: Path) -> None:
    end, file = seen(lambda _: by_certificate(tmp_path), "consumer")
    assert (end.end, file.state) == ("kafka", "FAILED")
    assert "own.crt: No such file or directory" in file.problems[0]
    assert "Fix: put it there, readable for this process" in file.problems[0]


def test_a_password_of_a_file_that_is_another_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    text = PLATFORM.replace('password = "p@ss/word"', f'password = {{ file = "{tmp_path}/gone" }}')
    (tmp_path / "consumer.toml").write_text(text)
    (tmp_path / "consumer.toml").chmod(0o600)
    (row,) = seen(platforms.load)
    assert row.state == "not looked at"
    assert f"{tmp_path}/gone cannot be read" in row.not_looked_at
    (row,) = seen(platforms.load, "consumer")
    assert row.state == "FAILED"
    # What is wrong in it is so for each reader.
    (tmp_path / "consumer.toml").write_text("role = 1")
    (row,) = seen(platforms.load)
    assert row.state == "FAILED"


def test_a_folder_of_another_user_hides_no_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exists(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    def load(role: str) -> Platform:
        raise platforms.ConfigError("x: Permission denied") from PermissionError(13, "Permission denied")

    monkeypatch.setattr(checking.Path, "exists", exists)
    assert roles_here({DIRECTORY_VARIABLE: str(tmp_path)}) == list(platforms.ROLES)
    (row,) = seen(load)
    assert row.state == "not looked at"


def test_roles_whose_files_are_elsewhere_are_in_the_table() -> None:
    rows = elsewhere(["airflow", "maintenance"])
    assert [row.role for row in rows] == ["producer", "consumer", "reader", "observer"]
    assert {row.state for row in rows} == {"not looked at"}
    looked = Row("airflow", "kafka", "there")
    assert summary([looked, *rows]) == (
        "all 1 ends are as needed; not looked at: producer, consumer, reader, observer"
    )
