"""Certificates of files, and how a section declares them."""

from __future__ import annotations

import re
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpx
import jwt
import pytest

from sluice.clients.tls.certificates import ClientCertificate
from sluice.config import platform
from sluice.config.platform_sections.kafka import Kafka
from sluice.connection_check.probing import catalog, tls, web
from sluice.connection_check.probing.tls import Tls, look_at, read_files, servers
from sluice.connection_check.probing.web import ask_address, ask_registry, static_token
from sluice.connection_check.rows import Row, judge
from tests.support.certificates import Authority
from tests.unit.config.test_platform import PLATFORM


def signed(claims: dict[str, int]) -> str:
    return jwt.encode({**claims}, "a key of 32 characters or of more of them", algorithm="HS256")


def test_hosts_and_ports_of_a_list() -> None:
    assert list(servers("a:9092, b:9093,[::1]:9094")) == [("a", 9092), ("b", 9093), ("::1", 9094)]


def test_each_sections_own_names() -> None:
    kafka = Kafka("a:1", "SSL", ssl_ca_location="ca", ssl_certificate_location="c", ssl_key_location="k")
    assert Tls.declared(kafka) == Tls("ca", ClientCertificate("c", "k"))
    options = {"ssl_ca": "ca", "ssl_cert": "c", "ssl_key": "k"}
    assert Tls.declared(options, "word", names_host=False) == Tls(
        "ca", ClientCertificate("c", "k", "word"), names_host=False
    )
    assert Tls.declared(object()) == Tls()
    assert "secret" not in repr(Tls(own=ClientCertificate("c", passphrase="secret")))


def test_the_ends_of_files(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("consumer", valid=timedelta(hours=20))
    row = Row("consumer", "kafka", "there")
    read_files(row, Tls(str(authority.ca), ClientCertificate(str(certificate), str(key))))
    (own,) = row.own
    assert row.authority is not None
    assert own.ends == pytest.approx(time.time() + 20 * 3600, abs=60)
    judge(row, time.time())
    # It had two days and 20 hours.
    assert "own certificate ends in " in row.problems[0]
    assert str(row.authority.ends) == str(row.authority.begins + 3 * 86400)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    other = tmp_path / "ca.pem"
    other.write_text("-----BEGIN CERTIFICATE-----\n")
    row = Row("consumer", "kafka", "there")
    read_files(row, Tls(str(other), ClientCertificate(str(tmp_path / "gone.crt"))))
    own, ca = row.problems
    assert "gone.crt: No such file" in own
    assert "CA" in ca
    assert str(other) in ca


def test_the_end_of_a_declared_token() -> None:
    assert static_token("no-jwt") is None
    now = int(time.time())
    found = static_token(signed({"exp": now + 60, "iat": now - 60}))
    assert found is not None
    assert (found.begins, found.ends) == (now - 60, now + 60)
    assert static_token(signed({"iat": now})) is None
    # In milliseconds no date can show it.
    assert static_token(signed({"exp": now * 1000})) is None


def test_a_token_that_says_no_begin_is_told_of_before_its_end() -> None:
    now = int(time.time())
    token = signed({"exp": now + 13 * 86400})
    row = Row("consumer", "lake.catalog rest", "there", token=static_token(token))
    judge(row, now)
    (line,) = row.problems
    assert "the token ends in 13 d" in line
    # One of a file began when it was written.
    row = Row("consumer", "kafka", "there", token=static_token(token, now - 86400.0), is_written=True)
    judge(row, now)
    assert row.problems == []


def test_the_files_of_an_encrypted_address_are_read_though_it_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "look", lambda *_, **__: False)
    authority = Authority(tmp_path)
    certificate, key = authority.issue("consumer")
    for address, is_read in (("https://127.0.0.1:1", True), ("http://127.0.0.1:1", False)):
        row = Row("consumer", "lake.catalog rest", address)
        look_at(row, address, Tls(str(authority.ca), ClientCertificate(str(certificate), str(key))))
        assert (bool(row.own), row.authority is not None) == (is_read, is_read)


