"""Requests to a registry: what is an answer, an outage or a refusal, and who gets the login."""

from __future__ import annotations

import base64
import socketserver
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from sluice.clients.registry import http
from sluice.clients.registry.http import Http, Limits
from sluice.config.platform_sections.registry import Registry
from sluice.core.error_codes import ErrorCode
from sluice.core.registry.errors import RegistryLogin, RegistryRefused, RegistryUnreachable
from tests.support.certificates import Authority
from tests.support.postgres_front import Certificates, make_certificates
from tests.support.raising import raising
from tests.support.registry_server import Answer, RegistryServer, error, free_url, serving
from tests.support.token_server import TokenServer

pytestmark = pytest.mark.usefixtures("socket_enabled")
SHORT = Limits(connect_seconds=1, read_seconds=0.3, answer_seconds=0.6)
TYPES = "/schemas/types"


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with serving() as made:
        made.answers[TYPES] = Answer(["AVRO"])
        yield made


def ask(registry: Registry, *path: str) -> http.Answer:
    client = Http(registry, SHORT)
    try:
        return client.get(path or ("schemas", "types"))
    finally:
        client.close()


def test_an_answer_and_the_connection_that_is_used_again(server: RegistryServer) -> None:
    client = Http(Registry(f"{server.url}/"))
    for _ in range(3):
        assert client.get(("schemas", "types")).body == ["AVRO"]
    client.close()
    assert server.connections == 1
    assert server.requests[0][1]["accept-encoding"] == "identity"
    assert "authorization" not in server.requests[0][1]


def test_a_path_is_quoted_and_the_address_may_have_one(server: RegistryServer) -> None:
    server.answers["/apis/v7/subjects/a%2Fb%3F%20%C3%A4/versions?deleted=true"] = Answer([1])
    client = Http(Registry(f"{server.url}/apis/v7"))
    assert client.get(("subjects", "a/b? ä", "versions"), {"deleted": "true"}).body == [1]


@pytest.mark.parametrize(
    ("login", "header"),
    [
        ({"username": "me", "password": "pä:ss"}, "Basic " + base64.b64encode("me:pä:ss".encode()).decode()),
        ({"token": "ey.token"}, "Bearer ey.token"),
    ],
)
def test_a_login(server: RegistryServer, login: dict[str, Any], header: str) -> None:
    ask(Registry(server.url, **login))
    assert server.requests[0][1]["authorization"] == header


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(401, "SLU-267", "a wrong login"), (403, "SLU-262", "a missing right")],
)
def test_a_login_that_is_refused_is_named_without_it(
    server: RegistryServer, status: int, code: str, words: str
) -> None:
    server.answers[TYPES] = Answer({"error_code": status * 100 + 1, "message": "no\nway"}, status)
    with raising(
        RegistryRefused, f"{server.url}{TYPES} answered {status}", words, "no\\\\nway", "Fix:"
    ) as caught:
        ask(Registry(server.url, username="me", password="hidden-word"))
    assert "hidden-word" not in repr(caught.value)
    assert caught.value.code == code


def test_an_api_error_is_an_answer_and_an_unknown_path_is_not(server: RegistryServer) -> None:
    server.answers["/schemas/ids/7"] = error(40403)
    found = ask(Registry(server.url), "schemas", "ids", "7")
    assert (found.status, found.error_code) == (404, 40403)
    for answer in (None, Answer(b"<html>", 404), Answer([], 404), Answer({"error_code": "40403"}, 404)):
        if answer:
            server.answers["/wrong"] = answer
        with raising(RegistryRefused, "/wrong answered 404", "Fix: correct url"):
            ask(Registry(server.url), "wrong")


