"""Requests to a registry: its addresses in turn, TLS, a login; answers of a bounded size, in a bounded
time."""

from __future__ import annotations

import json
import logging
import ssl
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urljoin

import httpx

from sluice.clients.http_client import logged_in
from sluice.clients.oauth import Fixes, TokenRefused, TokenRequest, TokenUnreachable, shared
from sluice.clients.proxies import ProxyUnusable
from sluice.clients.tls import words
from sluice.clients.tls.certificates import (
    EARLY_FIX,
    RENEW_FIX,
    CertificateUnusable,
    ClientCertificate,
    early,
    ended,
    load,
    trusting,
)
from sluice.clients.tls.followed import Followed
from sluice.clients.tls.handshake import refusal
from sluice.config.platform_sections.registry import Registry
from sluice.config.reading.urls import host_of
from sluice.core.messages import quoted
from sluice.core.registry.errors import (
    Forbidden,
    Oversize,
    RegistryLogin,
    RegistryRefused,
    RegistryUnreachable,
)

log = logging.getLogger(__name__)

# A text of the largest schema, with the escapes of JSON; a list of a hundred thousand subjects.
MAX_ANSWER_BYTES = 8 << 20
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_TOKEN_FIXES = Fixes(
    ca="write the path of its CA as https_ca_location of [registry]",
    url="start it, or correct bearer_auth_issuer_endpoint_url of [registry]",
    client="correct bearer_auth_client_id, _client_secret or _scope of [registry]",
)
# Connections that ended after they had begun.
_LOST = (httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)
_FIX_URL = "Fix: correct url of [registry] in the role's platform file"


# The API's errors that say something of what was asked, by method.
_ERRORS = {"GET": frozenset({404}), "POST": frozenset({404, 409, 422})}


@dataclass(frozen=True)
class Limits:
    """How long a client waits for a connection, for the next part of an answer, and for all of it."""

    connect_seconds: float = 5
    read_seconds: float = 10
    answer_seconds: float = 30


USUAL = Limits()


@dataclass(frozen=True)
class Answer:
    """What a registry said. ``error_code``: the API's, of an answer that is an error; 0 if it has none."""

    url: str
    status: int
    body: Any
    error_code: int = 0


