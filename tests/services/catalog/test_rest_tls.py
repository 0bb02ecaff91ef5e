"""A REST catalog behind TLS that asks for a client's certificate, by PyIceberg."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from sluice.clients.catalogs.pointers import opened
from sluice.config.platform_sections.catalog import Catalog
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from tests.support.catalog_proxy import CatalogProxy
from tests.support.certificates import Authority
from tests.support.encrypted_catalog import PHRASE, context_of, declared, empty
from tests.support.raising import raising


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> Iterator[CatalogProxy]:
    with CatalogProxy("http://upstream.test", empty, context_of(authority)) as made:
        yield made


def refused(catalog: Catalog, *words: str) -> None:
    with raising(Refused, *words, "Fix: ") as raised:
        opened(catalog.pyiceberg())
    assert raised.value.code is ErrorCode.CATALOG_LOGIN
    assert PHRASE not in str(raised.value)


def test_a_certificate_logs_in_also_for_tokens_and_is_read_again(
    server: CatalogProxy, authority: Authority
) -> None:
    pointers = opened(declared(server, authority).pyiceberg())
    assert pointers.find("raw.t") is None
    assert "POST /v1/oauth/tokens" in server.requests()
    # Under the same names. The connection that is there goes on; a new one has the newest.
    authority.issue("sluice", passphrase=PHRASE)
    assert pointers.find("raw.t") is None
    refused(declared(server, authority, sslpassword="another"), " cannot be used (")


def test_signed_requests_have_the_certificate_too(server: CatalogProxy, authority: Authority) -> None:
    signed = {"signing_name": "execute-api", "region": "eu-west-1", "access_key": "k", "secret_key": "s"}
    pointers = opened(declared(server, authority, credential="", **signed).pyiceberg())
    assert pointers.find("raw.t") is None


@pytest.mark.exhaustive
def test_each_other_certificate_and_authority_is_told_in_one_line(
    server: CatalogProxy, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other", "another authority")
    certificate, key = map(str, other.issue("sluice"))
    none = {"sslcert": "", "sslkey": "", "sslpassword": ""}
    refused(
        declared(server, authority, sslrootcert=str(other.ca)), "is not verified", "certificate verify failed"
    )
    refused(
        declared(server, authority, sslrootcert="", **none), "is not verified", "certificate verify failed"
    )
    refused(declared(server, authority, **none), "refuses the login", "certificate required")
    foreign = {"sslcert": certificate, "sslkey": key, "sslpassword": ""}
    refused(declared(server, authority, **foreign), "refuses the login", "unknown ca")
    ended, key = map(str, authority.issue("ended", valid=timedelta(hours=-3)))
    refused(declared(server, authority, sslcert=ended, sslkey=key, sslpassword=""), f"{ended} ended 3 h ago")
    context = context_of(authority)
    context.load_cert_chain(*authority.issue("elsewhere", host="elsewhere.test"))
    with CatalogProxy("http://upstream.test", empty, context) as elsewhere:
        refused(declared(elsewhere, authority), "is not verified", "IP address mismatch")
    with CatalogProxy("http://upstream.test", empty) as plain:
        uri = plain.url.replace("http:", "https:")
        refused(declared(plain, authority, uri=uri), "is not verified")
