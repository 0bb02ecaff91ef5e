"""A feed's client follows a redirect to a declared host only: who answers decides what is loaded."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import httpx

from sluice.model.spec.config import ConfigError

log = logging.getLogger(__name__)

MAX_REDIRECTS = 5
_MAX_SHOWN = 300


def open_feed(
    http: httpx.Client, url: str, headers: Mapping[bytes, bytes], allowed: Collection[str]
) -> httpx.Response:
    """The open response of the feed, or of a host in ``allowed`` (lower case) to which it redirects; ``http``
    follows none itself. Raises ConfigError for any other redirect, httpx.HTTPError."""
    request = http.build_request("GET", url, headers=dict(headers))
    for _ in range(MAX_REDIRECTS + 1):
        response = http.send(request, stream=True)
        following = response.next_request
        if following is None:
            return response
        response.close()
        _check(request.url, following.url, allowed)
        log.info("redirected host=%s", following.url.host)
        request = following
    raise httpx.TooManyRedirects(f"more than {MAX_REDIRECTS} redirects", request=request)


def _check(source: httpx.URL, target: httpx.URL, allowed: Collection[str]) -> None:
    # Without user, password and query.
    shown = f"{target.scheme}://{target.netloc.decode()}{target.path}"[:_MAX_SHOWN]
    found = f"the feed at {source.scheme}://{source.netloc.decode()} redirects to {shown}"
    if source.scheme == "https" and target.scheme != "https":
        raise ConfigError(f"{found}, without encryption, which is never followed. Fix: correct [feed] url")
    if target.host.lower() not in allowed:
        raise ConfigError(
            f"{found}, which is not declared. Fix: correct [feed] url, or, if that host may answer for it, "
            f'set [feed] allow_redirects_to = ["{target.host}"]'
        )
