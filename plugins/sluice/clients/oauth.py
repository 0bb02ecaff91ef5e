"""Tokens by OAuth2's client credentials (RFC 6749, 4.4), renewed when half of their time is over."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from sluice.clients.tls.words import is_unverified
from sluice.config.reading.urls import is_loopback
from sluice.core.errors import ClientError, Refused, Unreachable
from sluice.core.messages import quoted

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 10.0
# A token is given to a further connection while it has this share of its time left: the session that it
# begins ends with it.
LEAST_LEFT = 0.5
# RFC 6749 leaves it open, and recommends to say how long a token is valid.
DEFAULT_LIFETIME = 300.0


class TokenRefused(Refused):
    """The endpoint refuses the client, or is not the one that its certificate must name."""


class TokenUnreachable(Unreachable):
    """The endpoint does not answer, or is not ready."""


@dataclass(frozen=True)
class Token:
    """``began``, ``ends``: seconds since 1970, by this machine's clock."""

    value: str = field(repr=False)
    began: float
    ends: float

    def is_fresh(self, now: float) -> bool:
        """Whether another connection may begin with it."""
        return self.began <= now < self.ends - (self.ends - self.began) * LEAST_LEFT


@dataclass(frozen=True)
class Fixes:
    """What a person does: ``ca`` of an endpoint that is not trusted, ``url`` of one that does not answer,
    ``client`` of a client that is refused. Each is the end of a sentence that begins with "Fix: "."""

    ca: str
    url: str
    client: str


@dataclass(frozen=True)
class TokenRequest:
    """``url``: the endpoint; ``client_id``, ``client_secret``: the login there; ``scope``, ``audience``: of
    the token, empty for none; ``ca``: a PEM file with the endpoint's CA, empty for the system's; ``fixes``:
    ends of messages."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str
    audience: str
    ca: str
    fixes: Fixes

    def fetch(self) -> Token:
        """Raises TokenRefused and TokenUnreachable."""
        began = time.time()
        asked = {"grant_type": "client_credentials", "scope": self.scope, "audience": self.audience}
        parts = urlsplit(self.url)
        try:
            with httpx.Client(
                auth=httpx.BasicAuth(self.client_id.encode(), self.client_secret.encode()),
                headers={"Accept": "application/json", "User-Agent": "sluice"},
                verify=self._tls() if parts.scheme == "https" else False,
                timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
                # No proxy stands between this machine and itself.
                trust_env=not is_loopback(parts.hostname or ""),
            ) as client:
                response = client.post(self.url, data={name: text for name, text in asked.items() if text})
        except (httpx.TransportError, httpx.DecodingError, ssl.SSLError) as error:
            reason = str(error) or type(error).__name__
            if is_unverified(reason):
                raise TokenRefused(
                    f"token endpoint {self.url}: its certificate is not trusted ({reason}). Fix: "
                    f"{self.fixes.ca}"
                ) from error
            raise TokenUnreachable(
                f"token endpoint {self.url} does not answer ({reason}). Fix: {self.fixes.url}"
            ) from error
        return self._answered(response, began)

    def _answered(self, response: httpx.Response, began: float) -> Token:
        """A token of the endpoint's answer (RFC 6749, 5.1 and 5.2)."""
        status = response.status_code
        if status in (408, 429) or status >= 500:
            raise TokenUnreachable(f"token endpoint {self.url} answered {status}")
        try:
            document = response.json()
        except (ValueError, RecursionError):
            document = None
        found = document if isinstance(document, dict) else {}
        value, lifetime = found.get("access_token"), found.get("expires_in", DEFAULT_LIFETIME)
        if status == 200 and isinstance(value, str) and value:
            try:
                seconds = float(lifetime)
            except (TypeError, ValueError):
                seconds = DEFAULT_LIFETIME
            return Token(value, began, began + max(seconds, 1.0))
        said = ": ".join(str(found[key]) for key in ("error", "error_description") if found.get(key))
        # A document with a token is not quoted.
        otherwise = "no token that is a text" if "access_token" in found else quoted(response.text)
        reason = quoted(said) if said else otherwise
        raise TokenRefused(f"token endpoint {self.url} answered {status}: {reason}. Fix: {self.fixes.client}")

    def _tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.ca or None)
        except OSError as error:
            raise TokenRefused(
                f"https_ca_location: {self.ca} cannot be used ({error}). Fix: put a readable PEM file there"
            ) from error


class Tokens:
    """The token of one login, renewed when it is asked for. For many threads."""

    def __init__(self, fetch: Callable[[], Token]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._token: Token | None = None
        # Why no other one was given when it was asked for last.
        self._refusal: Refused | None = None

    def current(self) -> Token:
        """Raises what ``fetch`` raises. A token that is still valid is given while no other can be had."""
        with self._lock:
            now = time.time()
            if self._token is not None and self._token.is_fresh(now):
                return self._token
            try:
                self._token, self._refusal = self._fetch(), None
            except ClientError as error:
                self._refusal = error if isinstance(error, Refused) else None
                if self._token is None or not self._token.began <= now < self._token.ends:
                    raise
            return self._token