@pytest.mark.parametrize(
    "answer", [Answer(b"<html>login</html>"), Answer(b""), Answer(b"[" * 5_000), error(42201)]
)
def test_what_is_not_the_apis_is_refused(server: RegistryServer, answer: Answer) -> None:
    server.answers[TYPES] = answer
    with raising(RegistryRefused, f"{server.url}{TYPES} answered {answer.status}", "Fix:"):
        ask(Registry(server.url))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(server: RegistryServer, status: int) -> None:
    with serving() as other:
        with_login = other.url.replace("//", "//secret:secret@")
        for location, shown in ((f"{with_login}/secret?q=secret", other.url), ("/secret", server.url)):
            server.answers[TYPES] = Answer(b"", status, {"Location": location})
            with raising(RegistryRefused, TYPES, f"redirects to {shown}, which is never followed") as caught:
                ask(Registry(server.url, token="t"))
            assert "secret" not in str(caught.value)
        assert not other.requests
    assert set(server.paths) == {TYPES}


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_an_error_of_the_servers_own_is_an_outage(server: RegistryServer, status: int) -> None:
    server.answers[TYPES] = Answer({"error_code": 50001}, status)
    with raising(RegistryUnreachable, f"{server.url}{TYPES} answered {status}", "Fix:"):
        ask(Registry(server.url))


def test_a_server_that_is_gone_or_silent_is_an_outage(server: RegistryServer) -> None:
    gone = free_url()
    with raising(RegistryUnreachable, f"{gone}{TYPES}: ConnectError", "Fix:"):
        ask(Registry(gone))
    server.answers[TYPES] = Answer(["AVRO"], pauses=5)
    with raising(RegistryUnreachable, f"{server.url}{TYPES}: ReadTimeout"):
        ask(Registry(server.url))