def test_a_token_endpoint_that_is_away_is_a_problem_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "clock_of", lambda *_: False)
    rows = [Row("consumer", "registry", "https://registry"), Row("consumer", "registry token endpoint", "u")]
    ask_address("http://127.0.0.1:1", Tls(), rows[-1:])
    assert [len(row.problems) for row in rows] == [0, 1]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_is_asked_for_its_clock_gets_no_login(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def head(url: str, **_: object) -> httpx.Response:
        asked.append(url)
        raise httpx.ReadTimeout("")

    monkeypatch.setattr(web.httpx, "head", head)
    monkeypatch.setattr(web.handshakes, "look", lambda *_, **__: True)
    row = Row("producer", "feeds x", "there")
    ask_address(f"{scheme}://u:word@127.0.0.1:1/x?token=abc", Tls(), [row])
    assert asked == [f"{scheme}://127.0.0.1:1/"]
    # It is one that does not answer, encrypted or not.
    assert len(row.problems) == 1


def test_files_that_are_replaced_just_now_are_waited_for(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("consumer")
    there = certificate.read_bytes()
    certificate.unlink()
    renewal = threading.Timer(0.3, lambda: certificate.write_bytes(there))
    renewal.start()
    row = Row("consumer", "kafka", "there")
    read_files(row, Tls(str(authority.ca), ClientCertificate(str(certificate), str(key))))
    renewal.join()
    assert row.problems == []
    assert row.own


@pytest.mark.parametrize(("age", "is_known"), [({}, True), ({"Age": "0"}, True), ({"Age": "1800"}, False)])
def test_the_clock_of_an_answer_that_was_cached_is_not_taken(
    age: dict[str, str], is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, str] = {}

    def head(url: str, headers: dict[str, str], **_: object) -> httpx.Response:
        asked.update(headers)
        at = format_datetime(datetime.now(UTC) - timedelta(seconds=int(age.get("Age", 0))), usegmt=True)
        return httpx.Response(200, headers={"Date": at, **age})

    monkeypatch.setattr(web.httpx, "head", head)
    row = Row("producer", "feeds x", "there")
    ask_address("http://feeds.example.com/", Tls(), [row])
    assert asked == {"Cache-Control": "no-cache"}
    assert (row.clock is not None, bool(row.remarks)) == (is_known, not is_known)
    judge(row, time.time())
    assert row.problems == []


@pytest.mark.parametrize("is_projected", [True, False])
@pytest.mark.parametrize("section", ["registry", "lake.catalog"])
def test_a_token_that_kubernetes_writes_again_is_well_until_it_must_have_been(
    section: str, is_projected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet does so when a fifth of its hour is left."""
    now = int(time.time())
    token, path = signed({"iat": now - 2700, "exp": now + 900}), tmp_path / "token"
    path.write_text(token)
    path.chmod(0o600)
    reference = f'{{ file = "{path}" }}' if is_projected else f'"{token}"'
    file = tmp_path / "consumer.toml"
    rest = 'type = "rest"\nuri = "https://127.0.0.1:1"'
    url = rest if section == "lake.catalog" else 'url = "https://127.0.0.1:1"'
    text = re.sub(r"\[lake\.catalog\][^[]*", "", PLATFORM) if section == "lake.catalog" else PLATFORM
    file.write_text(f"{text}\n[{section}]\n{url}\ntoken = {reference}\n")
    file.chmod(0o600)
    monkeypatch.setenv(platform.DIRECTORY_VARIABLE, str(tmp_path))
    monkeypatch.setattr(tls, "look", lambda *_, **__: False)
    declared = platform.load("consumer")
    row = Row("consumer", section, "there")
    if section == "registry":
        ask_registry(declared.need_registry(), "https://127.0.0.1:1", [row], registers=False)
    else:
        catalog.ask(declared, [row])
    judge(row, now)
    assert row.token is not None
    assert [*map(bool, row.problems)] == ([] if is_projected else [True])
