"""Tokens for the JVM of this process, which has no secret of the catalog's."""

from __future__ import annotations

import math
from collections.abc import Iterator

import httpx
import pytest
from pyiceberg.exceptions import OAuthError, RESTError

from sluice.clients.catalogs import token_endpoint
from sluice.clients.catalogs.errors import NotFromCatalog
from sluice.clients.catalogs.rest import BoundedCatalog
from tests.support.catalog_proxy import Answer, CatalogProxy
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


def test_an_endpoint_that_redirects_later_gets_and_passes_on_no_secret(elsewhere: CatalogProxy) -> None:
    with CatalogProxy("http://upstream.test", empty) as endpoint:
        declared = {"type": "rest", "uri": endpoint.url, "credential": "me:the-secret"}
        catalog = BoundedCatalog({**declared, "oauth2-server-uri": f"{endpoint.url}{TOKENS}"})
        assert catalog.tokens is not None
        properties = token_endpoint.java(catalog.tokens)
        assert "the-secret" not in str(properties)
        before = asked(properties)
        assert (before.status_code, before.json()["access_token"]) == (200, "t")
        moved = {"Location": f"{elsewhere.url}{TOKENS}"}
        endpoint.rule = lambda *_: Answer(307, b"", moved)
        after = asked(properties)
        assert after.status_code == 503
        assert "a redirect to" in after.json()["error_description"]
    assert elsewhere.requests() == []


def test_an_endpoint_that_the_server_names_is_left_to_java(elsewhere: CatalogProxy) -> None:
    """Its client goes by the server's configuration, with whatever login it has."""
    declared = {"type": "rest", "uri": elsewhere.url, "credential": "me:the-secret"}
    assert BoundedCatalog(declared).tokens is not None
    other = BoundedCatalog(declared)
    other.properties["oauth2-server-uri"] = "https://other.test/tokens"
    assert other.tokens is None
    assert BoundedCatalog({"type": "rest", "uri": elsewhere.url, "token": "t"}).tokens is None
