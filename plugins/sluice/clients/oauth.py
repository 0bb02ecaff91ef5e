"""Tokens by OAuth2's client credentials (RFC 6749, 4.4), renewed when half of their time is over."""

from __future__ import annotations

import logging
import math
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import httpx

from sluice.clients import backoff
from sluice.clients.backoff import Backoff, seconds_asked
from sluice.clients.http_client import logged_in
from sluice.clients.proxies import ProxyUnusable
from sluice.clients.tls.certificates import CertificateUnusable, trusting
from sluice.clients.tls.words import is_unverified
from sluice.config.reading.urls import VISIBLE, host_of
from sluice.core.errors import ClientError, Refused, Unreachable
from sluice.core.messages import quoted

log = logging.getLogger(__name__)

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 10.0
# A token is given to a further connection while it has this share of its time left: the session that it
# begins ends with it.
LEAST_LEFT = 0.5
# RFC 6749 leaves it open, and recommends to say how long a token is valid.
DEFAULT_LIFETIME = 300.0
# What an endpoint may say of it: no clock of a client counts further.
LEAST_LIFETIME, MOST_LIFETIME = 1.0, 86_400.0 * 365
# A shorter one may be a word of the answer.
LEAST_SECRET = 8
# Statuses by which a server says something of a login, the first only with an error of RFC 6749.
_BAD_REQUEST, _LOGIN_STATUSES = 400, frozenset({401, 403})
# Errors of an endpoint that say nothing of the client.
_AWAY = frozenset({"temporarily_unavailable", "server_error", "slow_down", "authorization_pending"})


class TokenRefused(Refused):
    """The endpoint refuses the client, or is not the one that its certificate must name."""

    # Seconds that the endpoint asks to wait.
    retry_after = 0.0


class TokenUnreachable(Unreachable):
    """The endpoint does not answer, is not ready, or what answers in its place is none."""

    retry_after = 0.0


@dataclass(frozen=True)
class Token:
    """``began``, ``ends``: by the clock of :func:`sluice.clients.backoff.now`; ``received``: seconds since
    1970, by this machine's clock, which may be wrong."""

    value: str = field(repr=False)
    began: float
    ends: float
    received: float = field(default_factory=time.time)

    def is_fresh(self, now: float) -> bool:
        """Whether another connection may begin with it."""
        return self.began <= now < self.ends - (self.ends - self.began) * LEAST_LEFT

    def is_valid(self, now: float) -> bool:
        return self.began <= now < self.ends

    def span(self) -> tuple[float, float]:
        """Begin and end, in seconds since 1970 by this machine's clock, for programs that go by it."""
        apart = time.time() - backoff.now()
        return self.began + apart, self.ends + apart


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
        """Raises TokenRefused and TokenUnreachable. No message has anything of an answer but the error that
        RFC 6749 names: what is there instead may be a token."""
        began, received = backoff.now(), time.time()
        asked = {"grant_type": "client_credentials", "scope": self.scope, "audience": self.audience}
        login = httpx.BasicAuth(self.client_id.encode(), self.client_secret.encode())
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        try:
            with logged_in(self.url, login, self._tls, {"Accept": "application/json"}, timeout) as client:
                response = client.post(self.url, data={name: text for name, text in asked.items() if text})
        except ProxyUnusable as error:
            raise TokenRefused(f"token endpoint {self.url}: {error}") from error
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
        found = document_of(response)
        value = found.get("access_token")
        if response.status_code == 200 and isinstance(value, str) and VISIBLE.fullmatch(value):
            return Token(value, began, began + lifetime_of(found.get("expires_in")), received)
        raise self._without_token(response, found)

    def _without_token(self, response: httpx.Response, found: Mapping[str, Any]) -> Refused | Unreachable:
        """The error for an answer without a token (RFC 6749, 5.2)."""
        status, said = response.status_code, error_of(found)
        if len(self.client_secret) >= LEAST_SECRET:
            said = said.replace(self.client_secret, "…")
        answered = f"token endpoint {self.url} answered {status}"
        if is_refusal(status, found):
            refused = TokenRefused(
                f"{answered}: {quoted(said) if said else 'no error is named'}. Fix: {self.fixes.client}"
            )
            refused.retry_after = seconds_asked(response.headers.get("Retry-After", ""))
            return refused
        if response.is_redirect:
            where = host_of(response.headers.get("Location", ""))
            what = f"{answered}: a redirect to {where}, which is never followed"
        elif said:
            what = f"{answered}: {quoted(said)}"
        elif status >= 400:
            what = answered
        else:
            what = f"{answered}: no document with a token in visible ASCII (access_token)"
        away = TokenUnreachable(f"{what}. Fix: {self.fixes.url}")
        away.retry_after = seconds_asked(response.headers.get("Retry-After", ""))
        return away

    def _tls(self) -> ssl.SSLContext:
        try:
            return trusting(self.ca)
        except CertificateUnusable as error:
            raise TokenRefused(f"https_ca_location: {error}. Fix: put a readable PEM file there") from error


