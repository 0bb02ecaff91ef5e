"""httpx's client for requests with a login, which goes to no other address than it is meant for."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import httpx

from sluice.config.reading.urls import is_loopback


def logged_in(
    url: str,
    login: httpx.Auth | None,
    tls: Callable[[], ssl.SSLContext],
    headers: Mapping[str, str],
    timeout: httpx.Timeout,
) -> httpx.Client:
    """For requests to ``url`` and below. ``tls``: asked for an ``https://`` one. No redirect is followed."""
    parts = urlsplit(url)
    return httpx.Client(
        auth=login,
        headers={"User-Agent": "sluice", **headers},
        verify=tls() if parts.scheme == "https" else False,
        timeout=timeout,
        follow_redirects=False,
        # No proxy stands between this machine and itself.
        trust_env=not is_loopback(parts.hostname or ""),
    )