def test_an_answer_byte_by_byte_ends_at_its_time(server: RegistryServer) -> None:
    server.answers[TYPES] = Answer(b"x" * 100, pauses=0.1)
    began = time.monotonic()
    with raising(RegistryUnreachable, f"{server.url}{TYPES} was still sending"):
        ask(Registry(server.url))
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("status", ["200 OK", "100 Continue"])
def test_an_answer_whose_head_never_ends_ends_at_its_time(status: str) -> None:
    """Each part comes within the time for a part."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Endless) as server:
        server.daemon_threads = True
        server.status = status  # type: ignore[attr-defined]
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        registry = Registry(f"http://127.0.0.1:{server.server_address[1]}")
        client, began = Http(registry, SHORT), time.monotonic()
        for _ in range(2):
            with raising(RegistryUnreachable, f"{TYPES} was still sending"):
                client.get(("schemas", "types"))
        assert time.monotonic() - began < 6
        server.shutdown()


class _Endless(socketserver.StreamRequestHandler):
    """Begins to answer, and goes on with that."""

    def handle(self) -> None:
        status = self.server.status  # type: ignore[attr-defined]
        is_whole = status.startswith("100")
        part = f"HTTP/1.1 {status}\r\n" + "\r\n" * is_whole
        with suppress(OSError):
            while True:
                self.wfile.write(part.encode())
                part = part if is_whole else "X: y\r\n"
                time.sleep(0.05)


def test_an_answer_has_a_bounded_size(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_ANSWER_BYTES", 1 << 20)
    server.answers[TYPES] = Answer(b'"' + b"x" * ((1 << 20) - 2) + b'"')
    assert len(ask(Registry(server.url)).body) == (1 << 20) - 2
    server.answers[TYPES] = Answer(b'"' + b"x" * (1 << 20) + b'"')
    with raising(RegistryRefused, f"{server.url}{TYPES} answered more than 1 MiB"):
        ask(Registry(server.url))
    server.answers[TYPES] = Answer(b"[" * 100_000)
    with raising(RegistryRefused, f"{server.url}{TYPES} answered 200", "nested too deeply"):
        ask(Registry(server.url))


def test_a_compressed_answer_is_refused(server: RegistryServer) -> None:
    server.answers[TYPES] = Answer(b"x", headers={"Content-Encoding": "gzip"})
    with raising(RegistryRefused, "answered compressed"):
        ask(Registry(server.url))


def test_several_addresses_are_asked_in_turn_and_the_one_that_answers_first(server: RegistryServer) -> None:
    gone = free_url()
    client = Http(Registry(f"{gone}, {server.url}"), SHORT)
    with serving() as other:
        other.answers[TYPES] = Answer([], 503)
        client = Http(Registry(f"{other.url},{server.url}"), SHORT)
        for _ in range(2):
            assert client.get(("schemas", "types")).body == ["AVRO"]
        assert (len(other.requests), len(server.requests)) == (1, 2)
        server.answers[TYPES] = Answer([], 500)
        with raising(
            RegistryUnreachable, f"{other.url}{TYPES} answered 503", f"{server.url}{TYPES} answered 500"
        ):
            client.get(("schemas", "types"))


def test_a_refusal_of_the_first_address_is_not_asked_of_the_next(server: RegistryServer) -> None:
    with serving() as other:
        server.answers[TYPES] = Answer({"error_code": 40101}, 401)
        with raising(RegistryRefused, "401"):
            ask(Registry(f"{server.url},{other.url}"))
        assert not other.requests


def test_no_proxy_gets_what_is_for_this_machine(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, free_url())
    assert ask(Registry(server.url)).body == ["AVRO"]


# Encryption.


@pytest.fixture
def trusted(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path, "server", "127.0.0.1")


@pytest.fixture
def secure(trusted: Certificates) -> Iterator[RegistryServer]:
    with serving(trusted.context()) as made:
        made.answers[TYPES] = Answer(["AVRO"])
        yield made


def test_a_server_by_the_declared_ca(secure: RegistryServer, trusted: Certificates) -> None:
    assert ask(Registry(secure.url, token="t", ssl_ca_location=str(trusted.ca))).body == ["AVRO"]


def test_a_server_by_another_ca_or_of_another_name_gets_no_login(
    secure: RegistryServer, trusted: Certificates, tmp_path: Path
) -> None:
    other = make_certificates(tmp_path, "other", "127.0.0.1")
    for ca in ("", str(other.ca)):
        with raising(RegistryLogin, secure.url, "certificate verify failed", "Fix: correct ssl_ca_location"):
            ask(Registry(secure.url, token="t", ssl_ca_location=ca))
    port = urlsplit(secure.url).port
    with raising(RegistryLogin, "localhost", "certificate verify failed"):
        ask(Registry(f"https://localhost:{port}", token="t", ssl_ca_location=str(trusted.ca)))
    assert not secure.requests


def test_a_clients_certificate(trusted: Certificates, tmp_path: Path) -> None:
    client = make_certificates(tmp_path, "client", "sluice-consumer")
    context = trusted.context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(client.ca)
    with serving(context) as server:
        server.answers[TYPES] = Answer(["AVRO"])
        ca = str(trusted.ca)
        both = Registry(server.url, ssl_ca_location=ca, ssl_certificate_location=str(client.server))
        assert ask(both).body == ["AVRO"]
        apart = Registry(
            server.url,
            ssl_ca_location=ca,
            ssl_certificate_location=str(client.server),
            ssl_key_location=str(client.server),
        )
        assert ask(apart).body == ["AVRO"]
        with raising(RegistryLogin, server.url, "Fix: give ssl_certificate_location of [registry]") as raised:
            ask(Registry(server.url, ssl_ca_location=ca))
        assert raised.value.code is ErrorCode.REGISTRY_LOGIN


def test_a_file_that_cannot_be_used_is_named(
    secure: RegistryServer, trusted: Certificates, tmp_path: Path
) -> None:
    missing = str(tmp_path / "missing.pem")
    with raising(RegistryLogin, "ssl_ca_location", missing, "Fix:"):
        ask(Registry(secure.url, ssl_ca_location=missing))
    (tmp_path / "empty.pem").touch()
    with raising(RegistryLogin, "ssl_ca_location", "empty.pem"):
        ask(Registry(secure.url, ssl_ca_location=str(tmp_path / "empty.pem")))
    with raising(RegistryLogin, "ssl_certificate_location", str(trusted.ca), "Fix:"):
        ask(Registry(secure.url, ssl_certificate_location=str(trusted.ca)))


def test_an_encrypted_key_by_its_passphrase_and_none_is_asked_for(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("sluice", passphrase="word")
    files: dict[str, Any] = {"ssl_certificate_location": str(certificate), "ssl_key_location": str(key)}
    http.tls(Registry("https://127.0.0.1:1", **files, ssl_key_password="word"))
    for wrong in ("", "another"):
        with raising(RegistryLogin, "ssl_certificate_location", str(key), "passphrase as ssl_key_password"):
            http.tls(Registry("https://127.0.0.1:1", **files, ssl_key_password=wrong))


def secure_of(authority: Authority) -> ssl.SSLContext:
    """A server that takes clients of the authority, and has its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.ca)
    return context


