"""Tokens for the JVM of this process, which has no secret of the catalog's."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from pyiceberg.exceptions import OAuthError, RESTError

from sluice.clients.catalogs import token_endpoint
from sluice.clients.catalogs.errors import NotFromCatalog
from sluice.clients.catalogs.rest import BoundedCatalog
from sluice.clients.jvm_server import JvmHandler
from tests.support.catalog_proxy import Answer, Ask, Asked, CatalogProxy
from tests.support.encrypted_catalog import empty

pytestmark = pytest.mark.usefixtures("socket_enabled")
TOKENS = "/v1/oauth/tokens"


class Given:
    """Tokens, or a failure, as a test says."""

    def __init__(self, found: tuple[str, float] | Exception) -> None:
        self.found = found

    def another(self) -> tuple[str, float]:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def asked(properties: dict[str, str], **changed: str) -> httpx.Response:
    client, _, secret = properties["credential"].partition(":")
    form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret, **changed}
    return httpx.post(properties["oauth2-server-uri"], data=form, trust_env=False)


@pytest.mark.parametrize(
    ("seconds", "said"), [(60.5, {"expires_in": 60}), (0.2, {"expires_in": 1}), (math.inf, {})]
)
def test_a_token_is_given_with_its_time(seconds: float, said: dict[str, int]) -> None:
    found = asked(token_endpoint.java(Given(("one", seconds))))
    assert (found.status_code, found.json()) == (
        200,
        {"access_token": "one", "token_type": "bearer", **said},
    )


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (OAuthError("it says: invalid_client"), 401, "invalid_client"),
        (NotFromCatalog("a redirect to https://other"), 503, "temporarily_unavailable"),
        (RESTError("503"), 503, "temporarily_unavailable"),
    ],
)
def test_why_there_is_none_is_told(error: Exception, status: int, code: str) -> None:
    found = asked(token_endpoint.java(Given(error)))
    assert found.status_code == status
    assert found.json() == {"error": code, "error_description": str(error)}


def test_another_process_gets_none() -> None:
    properties = token_endpoint.java(Given(("one", 60)))
    assert asked(properties, client_secret="guessed").status_code == 403
    assert (
        asked({**properties, "oauth2-server-uri": f"{properties['oauth2-server-uri']}/x"}).status_code == 403
    )


@pytest.fixture
def elsewhere() -> Iterator[CatalogProxy]:
    """It would give tokens."""
    with CatalogProxy("http://upstream.test", empty) as made:
        yield made


def test_who_sends_nothing_is_left_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JvmHandler, "timeout", 0.2)
    address = urlsplit(token_endpoint.java(Given(("one", 60)))["oauth2-server-uri"])
    for sent in (b"", b"POST /tokens HTTP/1.1\r\nContent-Length: 99\r\n\r\n"):
        with socket.create_connection((address.hostname, address.port), 5) as one:
            one.sendall(sent)
            assert one.recv(1) == b""


class Server:
    """Gives tokens that count for ``seconds``; the next ``failures`` requests are answered with 503."""

    def __init__(self, seconds: int) -> None:
        self.seconds, self.given, self.failures, self.pause = seconds, 0, 0, "0"

    def __call__(self, asked: Asked, ask: Ask) -> Answer:
        if asked.path != TOKENS:
            return empty(asked, ask)
        if self.failures:
            self.failures -= 1
            return Answer(503, b"", {"Retry-After": self.pause})
        self.given += 1
        content = f'{{"access_token": "t{self.given}", "expires_in": {self.seconds}}}'
        return Answer(200, content.encode())


def of(proxy: CatalogProxy) -> dict[str, str]:
    """What Java is given for the proxy's tokens."""
    declared = {"type": "rest", "uri": proxy.url, "credential": "me:the-secret"}
    catalog = BoundedCatalog({**declared, "oauth2-server-uri": f"{proxy.url}{TOKENS}"})
    assert catalog.tokens is not None
    return token_endpoint.java(catalog.tokens)


def test_an_endpoint_that_redirects_later_gets_and_passes_on_no_secret(elsewhere: CatalogProxy) -> None:
    with CatalogProxy("http://upstream.test", Server(1)) as endpoint:
        properties = of(endpoint)
        assert "the-secret" not in str(properties)
        assert asked(properties).status_code == 200
        time.sleep(1.1)
        moved = {"Location": f"{elsewhere.url}{TOKENS}"}
        endpoint.rule = lambda *_: Answer(307, b"", moved)
        after = asked(properties)
        assert after.status_code == 503
        assert "a redirect to" in after.json()["error_description"]
    assert elsewhere.requests() == []


def test_during_a_long_pause_the_token_before_is_given_with_the_rest_of_its_time() -> None:
    server = Server(100)
    with CatalogProxy("http://upstream.test", server) as endpoint:
        properties = of(endpoint)
        before = asked(properties).json()["access_token"]
        endpoint.requests()
        time.sleep(1.1)
        server.failures, server.pause = 1, "60"
        # Java's client asks six times within seconds, and never again after these.
        for _ in range(6):
            found = asked(properties)
            assert (found.status_code, found.json()["access_token"]) == (200, before)
            assert 90 <= found.json()["expires_in"] <= 98
        assert len(endpoint.requests()) == 1


def test_a_short_pause_is_waited_out_when_no_token_counts() -> None:
    server = Server(1)
    with CatalogProxy("http://upstream.test", server) as endpoint:
        properties = of(endpoint)
        time.sleep(1.1)
        server.failures, server.pause = 1, "2"
        assert asked(properties).status_code == 503
        began = time.monotonic()
        found = asked(properties)
        assert (found.status_code, found.json()["access_token"]) == (200, f"t{server.given}")
        assert 1.5 < time.monotonic() - began < 4


def test_a_long_pause_is_not_waited_out_and_its_failure_is_told() -> None:
    server = Server(1)
    with CatalogProxy("http://upstream.test", server) as endpoint:
        properties = of(endpoint)
        time.sleep(1.1)
        server.failures, server.pause = 1, "60"
        began = time.monotonic()
        assert [asked(properties).status_code for _ in range(6)] == [503] * 6
        assert time.monotonic() - began < 2


def test_an_endpoint_that_the_server_names_is_left_to_java(elsewhere: CatalogProxy) -> None:
    """Its client goes by the server's configuration, with whatever login it has."""
    declared = {"type": "rest", "uri": elsewhere.url, "credential": "me:the-secret"}
    assert BoundedCatalog(declared).tokens is not None
    other = BoundedCatalog(declared)
    other.properties["oauth2-server-uri"] = "https://other.test/tokens"
    assert other.tokens is None
    assert BoundedCatalog({"type": "rest", "uri": elsewhere.url, "token": "t"}).tokens is None
