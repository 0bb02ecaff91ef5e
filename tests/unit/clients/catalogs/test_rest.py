"""A REST catalog's own configuration, which counts for more than the platform file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog

from sluice.clients.catalogs import rest
from sluice.clients.catalogs.rest import BoundedCatalog
from sluice.core.errors import Refused
from tests.support.certificates import Authority
from tests.support.raising import raising


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found: dict[str, str] = {}

    def fetched(catalog: Any) -> None:
        catalog.properties = {**catalog.properties, **found}
        catalog.uri = catalog.properties["uri"]

    monkeypatch.setattr(RestCatalog, "_fetch_config", fetched)
    return found


def test_a_login_is_not_led_to_plain_text(said: dict[str, str]) -> None:
    declared = {"type": "rest", "uri": "https://catalog.test/api", "token": "hidden"}
    said["uri"] = "http://catalog.test/api"
    with raising(Refused, "http://catalog.test/api", "Fix:") as error:
        BoundedCatalog(declared)
    assert "hidden" not in str(error.value)
    said["uri"] = "https://eu.catalog.test/api"
    assert BoundedCatalog(declared).uri == "https://eu.catalog.test/api"
    said["uri"] = "http://localhost/api"
    assert BoundedCatalog({**declared, "uri": "http://127.0.0.1/api"}).uri == "http://localhost/api"


@pytest.mark.parametrize("key", ["uri", "oauth2-server-uri"])
def test_a_secret_is_not_sent_before_that_is_known(
    said: dict[str, str], monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(rest, "RenewedToken", lambda _, address, *__: asked.append(address))
    declared = {"type": "rest", "uri": "https://catalog.test/api", "credential": "me:hidden"}
    said[key] = "http://other.test/api"
    with raising(Refused, key, "http://other.test/api", "Fix: remove"):
        BoundedCatalog(declared)
    assert asked == []
    said[key] = "https://other.test/api"
    BoundedCatalog(declared)
    (address,) = asked
    assert address.startswith("https://other.test/api")


def test_requests_are_not_signed_because_a_server_says_so(said: dict[str, str]) -> None:
    """With which login it would be is not declared."""
    said["rest.sigv4-enabled"] = "true"
    with raising(Refused, "rest.sigv4-enabled", "signing_name is missing. Fix: add it"):
        BoundedCatalog({"type": "rest", "uri": "https://catalog.test/api"})


def test_without_a_declared_ca_those_of_the_system_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path, "of the system").ca))
    pool = rest.Deadline().poolmanager
    (trusted,) = pool.connection_pool_kw["ssl_context"].get_ca_certs()
    assert trusted["subject"] == ((("commonName", "of the system"),),)
