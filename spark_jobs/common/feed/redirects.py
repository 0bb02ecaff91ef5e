"""A feed's client follows a redirect to the feed's own host and to a declared one only: who answers decides
what is loaded."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import httpx

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import host_of

log = logging.getLogger(__name__)

MAX_REDIRECTS = 5


def open_feed(
    http: httpx.Client, url: str, headers: Mapping[bytes, bytes], allowed: Collection[str]
) -> httpx.Response:
    """The open response of the feed, or of its own host or one in ``allowed`` (lower case), to which it
    redirects; ``http`` follows none itself. Raises ConfigError for any other redirect, httpx.HTTPError."""
    request = http.build_request("GET", url, headers=dict(headers))
    allowed = {*allowed, _host(request.url)}
    for _ in range(MAX_REDIRECTS + 1):
        response = _send(http, request)
        following = response.next_request
        if following is None:
            return response
        response.close()
        _check(request.url, following.url, allowed)
        log.info("redirected host=%s", _host(following.url))
        request = following
    raise httpx.TooManyRedirects(f"more than {MAX_REDIRECTS} redirects", request=request)


def _send(http: httpx.Client, request: httpx.Request) -> httpx.Response:
    try:
        return http.send(request, stream=True)
    # httpx makes the next request of an answer: of an address without a host, or with a broken name.
    except (httpx.InvalidURL, UnicodeError) as error:
        message = f"the server redirects to no address: {error}"
        raise httpx.RemoteProtocolError(message, request=request) from error


def _host(url: httpx.URL) -> str:
    """As it is declared: ASCII, whatever letters its name has."""
    return url.raw_host.decode("ascii").lower()


def _check(source: httpx.URL, target: httpx.URL, allowed: Collection[str]) -> None:
    found = f"the feed at {host_of(str(source))} redirects to {host_of(str(target))}"
    if source.scheme == "https" and target.scheme != "https":
        raise ConfigError(f"{found}, without encryption, which is never followed. Fix: correct [feed] url")
    if _host(target) not in allowed:
        raise ConfigError(
            f"{found}, which is not declared. Fix: correct [feed] url, or, if that host may answer for it, "
            f'set [feed] allow_redirects_to = ["{_host(target)}"]'
        )