def test_a_certificate_that_is_replaced_is_read_by_a_client_that_stays(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("sluice")
    files: dict[str, Any] = {"ssl_certificate_location": str(certificate), "ssl_key_location": str(key)}
    with serving(secure_of(authority)) as server:
        server.answers[TYPES] = Answer(["AVRO"])
        client = Http(Registry(server.url, ssl_ca_location=str(authority.ca), **files), SHORT)
        for _ in range(2):
            assert client.get(("schemas", "types")).body == ["AVRO"]
        assert server.connections == 1
        # A key that is not the certificate's yet: the connection that is there goes on.
        kept = key.read_bytes()
        Authority(tmp_path / "other").issue("sluice")[1].replace(key)
        assert client.get(("schemas", "types")).body == ["AVRO"]
        assert server.connections == 1
        key.write_bytes(kept)
        for connections in (2, 3, 4):
            authority.issue("sluice")
            before, replaced = [*client._clients.values()], [*client._replaced]
            assert client.get(("schemas", "types")).body == ["AVRO"]
            assert server.connections == connections
            # Those of the last replacement, which another thread may use, and none of an earlier one.
            assert client._replaced == before
            assert not any(one.is_closed for one in before)
            assert all(one.is_closed for one in replaced)
        client.close()


def test_a_certificate_of_another_authority_or_one_that_has_ended_is_one_line(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path / "other", "another")
    with serving(secure_of(authority)) as server:
        for issued, words in (
            (other.issue("sluice"), "Fix: give ssl_certificate_location of [registry]"),
            (authority.issue("ended", valid=timedelta(hours=-2)), "ended.crt ended 2 h ago. Fix: renew it"),
            (
                authority.issue("early", since=timedelta(hours=1, seconds=30)),
                "early.crt is not valid for another 1 h, by the clock of this machine. Fix: set the clocks",
            ),
        ):
            certificate, key = map(str, issued)
            files: dict[str, Any] = {"ssl_certificate_location": certificate, "ssl_key_location": key}
            with raising(RegistryLogin, words):
                ask(Registry(server.url, ssl_ca_location=str(authority.ca), **files))
        assert not server.requests


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    made = TokenServer({"sluice": "hidden-word"})
    yield made
    made.stop()


def test_tokens_are_fetched_and_renewed_with_what_confluent_cloud_asks_for(
    server: RegistryServer, tokens: TokenServer
) -> None:
    tokens.lifetime = 1.0
    registry = Registry(
        server.url,
        bearer_auth_issuer_endpoint_url=tokens.url,
        bearer_auth_client_id="sluice",
        bearer_auth_client_secret="hidden-word",
        bearer_auth_scope="schemas",
        bearer_auth_logical_cluster="lsrc-1",
        bearer_auth_identity_pool_id="pool-1",
    )
    client = Http(registry, SHORT)
    for _ in range(2):
        client.get(("schemas", "types"))
    assert len(tokens.asked) == 1
    assert tokens.asked[0]["scope"] == "schemas"
    time.sleep(0.6)
    # A token of another second is another one.
    tokens.clock = 5.0
    client.get(("schemas", "types"))
    client.close()
    first, second, third = (request[1] for request in server.requests)
    assert first["authorization"] == second["authorization"] != third["authorization"]
    assert first["authorization"].startswith("Bearer ey")
    assert (first["target-sr-cluster"], first["confluent-identity-pool-id"]) == ("lsrc-1", "pool-1")
    assert "hidden-word" not in repr(registry)


def test_a_token_endpoint_that_refuses_or_is_away_is_told_with_its_words(
    server: RegistryServer, tokens: TokenServer
) -> None:
    def registry(secret: str) -> Registry:
        return Registry(
            server.url,
            bearer_auth_issuer_endpoint_url=tokens.url,
            bearer_auth_client_id="sluice",
            bearer_auth_client_secret=secret,
        )

    with raising(RegistryLogin, "invalid_client", "Fix: correct bearer_auth_client_id") as raised:
        ask(registry("not-this-word"))
    assert "not-this-word" not in str(raised.value)
    tokens.failure = 503
    with raising(RegistryUnreachable, "token endpoint", "answered 503"):
        ask(registry("hidden-word"))
    assert not server.requests
