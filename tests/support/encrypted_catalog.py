"""A REST catalog without tables behind TLS, which asks for a client's certificate."""

from __future__ import annotations

import json
import ssl
from dataclasses import replace
from typing import Any

from sluice.config.platform_sections.catalog import REST, Catalog
from tests.support.catalog_proxy import Answer, Ask, Asked, CatalogProxy, refusal
from tests.support.certificates import Authority

PHRASE = "a phrase of the key"


def empty(asked: Asked, _: Ask) -> Answer:
    """A catalog without tables, which gives tokens."""
    if asked.path == "/v1/config":
        return Answer(200, json.dumps({"defaults": {}, "overrides": {}}).encode())
    if asked.path == "/v1/oauth/tokens":
        given = {"access_token": "t", "token_type": "bearer", "expires_in": 60}
        return Answer(200, json.dumps(given).encode())
    return refusal(404, "NoSuchTableException", "Table does not exist: raw.t")


def context_of(authority: Authority) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*authority.issue("server"))
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(authority.ca)
    return made


def declared(server: CatalogProxy, authority: Authority, **changed: Any) -> Catalog:
    certificate, key = authority.issue("sluice", passphrase=PHRASE)
    made = Catalog(
        REST,
        server.url,
        credential="me:secret",
        sslrootcert=str(authority.ca),
        sslcert=str(certificate),
        sslkey=str(key),
        sslpassword=PHRASE,
    )
    return replace(made, **changed)