class Answer(Protocol):
    """A response of httpx, or of requests."""

    def json(self) -> Any: ...


def document_of(response: Answer) -> Mapping[str, Any]:
    """An answer's document; empty for one that cannot be read."""
    try:
        found = response.json()
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def error_of(found: Mapping[str, Any]) -> str:
    """The error of an answer. One with a token has none, whatever else it says."""
    if "access_token" in found:
        return ""
    texts = (found.get(key) for key in ("error", "error_description"))
    return ": ".join(text for text in texts if isinstance(text, str) and text)


def is_refusal(status: int, found: Mapping[str, Any]) -> bool:
    """Whether an endpoint refuses the client, and is not just unable to answer."""
    error = found.get("error")
    is_bad = status == _BAD_REQUEST and isinstance(error, str) and error not in _AWAY
    return status in _LOGIN_STATUSES or is_bad


def lifetime_of(said: object) -> float:
    """Seconds that a token counts, by an answer's ``expires_in``."""
    try:
        seconds = float(said)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return DEFAULT_LIFETIME
    return DEFAULT_LIFETIME if math.isnan(seconds) else min(max(seconds, LEAST_LIFETIME), MOST_LIFETIME)


class Tokens:
    """The token of one login, renewed when it is asked for. For many threads. After a failure its source is
    left alone for a while by all of them."""

    def __init__(self, fetch: Callable[[], Token], pauses: Backoff | None = None) -> None:
        self._fetch = fetch
        # One asks; the others take the token that there is.
        self._asking = threading.Lock()
        self._backoff = pauses or Backoff()
        self._token: Token | None = None

    def current(self) -> Token:
        """Raises what ``fetch`` raises. A token that is still valid is given while no other can be had."""
        found, now = self._token, backoff.now()
        if found is not None and found.is_fresh(now):
            return found
        if found is not None and found.is_valid(now):
            if not self._asking.acquire(blocking=False):
                return found
        else:
            self._asking.acquire()
        try:
            return self._renewed()
        finally:
            self._asking.release()

    def _renewed(self) -> Token:
        found = self._token
        if found is not None and found.is_fresh(backoff.now()):
            # Another thread has renewed it.
            return found
        if found is not None and found.is_valid(backoff.now()) and self._backoff.left:
            return found
        self._backoff.check()
        try:
            self._token = self._fetch()
        except ClientError as error:
            now = backoff.now()
            good = found.ends - now if found is not None and found.is_valid(now) else 0.0
            self._backoff.failed(error, _retry_after(error), good)
            if found is None or not good:
                raise
            log.warning("token not renewed: %s", error)
            return found
        self._backoff.succeeded()
        return self._token


def _retry_after(error: BaseException) -> float:
    """What the endpoint said, behind an error that a login made of its own."""
    return float(getattr(error, "retry_after", 0.0) or getattr(error.__cause__, "retry_after", 0.0))


@cache
def shared(request: TokenRequest) -> Tokens:
    """Those of one login in this process."""
    return Tokens(request.fetch)