class Http:
    """Connections to the addresses of a registry, opened at the first request. Safe for several threads."""

    def __init__(self, registry: Registry, limits: Limits = USUAL) -> None:
        self._registry, self._limits = registry, limits
        self._clients: dict[str, httpx.Client] = {}
        # Those before files were replaced last: another thread may use one still.
        self._replaced: list[httpx.Client] = []
        self._follow_files = Followed(
            registry.files, "certificates of [registry]", self._connect_again
        ).follow
        self._login = _login(registry)
        # The address that answered last is asked first.
        self._first = 0

    def get(self, path: tuple[str, ...], query: Mapping[str, str] | None = None) -> Answer:
        """Ask one address after the other, until one answers; 404 is an answer.

        ``path``: its parts, quoted here. Raises RegistryUnreachable if none does; RegistryRefused for a login
        (RegistryLogin) or right that is missing (Forbidden), a redirect, and an answer that is not the API's.
        RegistryLogin also for a server that is not verified, and files that cannot be used.
        """
        target = _target(path) + (f"?{urlencode(query)}" if query else "")
        return self._first_answer("GET", target, None)

    def post(self, path: tuple[str, ...], document: Any) -> Answer:
        """As :meth:`get`, with a document as JSON, for a request that may be made twice; 409 and 422 are
        answers too."""
        return self._first_answer("POST", _target(path), document)

    def _first_answer(self, method: str, target: str, document: Any) -> Answer:
        urls, errors = self._registry.urls, list[str]()
        for number in range(len(urls)):
            place = (self._first + number) % len(urls)
            try:
                answer = self._ask(method, urls[place], target, document)
            except RegistryUnreachable as error:
                errors.append(str(error))
            else:
                self._first = place
                return answer
        raise RegistryUnreachable(
            f"schema registry {quoted(self._registry.identity)}: {'; '.join(errors)}. Fix: start it, or "
            "correct [registry] in the role's platform file"
        )

    def close(self) -> None:
        for client in (*self._clients.values(), *self._replaced):
            client.close()
        self._clients.clear()
        self._replaced.clear()

    def _ask(self, method: str, base: str, target: str, document: Any) -> Answer:
        url, deadline = f"{base}{target}", time.monotonic() + self._limits.answer_seconds
        client = self._client(base)
        # An answer whose head never ends keeps each of the library's own limits.
        watch = threading.Timer(self._limits.answer_seconds, self._drop, (base, client))
        watch.daemon = True
        watch.start()
        try:
            with client.stream(method, url, json=document) as response:
                # What stands between answers in the registry's place, or the registry is not there yet.
                if response.status_code in (408, 429) or response.status_code >= 500:
                    raise RegistryUnreachable(f"{url} answered {response.status_code}")
                if response.is_redirect:
                    raise RegistryRefused(
                        f"{url} redirects to {_redirect(response)}, which is never followed. {_FIX_URL}"
                    )
                errors = _ERRORS[method]
                return self._answer(url, response.status_code, _body(response, url, deadline), errors)
        except (httpx.TransportError, httpx.DecodingError, ssl.SSLError) as error:
            if time.monotonic() > deadline:
                raise _too_slow(url) from error
            reason = str(error)
            # What a server says of a certificate when the client writes already may be lost.
            if base.startswith("https:") and isinstance(error, _LOST) and not _certificate_fix(reason):
                reason = refusal(base, tls(self._registry)) or reason
            said = f"{url}: {type(error).__name__}: {reason}"
            if fix := _certificate_fix(reason):
                own = self._registry.ssl_certificate_location
                if own and words.is_certificate_refused(reason) and (not_yet := early(own)):
                    raise RegistryLogin(f"{said}; {not_yet}. {EARLY_FIX}") from error
                raise RegistryLogin(f"{said}. Fix: {fix}") from error
            raise RegistryUnreachable(said) from error
        finally:
            watch.cancel()

    def _drop(self, base: str, client: httpx.Client) -> None:
        """Close the connections to an address; the next request opens others."""
        if self._clients.get(base) is client:
            del self._clients[base]
        client.close()

    def _answer(self, url: str, status: int, body: bytes, errors: frozenset[int]) -> Answer:
        if status in (401, 403):
            found = "a wrong login" if status == 401 else "a missing right"
            kind = RegistryLogin if status == 401 else Forbidden
            raise kind(
                f"{url} answered {status}: {found} ({_excerpt(body)}). Fix: correct the login of [registry] "
                "in the role's platform file, or grant the user the right"
            )
        try:
            document = json.loads(body)
        except RecursionError as error:
            raise Oversize(f"{url} answered {status}, nested too deeply. {_FIX_URL}") from error
        # A number of thousands of digits, too.
        except ValueError as error:
            raise RegistryRefused(
                f"{url} answered {status}, and no JSON: {_excerpt(body)}. {_FIX_URL}"
            ) from error
        if status == 200:
            return Answer(url, status, document)
        code = document.get("error_code") if isinstance(document, dict) else None
        # A path that the API does not have is answered with 404 as code.
        if status not in errors or type(code) is not int or code == status == 404:
            raise RegistryRefused(f"{url} answered {status}: {_excerpt(body)}. {_FIX_URL}")
        return Answer(url, status, document, code)

    def _client(self, base: str) -> httpx.Client:
        self._follow_files()
        found = self._clients.get(base)
        if found is None:
            # If two threads come here, one connects in vain.
            found = self._clients.setdefault(base, self._connect(base))
        return found

    def _connect_again(self) -> None:
        # The clients that are there stay if these files cannot be used.
        tls(self._registry, is_patient=False)
        for client in self._replaced:
            client.close()
        self._replaced = [*self._clients.values()]
        self._clients.clear()

    def _connect(self, base: str) -> httpx.Client:
        # Identity: a few compressed bytes can stand for gigabytes.
        headers = {"Accept": ACCEPT, "Accept-Encoding": "identity"}
        timeout = httpx.Timeout(self._limits.read_seconds, connect=self._limits.connect_seconds)
        try:
            return logged_in(base, self._login, lambda: tls(self._registry), headers, timeout)
        except ProxyUnusable as error:
            raise RegistryRefused(f"{base}: {error}") from error


