"""A profile whose keys another tool renews: they are read again by a process that stays."""

from __future__ import annotations

import logging
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import botocore.credentials
import pytest
from botocore.credentials import CredentialProvider, CredentialResolver, Credentials

from sluice.clients import backoff
from sluice.clients.s3.errors import S3LoginRefused
from sluice.clients.s3.login import sources
from sluice.clients.s3.login.credentials import Login
from sluice.config.platform_sections.s3 import S3
from tests.support.raising import raising

ROLE = "arn:aws:iam::123456789012:role/lake"


class Keys:
    """The credentials file of AWS's tools."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, key: str, profile: str = "lake", age: float = 10) -> None:
        """``age``: seconds since then."""
        part = self._path.with_suffix(".part")
        part.write_text(f"[{profile}]\naws_access_key_id = {key}\naws_secret_access_key = s\n")
        self._place(part, age)

    def empty(self, age: float = 10) -> None:
        """As a tool that writes in place does first."""
        part = self._path.with_suffix(".part")
        part.touch()
        self._place(part, age)

    def _place(self, part: Path, age: float) -> None:
        at = time.time() - age
        os.utime(part, (at, at))
        part.replace(self._path)


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keys:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    # It is missing, as on most machines.
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    made = Keys(tmp_path / "credentials")
    made.write("first")
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [1_000.0]
    monkeypatch.setattr(backoff, "now", lambda: at[0])
    return at


@pytest.fixture
def assumed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """With which keys a role was asked for."""
    asked: list[str] = []

    class Sts:
        def __init__(self, key: str) -> None:
            self._key = key

        def assume_role(self, **_: Any) -> dict[str, Any]:
            asked.append(self._key)
            found = {"AccessKeyId": f"by-{self._key}", "SecretAccessKey": "s", "SessionToken": "t"}
            return {"Credentials": {**found, "Expiration": "2100-01-01T00:00:00+00:00"}}

    monkeypatch.setattr(sources, "_sts", lambda s3: lambda *_, **given: Sts(given["aws_access_key_id"]))
    return asked


def key_of(found: Login) -> str:
    return str(found.get_frozen_credentials().access_key)


def test_keys_that_do_not_end_are_read_again(keys: Keys) -> None:
    found = Login(S3(profile="lake"))
    assert key_of(found) == "first"
    for key in ("second", "third"):
        keys.write(key)
        assert key_of(found) == key
    assert found.ends is None


def test_a_file_is_not_read_while_it_is_written(keys: Keys) -> None:
    """A key, and then its secret, say."""
    found = Login(S3(profile="lake"))
    assert key_of(found) == "first"
    keys.write("second", age=0)
    assert key_of(found) == "first"
    keys.write("second")
    assert key_of(found) == "second"


class Machine(CredentialProvider):
    """That of a machine's role, behind the files."""

    METHOD = CANONICAL_NAME = "iam-role"

    def load(self) -> Credentials:
        return Credentials("machine", "s", method=self.METHOD)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with a role."""
    made = botocore.credentials.create_credential_resolver

    def with_role(*given: Any, **named: Any) -> CredentialResolver:
        found = made(*given, **named)
        found.providers.append(Machine())
        return found

    monkeypatch.setattr(botocore.credentials, "create_credential_resolver", with_role)


@pytest.mark.usefixtures("machine")
def test_a_process_that_starts_while_a_file_is_written_waits_for_what_is_written(keys: Keys) -> None:
    keys.empty(age=0)
    written = threading.Timer(0.3, keys.write, ("first", "default"))
    written.start()
    assert key_of(Login(S3())) == "first"
    written.join()


@pytest.mark.usefixtures("machine")
def test_a_process_that_starts_waits_a_second_at_most(keys: Keys) -> None:
    keys.empty(age=-0.9)
    began = time.monotonic()
    assert key_of(Login(S3())) == "machine"
    assert 1.0 <= time.monotonic() - began < 1.6


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("role", ["", ROLE], ids=["alone", "role"])
def test_who_a_chain_finds_behind_an_emptied_file_is_believed_after_a_while(
    keys: Keys, clock: list[float], assumed: list[str], role: str
) -> None:
    keys.write("first", profile="default")
    found, by = Login(S3(role_arn=role)), "by-" if role else ""
    assert key_of(found) == f"{by}first"
    for name in ("second", "third"):
        keys.empty()
        before = key_of(found)
        clock[0] += 5
        assert key_of(found) == before != f"{by}machine"
        keys.write(name, profile="default")
        clock[0] += 5
        assert key_of(found) == f"{by}{name}"
    keys.empty()
    for _ in range(29):
        assert key_of(found) == f"{by}third"
        clock[0] += 1
    clock[0] += 31
    assert key_of(found) == f"{by}machine"
    assert "machine" not in assumed[:-1]


def test_a_role_is_assumed_with_the_new_ones(keys: Keys, assumed: list[str]) -> None:
    found = Login(S3(profile="lake", role_arn=ROLE))
    assert [key_of(found) for _ in range(3)] == ["by-first"] * 3
    keys.write("second")
    assert [key_of(found) for _ in range(3)] == ["by-second"] * 3
    assert assumed == ["first", "second"]


def test_those_before_go_on_while_the_file_cannot_be_used(
    keys: Keys, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    found = Login(S3(profile="lake"))
    assert key_of(found) == "first"
    keys.write("other", profile="another")
    with caplog.at_level(logging.WARNING):
        assert [key_of(found) for _ in range(9)] == ["first"] * 9
    (said,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert "credentials for S3 not renewed: profile lake: " in said.getMessage()
    keys.write("second")
    assert key_of(found) == "first", "not with each request"
    clock[0] += 30
    assert key_of(found) == "second"


def test_a_file_that_is_corrected_counts_when_those_before_end(
    keys: Keys, clock: list[float], assumed: list[str]
) -> None:
    began = datetime(2099, 12, 31, 23, tzinfo=UTC)
    found = Login(S3(profile="lake", role_arn=ROLE), lambda: began + timedelta(seconds=clock[0] - 1_000))
    assert key_of(found) == "by-first"
    keys.write("other", profile="another")
    # They end at 4,600, and are not used in the last minute.
    while clock[0] < 4_540:
        assert key_of(found) == "by-first"
        clock[0] += 0.5
    keys.write("second")
    clock[0] += 0.5
    assert key_of(found) == "by-second", "not the failure of half a minute ago"


def test_a_login_that_was_refused_takes_what_was_written_since(keys: Keys, clock: list[float]) -> None:
    keys.write("other", profile="another")
    found = Login(S3(profile="lake"))
    with raising(S3LoginRefused, "profile lake: "):
        key_of(found)
    keys.write("second")
    clock[0] += 30
    assert key_of(found) == "second"
