"""A REST catalog's server of OAuth2 tokens, as a rule of the proxy before the catalog: it gives tokens that
expire, and lets in who has one."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from urllib.parse import parse_qs

import jwt

from tests.support.catalog_proxy import Answer, Ask, Asked, refusal

TOKENS = "/oauth2/token"
# Where tokens are without a declaration.
OWN_TOKENS = "/v1/oauth/tokens"
JSON = {"Content-Type": "application/json"}


@dataclass
class TokenGate:
    """Client credentials for tokens, and the catalog's own login in their place."""

    clients: Mapping[str, tuple[str, str]]
    """Client id -> its secret, and the catalog's token for it."""
    seconds: float = 60
    """How long a token counts."""
    scopes: tuple[str, ...] = ("catalog",)
    """Those that a token may be asked for."""
    is_opaque: bool = False
    """Whether a token is no JWT, which says itself when it expires."""
    hangs: float = 0
    """For how many seconds a request for a token gets no answer."""
    clock: float = 0
    """How far the clock of the server of tokens is ahead of the catalog's, in seconds."""
    is_down: bool = False
    """Whether a request for a token is answered with 503."""
    granted: list[tuple[str, str, str]] = field(default_factory=list)
    """Client id, scope and the asking program of each token."""
    refused: list[str] = field(default_factory=list)
    """Why each request was not let in."""

    def __post_init__(self) -> None:
        self._key = secrets.token_urlsafe(32)
        self._opaque: dict[str, tuple[str, float]] = {}
        self._guard = threading.Lock()

    def __call__(self, asked: Asked, ask: Ask) -> Answer | None:
        if asked.path in (TOKENS, OWN_TOKENS):
            time.sleep(self.hangs)
            return self._grant(asked)
        client = self._client(asked.headers.get("authorization", "").removeprefix("Bearer "))
        if client not in self.clients:
            self.refused.append(client)
            return refusal(401, "NotAuthorizedException", client)
        own = {"authorization": f"Bearer {self.clients[client][1]}"}
        return ask(replace(asked, headers={**asked.headers, **own}))

    def _grant(self, asked: Asked) -> Answer:
        if self.is_down:
            return _error(503, "temporarily_unavailable", "try later")
        form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        client, scope = form.get("client_id", ""), form.get("scope", "")
        if form.get("grant_type") != "client_credentials":
            return _error(400, "unsupported_grant_type", f"{form.get('grant_type')} is not given here")
        if self.clients.get(client, ("", ""))[0] != form.get("client_secret", "-"):
            return _error(401, "invalid_client", f"client {client} has another secret")
        if scope not in self.scopes:
            return _error(400, "invalid_scope", f"no scope {scope}")
        self.granted.append((client, scope, asked.headers.get("user-agent", "").partition("/")[0]))
        token = {"access_token": self._token(client), "token_type": "bearer", "expires_in": int(self.seconds)}
        return Answer(200, json.dumps(token).encode(), JSON)

    def _token(self, client: str) -> str:
        now = time.time() + self.clock
        end = now + self.seconds
        if not self.is_opaque:
            # Whole numbers: Java's client reads no other.
            times = {"nbf": int(now), "exp": ceil(end)}
            claims = {"sub": client, "jti": secrets.token_hex(8), **times}
            return jwt.encode(claims, self._key, algorithm="HS256")
        token = secrets.token_urlsafe(24)
        with self._guard:
            self._opaque[token] = client, end
        return token

    def _client(self, token: str) -> str:
        """Whose the token is, or why it does not count."""
        if self.is_opaque:
            with self._guard:
                client, end = self._opaque.get(token, ("no such token", time.time() + 1))
            return client if time.time() < end else "the token has expired"
        try:
            return str(jwt.decode(token, self._key, algorithms=["HS256"])["sub"])
        except jwt.InvalidTokenError as error:
            return str(error)


def _error(status: int, error: str, description: str) -> Answer:
    """As RFC 6749, 5.2."""
    return Answer(status, json.dumps({"error": error, "error_description": description}).encode(), JSON)


@dataclass
class BehindPrefix:
    """A server of several warehouses, each below a prefix that it says itself; ``inner``: behind it."""

    prefix: str
    warehouse: str

    def __call__(self, asked: Asked, ask: Ask) -> Answer | None:
        if asked.path == "/v1/config":
            if parse_qs(asked.target.partition("?")[2]).get("warehouse") != [self.warehouse]:
                return refusal(400, "BadRequestException", "no such warehouse")
            found = ask(asked)
            said = found.json | {"overrides": {"prefix": self.prefix}}
            return Answer(found.status, json.dumps(said).encode(), found.headers)
        before = f"/v1/{self.prefix}/"
        if not asked.path.startswith(before):
            return refusal(404, "NoSuchWarehouseException", asked.path)
        return ask(replace(asked, target=asked.target.replace(before, "/v1/", 1)))