class _Bearer(httpx.Auth):
    """The token of each request, and what Confluent Cloud asks for beside it."""

    def __init__(self, registry: Registry) -> None:
        further = {
            "target-sr-cluster": registry.bearer_auth_logical_cluster,
            "Confluent-Identity-Pool-Id": registry.bearer_auth_identity_pool_id,
        }
        self._further = {name: text for name, text in further.items() if text}
        self._fixed = registry.token
        self._tokens = shared(
            TokenRequest(
                registry.bearer_auth_issuer_endpoint_url,
                registry.bearer_auth_client_id,
                registry.bearer_auth_client_secret,
                registry.bearer_auth_scope,
                "",
                registry.https_ca_location,
                _TOKEN_FIXES,
            )
        )

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        try:
            token = self._fixed or self._tokens.current().value
        except TokenRefused as error:
            raise RegistryLogin(str(error)) from error
        except TokenUnreachable as error:
            raise RegistryUnreachable(str(error)) from error
        request.headers.update({"Authorization": f"Bearer {token}", **self._further})
        yield request


def _login(registry: Registry) -> httpx.Auth | None:
    if registry.token or registry.bearer_auth_issuer_endpoint_url:
        return _Bearer(registry)
    if registry.username:
        return httpx.BasicAuth(registry.username.encode(), registry.password.encode())
    return None


def _certificate_fix(text: str) -> str:
    """What a person does about a certificate of either side, by OpenSSL's words; empty for another error."""
    if words.is_unverified(text):
        return "correct ssl_ca_location of [registry] in the role's platform file, or the host's name in url"
    if words.is_certificate_refused(text):
        return (
            "give ssl_certificate_location of [registry] a certificate that has not ended, of a CA that the "
            "registry trusts"
        )
    return ""


def _target(path: tuple[str, ...]) -> str:
    return "/" + "/".join(quote(part, safe="") for part in path)


def tls(registry: Registry, *, is_patient: bool = True) -> ssl.SSLContext:
    """How a server of the registry is verified, and this client. Raises RegistryLogin for files that cannot
    be used; unless ``is_patient`` at once."""
    try:
        context = trusting(registry.ssl_ca_location)
    except CertificateUnusable as error:
        raise _unusable(f"ssl_ca_location: {error}") from error
    if registry.ssl_certificate_location:
        found = ClientCertificate(
            registry.ssl_certificate_location, registry.ssl_key_location, registry.ssl_key_password
        )
        try:
            load(context, found, is_patient=is_patient)
        except CertificateUnusable as error:
            raise _unusable(f"ssl_certificate_location: {error}") from error
        if said := ended(found.certificate):
            raise RegistryLogin(f"[registry]: {said}. {RENEW_FIX}")
    return context


def _unusable(said: str) -> RegistryLogin:
    return RegistryLogin(
        f"[registry] {said}. Fix: put readable PEM files there, a key that is the certificate's, and its "
        "passphrase as ssl_key_password"
    )


def _body(response: httpx.Response, url: str, deadline: float) -> bytes:
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise RegistryRefused(f"{url} answered compressed, which was not asked for. {_FIX_URL}")
    found = bytearray()
    for part in response.iter_raw():
        found += part
        if len(found) > MAX_ANSWER_BYTES:
            raise Oversize(f"{url} answered more than {MAX_ANSWER_BYTES >> 20} MiB. {_FIX_URL}")
        if time.monotonic() > deadline:
            raise _too_slow(url)
    return bytes(found)


def _too_slow(url: str) -> RegistryUnreachable:
    return RegistryUnreachable(f"{url} was still sending its answer after its time")


def _excerpt(body: bytes) -> str:
    return quoted(body[:500].decode(errors="replace")) if body else "without a text"


def _redirect(response: httpx.Response) -> str:
    return host_of(urljoin(str(response.url), response.headers.get("Location", "")))
